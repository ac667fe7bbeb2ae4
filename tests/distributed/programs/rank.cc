// One process of a gang, for tests: initialises from its environment, says so, does what its argument
// says, with TEST_AWAITS_SIGNAL once it gets SIGUSR1.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/distributed/agreement.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/health.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/distributed/phase.h"
#include "lockstep/distributed/preemption.h"
#include "lockstep/support/error.h"

namespace ld = lockstep::distributed;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

milliseconds from_environment(const char* name, milliseconds otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : milliseconds(std::atol(text));
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void sleep() { std::this_thread::sleep_for(seconds(60)); }

// What a program does that waits for another and lets the error through to main.
int wait_and_catch() {
  try {
    ld::kv().get("never", seconds(60));
  } catch (const lockstep::Error& e) {
    say(std::string("caught ") + to_string(e.code()) + ": " + e.what());
    return 3;
  }
  return 0;
}

const std::map<std::string, std::function<int()>> acts = {
    {"barrier",
     [] {
       ld::barrier("b", seconds(20));
       say("passed");
       ld::shutdown();
       return 0;
     }},
    {"return", [] { return 0; }},
    {"wait", [] { return ld::kv().get("never", seconds(60)).empty() ? 1 : 0; }},
    {"catch", wait_and_catch},
    {"sleep",
     [] {
       ld::PhaseScope phase("napping");
       sleep();
       return 0;
     }},
    {"sleep_known",  // says when the coordinator knows that it sleeps
     [] {
       ld::PhaseScope phase("napping");
       while (ld::client().tasks()[static_cast<std::size_t>(ld::process_index())].phase.find("napping") != 0)
         std::this_thread::sleep_for(milliseconds(20));
       say("known");
       sleep();
       return 0;
     }},
    {"preempted",  // told so, and taken away before it could save
     [] {
       ld::reached_preemption_sync_point(0);
       std::raise(SIGTERM);
       ld::reached_preemption_sync_point(1);
       say("noticed");
       std::raise(SIGKILL);
       return 0;
     }},
    {"saves",
     [] {
       int step = 0;
       while (!ld::reached_preemption_sync_point(step)) {
         if (++step == 5 && ld::process_index() == 1) ld::notify_preemption();
         ld::barrier("step", seconds(20));
       }
       say("saved at " + std::to_string(step));
       ld::shutdown();
       return 0;
     }},
    {"survive",  // takes over after a failure
     [] {
       int status = wait_and_catch();
       ld::shutdown();
       std::this_thread::sleep_for(seconds(1));
       say("survived");
       return status;
     }},
    {"subscribe",
     [] {
       auto subscription = ld::on_failure([](const ld::Failure& f) { say("told: " + f.message); });
       sleep();
       return 0;
     }},
    {"throw", []() -> int { throw std::runtime_error("out of cheese"); }},
    {"exit5",
     [] {
       std::exit(5);
       return 0;
     }},
    {"exit0",
     [] {
       std::exit(0);
       return 0;
     }},
    {"_exit0",
     [] {
       ::_exit(0);
       return 0;
     }},
    {"segfault",
     [] {
       std::signal(SIGSEGV, SIG_DFL);
       std::raise(SIGSEGV);
       return 0;
     }},
    {"agree_a",
     [] {
       ld::agree(ld::client(), "launch 1", "a", "same\nfirst", seconds(20));
       return 0;
     }},
    {"agree_b",
     [] {
       ld::agree(ld::client(), "launch 1", "b", "same\nsecond", seconds(20));
       return 0;
     }},
    {"missing_at_barrier",
     [] {
       ld::barrier("save", milliseconds(500));
       return 0;
     }},
    {"twice",
     [] {
       ld::barrier("first gang", seconds(20));
       ld::shutdown();
       ld::initialize();
       ld::barrier("second gang", seconds(20));
       say("twice");
       ld::shutdown();
       return 0;
     }},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || !acts.contains(argv[1])) return 2;
  sigset_t go;
  sigemptyset(&go);
  sigaddset(&go, SIGUSR1);
  bool waits = std::getenv("TEST_AWAITS_SIGNAL") != nullptr;  // before it acts
  if (waits) pthread_sigmask(SIG_BLOCK, &go, nullptr);
  // As in what a shell has started in the background.
  if (std::getenv("TEST_IGNORES_SIGQUIT")) std::signal(SIGQUIT, SIG_IGN);
  ld::set_runtime_hooks({.local_device_count = [](const std::vector<int>&) { return 2; },
                         .plugin = [] { return std::string("test plugin 1"); },
                         .settings =
                             [] {
                               const char* x64 = std::getenv("TEST_X64");
                               return std::map<std::string, std::string>{{"jax_enable_x64", x64 ? x64 : "false"}};
                             }});
  try {
    ld::initialize({.initialization_timeout = from_environment("TEST_INIT_MS", seconds(20)),
                    .heartbeat_timeout = from_environment("TEST_HEARTBEAT_MS", seconds(20)),
                    .shutdown_timeout = from_environment("TEST_SHUTDOWN_MS", seconds(20)),
                    .exit_on_failure = std::getenv("TEST_NO_EXIT") == nullptr,
                    .failure_grace = from_environment("TEST_GRACE_MS", milliseconds(300))});
  } catch (const lockstep::Error& e) {
    say(std::string("refused ") + to_string(e.code()) + ": " + e.what());
    return 4;
  }
  say("joined " + std::to_string(ld::process_index()) + " of " + std::to_string(ld::process_count()));
  int signal = 0;
  if (waits) sigwait(&go, &signal);
  return acts.at(argv[1])();
}

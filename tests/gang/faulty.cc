// A program that has a fault on request. usage: faulty STATE FAULT VICTIM
//   STATE: idle, compiling, collective, loading. All processes come into it and say "in STATE"; in `loading` the victim
//   loads and the others wait for it in a collective.
//   FAULT: what the process VICTIM does when it gets SIGUSR1: segfault, exit, throw, nothing.
#include <lockstep/lockstep.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::P;
using namespace std::chrono_literals;

namespace {

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

// On a thread of its own, so that the program may be anywhere when it happens.
void wait_for_fault(const std::string& fault, const sigset_t& set) {
  int number = 0;
  ::sigwait(&set, &number);
  if (fault == "segfault") {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (fault == "exit") ::_exit(0);
  if (fault == "throw") throw std::runtime_error("no more cheese");
}

void enter(const std::string& state, bool victim) {
  if (state == "idle") {
    say("in idle");
    std::this_thread::sleep_for(120s);
    return;
  }
  auto mesh = ls::make_mesh({{"data", -1}});
  Array x = ls::device_put(np::ones({8 * ls::device_count(), 16}), {mesh, P("data")});
  auto step = ls::jit([](Array x) { return x + 0 * np::sum(x); }, {.name = "step"});
  x = step(x);
  x.block_until_ready();
  say("in " + state);
  if (state == "compiling") {
    auto large = ls::jit(
        [](Array x) {
          for (int i = 0; i < 3000; ++i) x = np::sin(np::matmul(x.T(), x * (1.0 + i))).T() + np::sum(x, {.axis = 0});
          return x;
        },
        {.name = "large"});
    large(np::ones({16, 16})).block_until_ready();
    std::this_thread::sleep_for(120s);
  }
  if (state == "loading" && victim) {
    ls::distributed::PhaseScope phase("loading data");
    std::this_thread::sleep_for(120s);
  }
  for (;;) {
    x = step(x);
    x.block_until_ready();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const char* beats = std::getenv("FAULTY_HEARTBEAT");
  ls::distributed::initialize(
      {.heartbeat_timeout = std::chrono::milliseconds(beats == nullptr ? 100000 : std::atoi(beats)),
       .failure_grace = 500ms});
  std::thread(wait_for_fault, std::string(argv[2]), set).detach();
  enter(argv[1], ls::process_index() == std::atoi(argv[3]));
}

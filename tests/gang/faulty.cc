// A program that has a fault on request. usage: faulty STATE FAULT VICTIM
//   STATE: idle, compiling, collective, loading. All processes come into it and say "in STATE"; in `loading` the victim
//   loads and the others wait for it in a collective.
//   FAULT: what the process VICTIM does when it gets SIGUSR1: segfault, exit, _exit, throw, allocate, save, nothing.
#include <lockstep/lockstep.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// As a program does that saves its state in the present directory.
void save() {
  std::FILE* file = std::fopen("checkpoint", "w");
  std::string block(1 << 16, 'x');
  bool good = file != nullptr;
  for (int i = 0; good && i < 64; ++i)
    good = std::fwrite(block.data(), 1, block.size(), file) == block.size() && std::fflush(file) == 0;
  if (!good) throw std::runtime_error(std::string("saving checkpoint: ") + std::strerror(errno));
  std::fclose(file);
}

[[noreturn]] void allocate() {
  for (constexpr std::size_t block = 4 << 20;;) std::memset(std::malloc(block), 1, block);
}

// On a thread of its own, so that the program may be anywhere when it happens.
void wait_for_fault(const std::string& fault, const sigset_t& set) {
  int number = 0;
  ::sigwait(&set, &number);
  if (fault == "segfault") {
    std::signal(SIGSEGV, SIG_DFL);
    std::raise(SIGSEGV);
  }
  if (fault == "_exit") ::_exit(0);
  if (fault == "exit") std::exit(0);
  if (fault == "throw") throw std::runtime_error("no more cheese");
  if (fault == "allocate") allocate();
  if (fault == "save") save();
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

std::chrono::milliseconds from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return std::chrono::milliseconds(text == nullptr ? otherwise : std::atoi(text));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ls::distributed::initialize({.initialization_timeout = from_environment("FAULTY_INITIALIZATION", 60000),
                               .heartbeat_timeout = from_environment("FAULTY_HEARTBEAT", 100000),
                               .shutdown_timeout = from_environment("FAULTY_SHUTDOWN", 60000),
                               .failure_grace = 500ms});
  std::thread(wait_for_fault, std::string(argv[2]), set).detach();
  enter(argv[1], ls::process_index() == std::atoi(argv[3]));
}

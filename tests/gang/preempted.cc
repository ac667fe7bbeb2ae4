// A program that saves when it is about to be taken away. Prints "step N" now and then and "saved at N".
// usage: preempted [STEPS [the step at which process 1 sleeps instead of going on]]
#include <lockstep/lockstep.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::P;

int main(int argc, char** argv) {
  int steps = argc > 1 ? std::atoi(argv[1]) : 1000000, stop = argc > 2 ? std::atoi(argv[2]) : -1;
  ls::distributed::initialize();
  auto mesh = ls::make_mesh({{"data", -1}});
  Array x = ls::device_put(np::ones({8 * ls::device_count()}), {mesh, P("data")});
  auto step = ls::jit([](Array x) { return x + 0 * np::sum(x); });
  for (int i = 0; i < steps; ++i) {
    x = step(x);
    x.block_until_ready();
    if (i % 20 == 0) std::printf("step %d\n", i), std::fflush(stdout);
    if (i == stop && ls::process_index() == 1) std::this_thread::sleep_for(std::chrono::seconds(60));
    if (ls::multihost_utils::reached_preemption_sync_point(i)) {
      std::printf("saved at %d\n", i);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ls::distributed::shutdown();
}

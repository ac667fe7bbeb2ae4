// All-reduce between two local processes: time per call and bytes per second, for small and large buffers.
//   allreduce [shared|gloo|grpc]
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>
#include <thread>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/collectives/gloo_transport.h"
#include "lockstep/collectives/grpc_transport.h"
#include "lockstep/collectives/shared_transport.h"
#include "tests/collectives/file_store.h"

namespace lc = lockstep::collectives;
using lc::testing::FileStore;
using lockstep::DType;
using lockstep::Error;
using Clock = std::chrono::steady_clock;

namespace {

void measure(lc::Engine& engine, const std::string& transport) {
  engine.add_communicator({1, {0, 1}});
  auto spec = std::make_shared<lc::CollectiveSpec>(lc::CollectiveSpec{.op = lc::CollectiveOp::all_reduce,
                                                                      .reduction = lc::Reduction::add,
                                                                      .groups = {0, 1},
                                                                      .group_size = 2,
                                                                      .name = "benchmark"});
  std::uint64_t launch = 0;
  for (std::size_t count : {std::size_t{1}, std::size_t{1} << 10, std::size_t{1} << 18, std::size_t{1} << 24}) {
    std::vector<float> in(count, 1.0f), out(count);
    lc::InBuffer input{in.data(), count * 4, DType::float32, count, {}};
    lc::OutBuffer output{out.data(), count * 4, DType::float32, count, {}};
    std::vector<double> times;
    int rounds = count < (1 << 20) ? 2000 : 20;
    for (int i = 0; i < rounds + rounds / 10 + 1; ++i) {
      std::promise<void> ended;
      auto start = Clock::now();
      engine.start(spec, 1, ++launch, engine.rank(), {&input, 1}, {&output, 1}, [&](const Error* error) {
        if (error) fmt::print("{}\n", error->what()), std::exit(1);
        ended.set_value();
      });
      ended.get_future().wait();
      if (i > rounds / 10) times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      engine.end_launch(1, launch, engine.rank());
    }
    if (out[count - 1] != 2.0f) fmt::print("wrong result\n"), std::exit(1);
    std::sort(times.begin(), times.end());
    if (engine.rank() == 0) {
      fmt::print("all_reduce, 2 processes, {}, {:>9} B: {:>9.1f} us median, {:>9.1f} us least, {:.3f} GB/s\n",
                 transport, 4 * count, times[times.size() / 2] * 1e6, times[0] * 1e6,
                 4e-9 * count / times[times.size() / 2]);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string transport = argc > 1 ? argv[1] : "shared";
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
  std::string directory = ::mkdtemp(pattern.data());
  pid_t child = ::fork();
  int rank = child == 0 ? 1 : 0;
  int status = 0;
  try {
    FileStore store(directory);
    auto deadline = Clock::now() + std::chrono::seconds(30);
    auto connected = transport == "grpc" ? lc::connect_grpc(store, rank, 2, deadline, {})
                                         : lc::connect_gloo(store, rank, 2, deadline, {});
    if (transport == "shared") connected = lc::with_shared_memory(std::move(connected), store, deadline);
    lc::Engine engine(std::move(connected));
    measure(engine, transport);
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
    status = 1;
  }
  if (rank == 1) std::_Exit(status);
  int other = 0;
  ::waitpid(child, &other, 0);
  std::filesystem::remove_all(directory);
  return status != 0 || other != 0;
}

// Several gangs one after another in the same processes: all three, then three times the two highest in the
// opposite order with another coordinator, then each alone. usage: gangs PORT0 PORT1, as process JAX_PROCESS_ID of
// three. Prints "ok".
#include <lockstep/lockstep.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/gang/expect.h"

namespace ls = lockstep;
namespace np = ls::numpy;
namespace ld = ls::distributed;
using ls::Array, ls::P;

namespace {

// The threads of this process, by name.
std::multiset<std::string> threads() {
  std::multiset<std::string> names;
  for (auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    names.insert(name);
  }
  return names;
}

// No more than there were after the last gang of this kind, soon.
void expect_threads(std::size_t most) {
  std::multiset<std::string> now;
  for (auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10); (now = threads()).size() > most;) {
    std::string names;
    for (auto& name : now) names += " " + name;
    expect(std::chrono::steady_clock::now() < end, "a gang's threads end with it; there are" + names);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// A sum over all devices of a value that each process has its own of.
struct Sum {
  ls::Mesh mesh = ls::make_mesh({{"d", -1}});
  Array mine, total;
  std::function<Array(Array)> program = ls::jit([](Array x) { return np::sum(x); });

  explicit Sum(int value) {
    mine = ls::make_array_from_process_local_data({mesh, P("d")}, np::full({ls::local_device_count()}, value));
    total = program(mine);
  }
};

void refused(const Sum& old) {
  try {
    old.program(old.mine);
  } catch (const ls::Error& e) {
    expect(e.code() == ls::ErrorCode::distributed && std::string(e.what()).find("has left") != std::string::npos,
           e.what());
    return;
  }
  throw std::runtime_error("a program over the mesh of a gang that was left has run");
}

void run(int id, const std::string& first, const std::string& second) {
  int devices;
  ld::initialize({.coordinator_address = first, .num_processes = 3, .process_id = id});
  devices = ls::local_device_count();
  Array local = np::arange(5) + id;
  Sum all(10 * (id + 1));
  expect(all.total.item<int>() == 60 * devices, "the sum over three");
  ls::multihost_utils::sync_global_devices("here");
  ld::shutdown();
  expect(ld::process_count() == 1, "after shutdown() a process is alone");

  for (std::size_t round = 0, left = 0; id > 0 && round < 3; ++round) {
    int place = 2 - id;
    ld::initialize({.coordinator_address = second, .num_processes = 2, .process_id = place});
    expect(ls::process_index() == place && ls::device_count() == 2 * devices, "devices of the second gang");
    refused(all);
    expect(all.mine.addressable_shards().front().data.item<int>() == 10 * (id + 1), "old shards can be read");
    expect(np::sum(local * 2).item<int>() == 2 * (10 + 5 * id), "local arrays live on");
    Sum two(place + 1);
    expect(two.total.item<int>() == 3 * devices, "the sum over two");
    ls::multihost_utils::sync_global_devices("here");
    ld::barrier("also", std::chrono::seconds(60));
    ld::shutdown();
    refused(two);
    if (round > 0) expect_threads(left);
    left = threads().size();
  }
  for (std::size_t round = 0, left = 0; round < 3; ++round) {
    ld::initialize({.num_processes = 1, .process_id = 0});
    Sum alone(id);
    expect(alone.total.item<int>() == id * devices, "the sum of one");
    expect(np::sum(local).item<int>() == 10 + 5 * id, "local arrays live on");
    ld::shutdown();
    if (round > 0) expect_threads(left);
    left = threads().size();
  }
}

}  // namespace

int main(int, char** argv) {
  try {
    run(std::atoi(std::getenv("LOCKSTEP_TEST_ID")), argv[1], argv[2]);
    std::printf("ok\n");
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}

// Programs over meshes of some of three processes, while the others do something else. usage: some_processes [die]
// With "die" process 2 is killed before anything has run over a mesh. Prints "ok".
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/gang/expect.h"

namespace ls = lockstep;
namespace np = ls::numpy;
namespace ld = ls::distributed;
using ls::Array, ls::P;

namespace {

std::vector<ls::Device> devices_of(const std::vector<int>& processes) {
  std::vector<ls::Device> result;
  for (int p : processes)
    for (const ls::Device& d : ls::devices())
      if (d.process_index == p) result.push_back(d);
  return result;
}

// Over all devices of these processes: the sum of what each of them has.
int sum_over(const std::vector<int>& processes, int mine) {
  auto mesh = ls::make_mesh({{"d", -1}}, devices_of(processes));
  auto sum = ls::jit([](Array x) { return np::sum(x); });
  return sum(ls::make_array_from_process_local_data({mesh, P("d")}, np::full({ls::local_device_count()}, mine)))
      .item<int>();
}

void meet(const char* name) { ld::barrier(name, std::chrono::seconds(60)); }

void run(int me) {
  const int devices = ls::local_device_count();
  const int mine = 1 << me;
  // Nobody else is asked.
  if (me == 0) expect(sum_over({0}, mine) == devices, "a sum over the devices of one process");
  meet("one");
  if (me != 0) expect(sum_over({1, 2}, mine) == 6 * devices, "a sum over two");
  meet("two");
  if (me != 1) expect(sum_over({2, 0}, mine) == 5 * devices, "a sum over two others, the higher first");
  if (me == 1) expect(sum_over({1}, mine) == 2 * devices, "a sum over one meanwhile");
  expect(sum_over({0, 1, 2}, mine) == 7 * devices, "a sum over all");
  ls::multihost_utils::sync_global_devices("all");
  if (me == 0) {
    try {
      sum_over({1, 2}, mine);
      throw std::runtime_error("a program over a mesh of others has run");
    } catch (const ls::Error& e) {
      expect(e.code() == ls::ErrorCode::sharding, e.what());
    }
  }
  // Whoever waits for another process keeps no other thread from its own.
  if (me == 0) {
    auto both = std::async(std::launch::async, [&] { return sum_over({0, 1}, mine); });
    auto mesh = ls::make_mesh({{"a", 1}, {"b", -1}}, ls::local_devices());
    auto twice = ls::jit([](Array x) { return x + x; });
    expect(np::sum(twice(ls::device_put(np::ones({1, devices}), {mesh, P("a", "b")}))).item<int>() == 2 * devices,
           "a sum beside one that waits");
    ld::kv().set("done", "yes");
    expect(both.get() == 3 * devices, "a sum in another thread");
  } else if (me == 1) {
    ld::kv().get("done", std::chrono::seconds(60));
    expect(sum_over({0, 1}, mine) == 3 * devices, "a sum with another thread");
  }
  meet("end");
}

void run_without(int me) {
  if (me == 2) std::raise(SIGKILL);
  std::vector<int> processes{0, 1, 2};
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      int sum = sum_over(processes, 1 << me);
      expect(sum == 3 * ls::local_device_count(), "the sum of those that are left");
      expect(sum_over(processes, 1 << me) == sum, "and again");
      return;
    } catch (const ls::Error& e) {
      if (e.code() != ls::ErrorCode::peer) throw;
      processes = ld::live_processes();
    }
  }
  throw std::runtime_error("the two that are left do not come together");
}

}  // namespace

int main(int argc, char**) {
  try {
    ld::initialize();
    argc > 1 ? run_without(ls::process_index()) : run(ls::process_index());
    ld::shutdown();
    std::printf("ok\n");
  } catch (const std::exception& e) {
    std::printf("%s\n", e.what());
    return 1;
  }
}

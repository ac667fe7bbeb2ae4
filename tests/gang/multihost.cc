// multihost_utils and the control channel's functions, on each process of a gang of any size. Prints "ok".
#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/gang/expect.h"

namespace ls = lockstep;
namespace np = ls::numpy;
namespace mh = ls::multihost_utils;
namespace ld = ls::distributed;
using ls::Array, ls::P;
using namespace std::chrono_literals;

namespace {

template <class F>
std::string error_of(ls::ErrorCode code, F f) {
  try {
    f();
  } catch (const ls::Error& e) {
    expect(e.code() == code, e.what());
    return e.what();
  }
  throw std::runtime_error("nothing was thrown");
}

struct State {
  Array step, flag, half;
  std::vector<Array> weights;
};

void run() {
  const int me = ls::process_index(), n = ls::process_count();
  auto mine = [&](int process) {
    return State{np::array({100 * process, 7}),
                 np::array({process == 0, process == 1}),
                 np::array({1.5 * process, -2.0}, ls::DType::bfloat16),
                 {np::full({2, 3}, 1.25f * process + 0.5f)}};
  };

  mh::sync_global_devices("start");
  for (int source : {0, n - 1}) {
    State got = mh::broadcast_one_to_all(mine(me), me == source), want = mine(source);
    auto a = ls::tree::leaves(got), b = ls::tree::leaves(want);
    for (std::size_t i = 0; i < a.size(); ++i) {
      expect(a[i].dtype() == b[i].dtype() && a[i].shape() == b[i].shape(), "a broadcast leaf keeps its type");
      expect(ls::to_vector<double>(a[i]) == ls::to_vector<double>(b[i]), "a broadcast leaf is the source's");
      expect(a[i].is_fully_addressable(), "and lies here");
    }
  }
  expect(mh::broadcast_one_to_all(Array(me + 5)).item<int>() == 5, "process 0 is the source by default");

  Array stacked = mh::process_allgather(np::array({me, 10 + me}));
  Array joined = mh::process_allgather(np::array({me, 10 + me}), {.tiled = true});
  Array scalars = mh::process_allgather(Array(2.5 * me), {.tiled = true});
  expect(stacked.shape() == ls::Shape(n, 2) && joined.shape() == ls::Shape(2 * n) && scalars.shape() == ls::Shape(n),
         "shapes of gathered arrays");
  auto flat = ls::to_vector<int>(stacked), same = ls::to_vector<int>(joined);
  auto numbers = ls::to_vector<double>(scalars);
  for (int p = 0; p < n; ++p) {
    auto i = static_cast<std::size_t>(p);
    expect(flat[2 * i] == p && flat[2 * i + 1] == 10 + p, "stacked in the order of the processes");
    expect(numbers[i] == 2.5 * p, "scalars too");
  }
  expect(flat == same, "joined is the same data");
  auto mesh = ls::make_mesh({{"d", -1}});
  Array whole = np::arange(4 * ls::device_count());
  Array spread = ls::device_put(whole, {mesh, P("d")});
  expect(ls::to_vector<int>(mh::process_allgather(spread, {.tiled = true})) == ls::to_vector<int>(whole),
         "an array that spans processes is made whole");
  if (n > 1) error_of(ls::ErrorCode::sharding, [&] { mh::process_allgather(spread); });

  mh::assert_equal(mine(3), "equal everywhere");
  mh::assert_equal(spread);
  if (n > 1) {
    State odd = mine(3);
    if (me == 1) odd.weights[0] = odd.weights[0] + 1.0f;
    std::string text = error_of(ls::ErrorCode::diverged, [&] { mh::assert_equal(odd, "weights"); });
    for (const char* part : {"assert_equal: weights", ".weights[0]: f32[2,3]", "process 1", "multihost.cc:"})
      expect(text.find(part) != std::string::npos, std::string(part) + " is not in: " + text);
    text = error_of(ls::ErrorCode::diverged, [&] { mh::sync_global_devices(me == 0 ? "here" : "there"); });
    expect(text.find("'here'") != std::string::npos && text.find("'there'") != std::string::npos, text);
  }

  auto kv = ld::kv();
  kv.set("users/" + std::to_string(me), std::string("\0bytes", 6));
  for (int p = 0; p < n; ++p) expect(kv.get("users/" + std::to_string(p), 20s).size() == 6, "kv.get");
  ld::barrier("set", 20s);
  expect(kv.directory("users").size() == static_cast<std::size_t>(n), "kv.directory");
  expect(!kv.try_get("nobody"), "kv.try_get");
  kv.increment("count", 2);
  ld::barrier("counted", 20s);
  expect(kv.increment("count", 0) == 2 * n, "kv.increment");
  ld::barrier("read", 20s);
  if (me == 0) kv.erase("users");
  ld::barrier("erased", 20s);
  expect(kv.directory("users").empty(), "kv.erase");
  error_of(ls::ErrorCode::timeout, [&] { kv.get("never", 50ms); });
  if (me == 0) ld::barrier("of one", 20s, {0});
}

}  // namespace

int main() {
  ld::initialize();
  try {
    run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "process %d: %s\n", ls::process_index(), e.what());
    return 1;
  }
  std::printf("ok\n");
  ld::shutdown();
}

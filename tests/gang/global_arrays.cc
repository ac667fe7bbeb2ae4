// Arrays that span processes, made, moved, cut and looked at on each of them. Prints "ok" once for each process.
#include <lockstep/lockstep.h>

#include <cstdio>

#include "tests/gang/expect.h"

namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::none, ls::P;

namespace {

// Row i of the whole is 100 times the process it comes from plus its place there; each process has two rows of four.
float element(std::int64_t row, std::int64_t column) {
  return static_cast<float>(100 * (row / 2) + 4 * (row % 2) + column);
}

void expect_shards(const Array& a, float factor) {
  for (const ls::Shard& s : a.addressable_shards()) {
    auto data = ls::device_get<float>(s.data);
    expect(data.shape() == s.index.shape(), "a shard has its region's shape");
    for (std::int64_t i = 0; i < data.shape(0); ++i)
      for (std::int64_t j = 0; j < data.shape(1); ++j)
        expect(data(i, j) == factor * element(s.index.start(0) + i, s.index.start(1) + j), "a shard has its part");
  }
}

void run() {
  const std::int64_t n = ls::process_count();
  auto mesh = ls::make_mesh({{"p", n}, {"d", -1}});
  expect(ls::device_count() == n * ls::local_device_count(), "all devices are known");

  std::vector<float> mine;
  for (int i = 0; i < 8; ++i) mine.push_back(static_cast<float>(100 * ls::process_index() + i));
  Array a = ls::make_array_from_process_local_data({mesh, P("p", "d")}, np::asarray(std::move(mine), {2, 4}));
  expect(a.shape() == ls::Shape(2 * n, 4), "the global shape follows from the sharding");
  expect(a.is_fully_addressable() == (n == 1), "is_fully_addressable");
  expect_shards(a, 1);
  if (n > 1) {
    try {
      ls::device_get<float>(a);
      expect(false, "parts of other processes can't be read");
    } catch (const ls::Error& e) {
      expect(e.code() == ls::ErrorCode::sharding, e.what());
    }
  }

  auto twice = ls::jit([mesh](Array x) { return ls::lax::with_sharding_constraint(x * 2.0, {mesh, P(none, "d")}); });
  Array b = twice(a);
  expect_shards(b, 2);
  auto all = ls::to_vector<float>(ls::device_put(b, {mesh, P()}));
  for (std::size_t i = 0; i < all.size(); ++i)
    expect(all[i] == 2 * element(static_cast<std::int64_t>(i / 4), static_cast<std::int64_t>(i % 4)), "gathered");

  // Every process gives the whole and keeps its part; then its part on request.
  Array whole = ls::device_put(np::array(all, {2 * n, 4}), {mesh, P("p")});
  expect_shards(whole, 2);
  Array asked = ls::make_array_from_callback({2 * n, 4}, {mesh, P("p", "d")}, [&](const ls::Region& r) {
    std::vector<float> part;
    for (auto i = r.start(0); i < r.stop(0); ++i)
      for (auto j = r.start(1); j < r.stop(1); ++j) part.push_back(element(i, j));
    return np::array(part, r.shape());
  });
  expect_shards(asked, 1);
  expect(np::sum(asked).item<float>() * 2 == np::sum(whole).item<float>(), "sums of global arrays");
}

}  // namespace

int main() {
  ls::distributed::initialize();
  try {
    run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "process %d: %s\n", ls::process_index(), e.what());
    return 1;
  }
  std::printf("ok\n");
  ls::distributed::shutdown();
}

// Programs over a mesh of four local devices: shardings, constraints and shard_map, against the same on one device.
#include <gtest/gtest.h>

#include "lockstep/lockstep.h"

namespace {

namespace ls = lockstep;
namespace np = ls::numpy;
namespace lax = ls::lax;
using ls::Array, ls::P;

ls::Mesh grid() { return ls::make_mesh({{"x", 2}, {"y", 2}}); }
Array numbers(int rows, int columns) { return np::linspace(-1, 1, rows * columns).reshape({rows, columns}); }
double difference(const Array& a, const Array& b) { return np::max(np::abs(a - b)).item<double>(); }

TEST(Mesh, ShardingsSplitAndTheCompilerDoesTheRest) {
  ls::NamedSharding tiles(grid(), P("x", "y")), rows(grid(), P("x"));
  Array a = numbers(8, 8), b = numbers(8, 8);
  Array whole = np::matmul(np::tanh(a), b);
  auto f = ls::jit([](Array a, Array b) { return np::matmul(np::tanh(a), b); }, {.out_shardings = rows});
  Array split = f(ls::device_put(a, tiles), ls::device_put(b, tiles));
  EXPECT_LT(difference(split, whole), 1e-5);
  EXPECT_FALSE(f.collectives().empty());
  Array eager = ls::device_put(a, tiles) * 2 + 1;  // operation by operation, the same
  EXPECT_LT(difference(eager, a * 2 + 1), 1e-6);
}

TEST(Mesh, GradientsOfReplicatedParametersAreSummed) {
  ls::NamedSharding batch(grid(), P({"x", "y"})), everywhere(grid(), P());
  Array w = numbers(4, 3), x = numbers(8, 4);
  auto loss = [](Array w, Array x) { return np::mean(np::square(np::matmul(x, w))); };
  Array want = ls::grad(loss)(w, x);
  auto g = ls::jit(ls::grad(loss), {.out_shardings = everywhere});
  EXPECT_LT(difference(g(w, ls::device_put(x, batch)), want), 1e-5);
}

TEST(Mesh, ConstraintsInsideAProgram) {
  ls::NamedSharding tiles(grid(), P("x", "y"));
  Array a = numbers(8, 8);
  auto f = ls::jit([&](Array a) { return lax::with_sharding_constraint(np::sin(a), tiles) * 2; });
  EXPECT_LT(difference(f(a), np::sin(a) * 2), 1e-6);
}

TEST(ShardMap, CollectivesByName) {
  Array a = numbers(8, 8);
  auto sum = ls::shard_map([](Array u) { return lax::psum(u, "x"); },
                           {.mesh = grid(), .in_specs = P("x", "y"), .out_specs = P(ls::none, "y")});
  EXPECT_LT(difference(ls::jit(sum)(a), a[{ls::slice(0, 4)}] + a[{ls::slice(4, 8)}]), 1e-6);
  auto index = ls::shard_map([](Array u) { return u * 0 + lax::axis_index("x") * 10 + lax::axis_index("y"); },
                             {.mesh = grid(), .in_specs = P("x", "y"), .out_specs = P("x", "y")});
  Array i = ls::jit(index)(a);
  EXPECT_EQ((i[{0, 0}].item<int>()), 0);
  EXPECT_EQ((i[{7, 7}].item<int>()), 11);
  auto ring = ls::shard_map(
      [](Array u) {
        return lax::ppermute(u, "x", {{0, 1}, {1, 0}});
      },
      {.mesh = grid(), .in_specs = P("x"), .out_specs = P("x")});
  EXPECT_LT(difference(ls::jit(ring)(a), np::roll(a, 4, 0)), 1e-6);
}

TEST(ShardMap, IsDifferentiable) {
  auto product =
      ls::shard_map([](Array x, Array w) { return lax::psum(np::matmul(x, np::tanh(w)), "y"); },
                    {.mesh = grid(), .in_specs = {P("x", "y"), P("y", ls::none)}, .out_specs = P("x", ls::none)});
  auto loss = [&](Array w, Array x) { return np::mean(np::square(product(x, w))); };
  auto plain = [](Array w, Array x) { return np::mean(np::square(np::matmul(x, np::tanh(w)))); };
  Array w = numbers(8, 4), x = numbers(8, 8);
  EXPECT_LT(difference(ls::jit(ls::grad(loss))(w, x), ls::grad(plain)(w, x)), 1e-5);
  auto both = ls::vmap(product, {.in_axes = {0, ls::none}});
  Array xs = np::stack({x, 2 * x});
  EXPECT_LT(difference(ls::jit(both)(xs, w)[1], 2 * np::matmul(x, np::tanh(w))), 1e-5);
}

TEST(ShardMap, NamesWhatDoesNotFit) {
  auto f = ls::shard_map([](Array u) { return u; }, {.mesh = grid(), .in_specs = P("x"), .out_specs = P("x")});
  try {
    f(np::ones({3}));
    FAIL();
  } catch (const ls::Error& e) {
    EXPECT_EQ(e.code(), ls::ErrorCode::sharding);
    EXPECT_NE(std::string(e.what()).find("argument 0"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("mesh_test.cc"), std::string::npos) << e.what();
  }
}

}  // namespace

// grad, jvp, vjp, vmap, control flow, custom rules and checkpoint, nested in each other: against closed forms and
// against each other. Comparison with JAX is in tests/oracle.
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/lockstep.h"

namespace {

namespace ls = lockstep;
namespace np = ls::numpy;
namespace lax = ls::lax;
using ls::Array;

double value(const Array& a) { return a.item<double>(); }
Array wave(Array x) { return np::sin(x) * x; }
double wave_1(double x) { return std::cos(x) * x + std::sin(x); }
double wave_2(double x) { return 2 * std::cos(x) - std::sin(x) * x; }

TEST(Grad, NestsInAnyOrder) {
  EXPECT_NEAR(value(ls::grad(wave)(1.5)), wave_1(1.5), 1e-5);
  EXPECT_NEAR(value(ls::grad(ls::grad(wave))(1.5)), wave_2(1.5), 1e-5);
  EXPECT_NEAR(value(ls::jit(ls::grad(ls::jit(ls::grad(ls::jit(wave)))))(1.5)), wave_2(1.5), 1e-5);
  auto forward = [](Array x) { return ls::jvp(wave, std::tuple{x}, std::tuple{1.0}).second; };
  EXPECT_NEAR(value(ls::grad(forward)(1.5)), wave_2(1.5), 1e-5);
  auto over = [](Array x) { return ls::jvp(ls::grad(wave), std::tuple{x}, std::tuple{1.0}).second; };
  EXPECT_NEAR(value(ls::jit(over)(1.5)), wave_2(1.5), 1e-5);
}

TEST(Grad, TakesTreesAndReturnsTheSame) {
  struct Model {
    std::vector<Array> weights;
    int power;
  };
  auto loss = [](const Model& m, Array x) {
    Array sum = 0.0;
    for (auto& w : m.weights) sum = sum + np::sum(np::power(w * x, static_cast<double>(m.power)));
    return sum;
  };
  Model m{{np::ones({3}), 2.0 * np::ones({3})}, 3};
  auto [l, g] = ls::value_and_grad(loss)(m, 2.0);
  EXPECT_NEAR(value(l), 3 * 8 + 3 * 64, 1e-3);
  ASSERT_EQ(g.weights.size(), 2u);
  EXPECT_EQ(g.power, 3);
  EXPECT_NEAR(value(g.weights[1][0]), 3 * 16 * 2, 1e-3);
}

TEST(Grad, SeveralArgumentsAndAuxiliaryResults) {
  auto f = [](Array x, Array y) { return std::tuple{x * y * y, x + y}; };
  auto [out, grads] = ls::value_and_grad<0, 1>(f)(2.0, 3.0);
  auto [l, aux] = out;
  EXPECT_EQ(value(l), 18);
  EXPECT_EQ(value(aux), 5);
  EXPECT_EQ(value(std::get<0>(grads)), 9);
  EXPECT_EQ(value(std::get<1>(grads)), 12);
  auto [g, a] = ls::grad<1>(f)(2.0, 3.0);
  EXPECT_EQ(value(g), 12);
  EXPECT_EQ(value(a), 5);
}

TEST(Grad, MayBranchOnValuesOutsideJit) {
  auto f = [](Array x) { return x > 0 ? x * x : -x; };
  EXPECT_EQ(value(ls::grad(f)(3.0)), 6);
  EXPECT_EQ(value(ls::grad(f)(-3.0)), -1);
}

TEST(Vjp, IsTheTransposeOfJvp) {
  auto f = [](Array x, Array y) { return np::tanh(x) * y + np::sum(x * y); };
  Array x = np::linspace(-1, 1, 4), y = np::linspace(0, 2, 4), dx = np::linspace(1, 2, 4), dy = np::linspace(-2, 0, 4);
  Array ct = np::linspace(0.5, 1.5, 4);
  auto [out, pullback] = ls::vjp(f, x, y);
  auto [cx, cy] = pullback(ct);
  auto tangent = ls::jvp(f, std::tuple{x, y}, std::tuple{dx, dy}).second;
  EXPECT_NEAR(value(np::sum(tangent * ct)), value(np::sum(cx * dx) + np::sum(cy * dy)), 1e-4);
  auto [same, linear] = ls::linearize(f, x, y);
  EXPECT_NEAR(value(np::sum(np::abs(linear(dx, dy) - tangent))), 0, 1e-5);
  EXPECT_NEAR(value(np::sum(np::abs(same - out))), 0, 1e-6);
}

TEST(Vmap, EqualsALoop) {
  auto f = [](Array w, Array x) { return np::sum(np::sin(w * x)); };
  Array w = np::linspace(0, 1, 3), xs = np::arange(6).astype(ls::DType::float32).reshape({2, 3});
  Array all = ls::vmap(f, {.in_axes = {ls::none, 0}})(w, xs);
  ASSERT_EQ(all.shape(), ls::Shape({2}));
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(value(all[i]), value(f(w, xs[i])), 1e-5);
  Array grads = ls::vmap(ls::grad(f), {.in_axes = {ls::none, 0}})(w, xs);
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(value(np::sum(np::abs(grads[i] - ls::grad(f)(w, xs[i])))), 0, 1e-5);
  Array moved = ls::vmap([](Array x) { return 2 * x; }, {.in_axes = 1, .out_axes = 1})(xs);
  EXPECT_EQ(moved.shape(), xs.shape());
  EXPECT_EQ(value(moved[{1, 2}]), 10);
}

TEST(Vmap, BindsItsAxisForCollectives) {
  auto f = [](Array x) { return x / lax::psum(x, "i"); };
  Array out = ls::vmap(f, {.axis_name = "i"})(np::arange(4).astype(ls::DType::float32));
  EXPECT_NEAR(value(np::sum(out)), 1, 1e-6);
  EXPECT_NEAR(value(out[3]), 0.5, 1e-6);
}

TEST(ControlFlow, ScanRunsAndDifferentiates) {
  auto power = [](Array x) {
    return lax::scan([&](Array c, Array a) { return std::pair{c * x + a, c}; }, 1.0, np::ones({4})).first;
  };
  // c -> c x + 1, four times from 1: 1 + x + x^2 + x^3 + x^4
  EXPECT_NEAR(value(power(0.5)), 1.9375, 1e-5);
  EXPECT_NEAR(value(ls::grad(power)(0.5)), 1 + 1 + 0.75 + 0.5, 1e-5);
  EXPECT_NEAR(value(ls::jit(ls::grad(ls::grad(power)))(0.5)), 2 + 6 * 0.5 + 12 * 0.25, 1e-4);
  Array xs = np::linspace(0, 1, 3);
  Array batch = ls::vmap(ls::grad(power))(xs);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(value(batch[i]), value(ls::grad(power)(xs[i])), 1e-4);
  auto [last, ys] = lax::scan(
      [](Array c, Array x) {
        return std::pair{c + x, c};
      },
      0.0, np::arange(4), {.reverse = true});
  EXPECT_EQ(value(last), 6);
  EXPECT_EQ(value(ys[0]), 6 - 0);
}

TEST(ControlFlow, CondAndSwitch) {
  auto f = [](Array x) {
    return lax::cond(
        x > 0, [](Array a) { return np::sin(a); }, [](Array a) { return a * a; }, x);
  };
  for (double x : {1.0, -2.0}) {
    EXPECT_NEAR(value(ls::jit(f)(x)), x > 0 ? std::sin(x) : x * x, 1e-6);
    EXPECT_NEAR(value(ls::grad(f)(x)), x > 0 ? std::cos(x) : 2 * x, 1e-6);
  }
  Array both = ls::vmap(ls::grad(f))(np::linspace(-2, 1, 2));
  EXPECT_NEAR(value(both[0]), -4, 1e-6);
  EXPECT_NEAR(value(both[1]), std::cos(1), 1e-6);
  std::vector<std::function<Array(Array)>> branches{[](Array x) { return x; }, [](Array x) { return 10 * x; }};
  EXPECT_EQ(value(lax::switch_(1, branches, 2.0)), 20);
  EXPECT_EQ(value(lax::switch_(7, branches, 2.0)), 20);
}

TEST(ControlFlow, WhileAndFori) {
  auto doubled = [](Array x) {
    return lax::while_loop([](Array c) { return c < 100.0; }, [](Array c) { return c * 2; }, x);
  };
  EXPECT_EQ(value(doubled(3.0)), 192);
  EXPECT_EQ(value(ls::jvp(doubled, std::tuple{3.0}, std::tuple{1.0}).second), 64);
  Array many = ls::vmap(doubled)(np::linspace(1, 3, 3));
  EXPECT_EQ(value(many[0]), 128);
  EXPECT_EQ(value(many[2]), 192);
  auto squares = [](Array x) {
    return lax::fori_loop(
        0, 3, [](Array, Array c) { return c * c; }, x);
  };
  EXPECT_NEAR(value(ls::grad(squares)(1.1)), 8 * std::pow(1.1, 7), 1e-3);
  EXPECT_EQ(value(ls::jit([](Array n) {
              return lax::fori_loop(
                  0, n, [](Array i, Array c) { return c + i; }, Array(0));
            })(5)),
            10);
}

TEST(CustomRules, ReplaceDerivatives) {
  auto tripled = ls::custom_jvp([](Array x) { return x * x; },
                                [](std::tuple<Array> p, std::tuple<Array> t) {
                                  Array x = std::get<0>(p);
                                  return std::pair{x * x, 3 * std::get<0>(t)};
                                });
  EXPECT_EQ(value(tripled(5.0)), 25);
  EXPECT_EQ(value(ls::grad(tripled)(5.0)), 3);
  EXPECT_EQ(value(ls::vmap(ls::grad(tripled))(np::ones({2}))[1]), 3);
  auto clipped = ls::custom_vjp([](Array x) { return np::sum(x * x); },
                                [](Array x) {
                                  return std::pair{np::sum(x * x), x};
                                },
                                [](Array x, Array ct) { return std::tuple{np::clip(2 * x * ct, -1.0, 1.0)}; });
  Array g = ls::jit(ls::grad(clipped))(np::linspace(-2, 2, 3));
  EXPECT_EQ(value(g[0]), -1);
  EXPECT_EQ(value(g[1]), 0);
  EXPECT_THROW(ls::jit([&](Array x) { return ls::jvp(clipped, std::tuple{x}, std::tuple{x}).second; })(np::ones({2})),
               ls::Error);
}

TEST(Checkpoint, KeepsTheGradient) {
  auto f = [](Array x) { return np::sum(np::sin(np::sin(x)) * x); };
  Array x = np::linspace(0, 1, 5);
  Array want = ls::grad(f)(x), got = ls::jit(ls::grad(ls::checkpoint(f)))(x);
  EXPECT_NEAR(value(np::sum(np::abs(want - got))), 0, 1e-5);
  std::string text = to_string(ls::make_jaxpr(ls::grad(ls::checkpoint(f)))(x));
  EXPECT_NE(text.find("checkpoint"), std::string::npos);
}

TEST(Jit, TracesOncePerSignature) {
  int traced = 0;
  auto f = ls::jit([&traced](Array x, int power) {
    ++traced;
    return np::power(x, static_cast<double>(power));
  });
  f(np::ones({3}), 2), f(np::zeros({3}), 2);
  EXPECT_EQ(traced, 1);
  f(np::ones({3}), 3);
  EXPECT_EQ(traced, 2);  // a static int is part of the signature
  auto rate = ls::jit([&traced](Array x, Array r) { return ++traced, x * r; });
  traced = 0;
  for (double r : {0.1, 0.2, 0.3}) rate(np::ones({3}), r);
  EXPECT_EQ(traced, 1);  // a number for an Array is traced
  EXPECT_EQ(rate.cache_size(), 1u);
  EXPECT_NE(rate.explain(np::ones({4}), 1.0).find("f32[4], was f32[3]"), std::string::npos);
}

TEST(Jit, DonatedBuffersAreReusedAndRefused) {
  auto f = ls::jit([](Array x) { return x + 1; }, {.donate_argnums = {0}});
  Array x = np::ones({64});
  x.block_until_ready();
  Array y = f(x);
  EXPECT_EQ(value(y[0]), 2);
  try {
    f(x);
    FAIL() << "a donated array was accepted";
  } catch (const ls::Error& e) {
    EXPECT_EQ(e.code(), ls::ErrorCode::donated) << e.what();
    EXPECT_NE(std::string(e.what()).find("transforms_test.cc"), std::string::npos) << e.what();
  }
}

TEST(Stages, LowerCompileRun) {
  auto f = ls::jit([](Array x) { return std::pair{x * 2, np::sum(x)}; }, {.name = "doubled"});
  auto lowered = f.lower(np::ones({4}));
  EXPECT_NE(lowered.as_text().find("stablehlo.multiply"), std::string::npos);
  auto compiled = lowered.compile();
  auto [twice, sum] = compiled(np::ones({4}));
  EXPECT_EQ(value(sum), 4);
  EXPECT_EQ(value(twice[3]), 2);
  EXPECT_GT(compiled.memory_analysis().output_size_in_bytes, 0);
  EXPECT_THROW(compiled(np::ones({5})), ls::Error);
}

// The CPU plugin tells no cost, so it is counted.
TEST(Stages, CostOfACompiledProgram) {
  auto cost = [](auto f, auto... args) { return ls::jit(f).lower(args...).compile().cost_analysis(); };
  Array a = np::ones({8, 16}), b = np::ones({16, 4});
  auto product = cost([](Array x, Array y) { return np::matmul(x, y); }, a, b);
  EXPECT_EQ(product.flops, 2 * 8 * 16 * 4);
  EXPECT_EQ(product.bytes_accessed, 4 * (8 * 16 + 16 * 4 + 8 * 4));
  EXPECT_EQ(product.all.at("flops"), product.flops);
  auto smooth = cost([](Array x) { return np::tanh(x) + 1; }, a);
  EXPECT_EQ(smooth.transcendentals, 8 * 16);
  EXPECT_EQ(smooth.flops, 8 * 16);
  EXPECT_EQ(smooth.bytes_accessed, 4 * 2 * 8 * 16);
  auto sum = cost([](Array x) { return np::sum(x); }, a);
  EXPECT_EQ(sum.flops, 8 * 16 - 1);
  auto loop = cost(
      [](Array x) {
        return ls::lax::fori_loop(
            0, 10, [](Array, Array c) { return np::matmul(c, c); }, x);
      },
      np::ones({16, 16}));
  EXPECT_GE(loop.flops, 10 * 2 * 16 * 16 * 16);
  EXPECT_LT(loop.flops, 10 * 2 * 16 * 16 * 16 + 100);  // the counter
}

TEST(EvalShape, ComputesNothing) {
  auto f = [](Array x) { return std::pair{np::sum(x, 0), x.astype(ls::DType::int32)}; };
  auto shapes = ls::eval_shape(f, ls::ShapeDtypeStruct{{1 << 20, 1 << 20}, ls::DType::float32});
  ASSERT_EQ(shapes.leaves.size(), 2u);
  EXPECT_EQ(shapes.leaves[0].shape, ls::Shape({1 << 20}));
  EXPECT_EQ(shapes.leaves[1].dtype, ls::DType::int32);
}

}  // namespace

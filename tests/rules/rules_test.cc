// Every registered primitive, on each of its examples:
// - results have the avals that abstract_eval states, and the lowered program compiles and runs;
// - jvp equals central differences, in float64;
// - the transposed linearised function satisfies <J^T c, t> = <c, J t> (no conjugation: the real part of the sum of
//   products, as JAX's conventions have it);
// - mapped over any subset of the operands, along different axes, it equals a loop.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/core/basic_ops.h"
#include "lockstep/core/jaxpr.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/autodiff.h"
#include "lockstep/transforms/batching.h"
#include "tests/rules/check.h"

namespace lockstep {
void PrintTo(const Primitive* p, std::ostream* out) { *out << p->name; }
}  // namespace lockstep

namespace lockstep::rules_test {
namespace {

AvalList avals_of(std::span<const Host> in) {
  AvalList out;
  for (auto& h : in) out.push_back(h.aval);
  return out;
}
AvalList results_of(const Primitive& p, const Params* params, std::span<const Host> in) {
  AvalList out;
  p.abstract_eval(params, avals_of(in), out);
  return out;
}
FlatFunction binder(const Primitive& p, const ParamsRef& params) {
  return [&p, params](std::span<const Array> args) { return bind_many(p, args, params); };
}
bool has_inexact(std::span<const Host> in) {
  return std::any_of(in.begin(), in.end(), [](const Host& h) { return is_inexact(h.aval->dtype); });
}
// Numbers in (-1, 1) for a tangent or cotangent.
Host direction(AvalP aval, int seed) {
  Host out{strong(aval), {}};
  std::uint64_t state = 0x2545f4914f6cdd1du * static_cast<std::uint64_t>(seed + 1);
  auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 40) / 8388608.0 - 1;
  };
  for (std::int64_t i = 0; i < aval->size(); ++i) {
    double re = next();
    out.data.emplace_back(std::complex<double>(re, next()), aval->dtype);
  }
  return out;
}
Host moved(const Host& x, const Host& direction, double step) {
  Host out = x;
  for (std::size_t i = 0; i < x.data.size(); ++i)
    out.data[i] = Scalar(x.data[i].as_complex() + step * direction.data[i].as_complex(), x.aval->dtype);
  return out;
}
Host widened(const Host& h) {
  DType t = h.aval->dtype;
  DType wide = is_complex(t) ? DType::complex128 : is_floating(t) ? DType::float64 : t;
  Host out{with_dtype(h.aval, wide, h.aval->weak_type), {}};
  for (auto& s : h.data) out.data.push_back(s.cast(wide));
  return out;
}

class PrimitiveRules : public testing::TestWithParam<const Primitive*> {
 protected:
  const Primitive& primitive() const { return *GetParam(); }

  Check values(const Example& e) const {
    AvalList expected = results_of(primitive(), e.params.get(), e.in);
    return {e.label + ": values", e.in, binder(primitive(), e.params), [expected](std::span<const Host> outs) {
              ASSERT_EQ(outs.size(), expected.size());
              for (std::size_t i = 0; i < outs.size(); ++i) EXPECT_EQ(outs[i].aval, expected[i]);
            }};
  }

  // Derivatives in wide types if the primitive takes them with these parameters.
  void derivatives(const Example& e, std::vector<Check>& checks) const {
    if (!has_inexact(e.in) || !e.differentiable) return;
    AvalList all_avals = avals_of(e.in);
    for (AvalP a : results_of(primitive(), e.params.get(), e.in)) all_avals.push_back(a);
    if (std::any_of(all_avals.begin(), all_avals.end(),
                    [](AvalP a) { return a->dtype == DType::bfloat16 || a->dtype == DType::float16; })) {
      derivative_avals(e);
      return;
    }
    std::vector<Host> in;
    for (auto& h : e.in) in.push_back(widened(h));
    AvalList outs;
    try {
      outs = results_of(primitive(), e.params.get(), in);
    } catch (const Error&) {
      in = e.in;
      outs = results_of(primitive(), e.params.get(), in);
    }
    bool wide = true;
    for (AvalP a : outs) wide = wide && (!is_inexact(a->dtype) || itemsize(real_type(a->dtype)) == 8);
    for (auto& h : in) wide = wide && (!is_inexact(h.aval->dtype) || itemsize(real_type(h.aval->dtype)) == 8);
    double step = wide ? 1e-5 : 1e-2, tolerance = e.tolerance != 0 ? e.tolerance : wide ? 1e-5 : 2e-2;

    std::vector<bool> active;
    std::vector<Host> all = in;
    std::size_t n = in.size();
    for (std::size_t i = 0; i < n; ++i) active.push_back(is_inexact(in[i].aval->dtype));
    std::vector<Host> tangents, plus, minus;
    for (std::size_t i = 0; i < n; ++i) {
      if (active[i]) tangents.push_back(direction(in[i].aval, static_cast<int>(i)));
      plus.push_back(active[i] ? moved(in[i], tangents.back(), step) : in[i]);
      minus.push_back(active[i] ? moved(in[i], tangents.back(), -step) : in[i]);
    }
    std::vector<Host> cotangents;
    for (std::size_t i = 0; i < outs.size(); ++i)
      if (is_inexact(outs[i]->dtype)) cotangents.push_back(direction(outs[i], 100 + static_cast<int>(i)));
    for (auto* group : {&tangents, &plus, &minus, &cotangents}) all.insert(all.end(), group->begin(), group->end());

    auto f = [p = &primitive(), params = e.params, active, n, outs](std::span<const Array> args) {
      auto take = [&args](std::size_t count) {
        auto head = args.first(count);
        args = args.subspan(count);
        return head;
      };
      std::size_t num_active = static_cast<std::size_t>(std::count(active.begin(), active.end(), true));
      auto primals = take(n), tangents = take(num_active), plus = take(n), minus = take(n);
      auto run = binder(*p, params);
      Arrays spread(n);
      for (std::size_t i = 0, k = 0; i < n; ++i)
        if (active[i]) spread[i] = tangents[k++];
      JvpOut forward = jvp_flat(run, primals, spread, "test");
      Arrays up = run(plus), down = run(minus);
      Linearized lin = linearize_flat(run, primals, active, "test");
      Arrays cotangents_in;
      for (std::size_t i = 0, k = 0; i < outs.size(); ++i) {
        if (!is_inexact(outs[i]->dtype)) continue;
        if (lin.nonzero_out[i]) cotangents_in.push_back(args[k]);
        ++k;
      }
      Arrays gradients = backward_pass(lin.linear, cotangents_in);
      Arrays result;
      for (std::size_t i = 0; i < outs.size(); ++i) {
        if (!is_inexact(outs[i]->dtype)) {
          EXPECT_FALSE(forward.tangents[i].has_value()) << "a result of dtype " << outs[i]->text << " has a tangent";
          continue;
        }
        Array t = instantiate_zeros(forward.tangents[i], outs[i]);
        EXPECT_EQ(t.aval()->text, outs[i]->text) << "the tangent of result " << i;
        result.insert(result.end(), {t, up[i], down[i]});
      }
      for (std::size_t k = 0; k < num_active; ++k) {
        Array g = instantiate_zeros(gradients[k], tangents[k].aval());
        EXPECT_EQ(g.aval()->text, tangents[k].aval()->text) << "the cotangent of active operand " << k;
        result.push_back(g);
      }
      return result;
    };
    auto verify = [tangents, cotangents, step, tolerance](std::span<const Host> outs) {
      std::complex<double> forward, backward;
      double scale = 1;
      for (std::size_t i = 0; i < cotangents.size(); ++i) {
        const Host &tangent = outs[3 * i], &up = outs[3 * i + 1], &down = outs[3 * i + 2];
        Host difference = tangent;
        for (std::size_t k = 0; k < tangent.data.size(); ++k) {
          difference.data[k] =
              Scalar((up.data[k].as_complex() - down.data[k].as_complex()) / (2 * step), tangent.aval->dtype);
          auto product = cotangents[i].data[k].as_complex() * tangent.data[k].as_complex();
          forward += product;
          scale += std::abs(product);
        }
        expect_close(tangent, difference, tolerance, "jvp against differences");
      }
      for (std::size_t i = 0; i < tangents.size(); ++i) {
        const Host& gradient = outs[3 * cotangents.size() + i];
        for (std::size_t k = 0; k < gradient.data.size(); ++k)
          backward += tangents[i].data[k].as_complex() * gradient.data[k].as_complex();
      }
      EXPECT_NEAR(forward.real(), backward.real(), std::min(tolerance, 1e-4) * scale)
          << "the transpose disagrees with the jvp";
    };
    checks.push_back({e.label + ": derivatives", std::move(all), f, verify});
  }
  // For narrow types: only that tangents and cotangents have the types of what they belong to.
  void derivative_avals(const Example& e) const {
    SCOPED_TRACE(e.label);
    AvalList in = avals_of(e.in);
    try {
      trace_to_jaxpr(
          [&](std::span<const Array> args) {
            std::vector<bool> active;
            for (AvalP a : in) active.push_back(is_inexact(a->dtype));
            Linearized lin = linearize_flat(binder(primitive(), e.params), args, active, "test");
            Arrays cotangents;
            for (AvalP a : lin.linear->out_avals()) cotangents.push_back(zeros(a));
            Arrays gradients = backward_pass(lin.linear, cotangents);
            AvalList expected = lin.linear->in_avals();
            for (std::size_t i = 0; i < gradients.size(); ++i) {
              gradients[i] = instantiate_zeros(gradients[i], expected[i]);
              EXPECT_EQ(gradients[i].aval()->text, expected[i]->text);
            }
            return gradients;
          },
          in, "test");
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }

  void batching(const Example& e, std::vector<Check>& checks) const {
    std::size_t n = e.in.size(), used = std::min<std::size_t>(n, 4);
    if (n == 0) return;
    for (unsigned subset = 1; subset < (1u << used); ++subset)
      for (bool mixed : {false, true}) {
        std::vector<Host> in, loop[2];
        std::vector<int> dims;
        for (std::size_t i = 0; i < n; ++i) {
          Host other = e.in[i];
          std::reverse(other.data.begin(), other.data.end());
          bool mapped = i < used ? (subset >> i & 1) != 0 : subset == (1u << used) - 1;
          int axis = mixed && i % 2 == 0 ? e.in[i].aval->rank() : 0;
          Host both[] = {e.in[i], other};
          in.push_back(mapped ? stack(both, axis) : e.in[i]);
          dims.push_back(mapped ? axis : kNotMapped);
          loop[0].push_back(e.in[i]);
          loop[1].push_back(mapped ? other : e.in[i]);
        }
        std::string label = e.label + ": mapped over axes";
        for (int d : dims) label += d == kNotMapped ? " -" : " " + std::to_string(d);
        for (auto& one : loop) in.insert(in.end(), one.begin(), one.end());
        auto out_dims = std::make_shared<std::vector<int>>();
        auto f = [p = &primitive(), params = e.params, dims, n, out_dims](std::span<const Array> args) {
          auto run = binder(*p, params);
          BatchOut batched = batch_flat(run, args.first(n), dims, 2, "", "test");
          *out_dims = batched.dims;
          Arrays first = run(args.subspan(n, n)), second = run(args.subspan(2 * n, n)), all = batched.outs;
          all.insert(all.end(), first.begin(), first.end());
          all.insert(all.end(), second.begin(), second.end());
          return all;
        };
        auto verify = [out_dims](std::span<const Host> outs) {
          std::size_t count = out_dims->size();
          for (std::size_t i = 0; i < count; ++i)
            for (std::int64_t k : {0, 1}) {
              const Host& expected = outs[count * static_cast<std::size_t>(k + 1) + i];
              int dim = (*out_dims)[i];
              expect_close(dim == kNotMapped ? outs[i] : slice_of(outs[i], dim, k), expected,
                           rounding_of(expected.aval->dtype), fmt::format("result {}, iteration {}", i, k));
            }
        };
        checks.push_back({std::move(label), std::move(in), f, verify});
        if (!mixed && n == 1 && e.in[0].aval->rank() == 0) break;
      }
  }
};

TEST_P(PrimitiveRules, AgreeWithEachOther) {
  auto x64 = enable_x64();
  std::vector<Check> checks;
  auto all = primitive().examples();
  ASSERT_FALSE(all.empty());
  for (const Example& e : all) {
    SCOPED_TRACE(e.label);
    try {
      checks.push_back(values(e));
      derivatives(e, checks);
      batching(e, checks);
    } catch (const Error& error) {
      ADD_FAILURE() << e.label << ": " << error.what();
    }
  }
  run_checks(checks);
}

std::vector<const Primitive*> with_examples() {
  std::vector<const Primitive*> out;
  for (const Primitive* p : registered_primitives())
    if (p->examples != nullptr) out.push_back(p);
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, PrimitiveRules, testing::ValuesIn(with_examples()), [](const auto& info) {
  std::string name = info.param->name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

// Primitives that hold jaxprs or need mesh axes are tested where their transformations are.
TEST(Registry, PrimitivesHaveExamplesAndRules) {
  for (const Primitive* p : registered_primitives()) {
    EXPECT_NE(p->abstract_eval, nullptr) << p->name;
    EXPECT_NE(p->lower, nullptr) << p->name;
    EXPECT_EQ(find_primitive(p->name), p) << p->name << " is registered twice";
  }
}

}  // namespace
}  // namespace lockstep::rules_test

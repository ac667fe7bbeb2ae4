#include "tests/rules/check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lockstep/compile/program.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::rules_test {
namespace {

ValueRef to_device(const Host& h) {
  std::vector<std::byte> bytes(h.aval->bytes());
  std::size_t size = itemsize(h.aval->dtype);
  for (std::size_t i = 0; i < h.data.size(); ++i) h.data[i].write(bytes.data() + i * size);
  return runtime::make_concrete(h.aval, {.data = bytes.data()});
}
Host to_host(Value* v) {
  auto view = runtime::to_host(*runtime::as_concrete(v));
  Host out{v->aval(), {}};
  std::size_t size = itemsize(out.aval->dtype);
  for (std::int64_t i = 0; i < out.aval->size(); ++i)
    out.data.push_back(Scalar::read(view.data() + static_cast<std::size_t>(i) * size, out.aval->dtype));
  return out;
}

bool equal(const Host& a, const Host& b) {
  return a.aval == b.aval &&
         std::equal(a.data.begin(), a.data.end(), b.data.begin(), [](auto& x, auto& y) { return x.same_bits(y); });
}

// Traces, compiles and runs all of them as one program; throws what any of these throws. Equal inputs are one
// parameter, so that the compiler sees what the checks have in common.
std::vector<std::vector<Host>> run_together(std::span<const Check> checks) {
  std::vector<const Host*> inputs;
  std::vector<std::size_t> input_of;
  AvalList avals;
  for (auto& c : checks)
    for (auto& h : c.in) {
      auto known = std::find_if(inputs.begin(), inputs.end(), [&h](const Host* i) { return equal(*i, h); });
      input_of.push_back(static_cast<std::size_t>(known - inputs.begin()));
      if (known != inputs.end()) continue;
      inputs.push_back(&h);
      avals.push_back(h.aval);
    }
  std::vector<std::size_t> counts;
  auto traced = trace_to_jaxpr(
      [&](std::span<const Array> args) {
        Arrays all_in, outs;
        for (std::size_t i : input_of) all_in.push_back(args[i]);
        std::span<const Array> rest = all_in;
        for (auto& c : checks) {
          Arrays some = c.f(rest.first(c.in.size()));
          rest = rest.subspan(c.in.size());
          counts.push_back(some.size());
          outs.insert(outs.end(), some.begin(), some.end());
        }
        return outs;
      },
      avals, "checks");
  auto [closed, consts] = hoist_consts(traced);
  std::vector<ValueRef> held;
  for (auto& c : consts) held.push_back(c.ref());
  for (const Host* h : inputs) held.push_back(to_device(*h));
  std::vector<Value*> in;
  for (auto& v : held) in.push_back(v.get());
  compile::ProgramRequest request;
  request.jaxpr = closed;
  request.name = "checks";
  auto program = compile::compile(request);
  std::vector<ValueRef> outs(closed->outvars.size());
  program->run(in, outs.data(), 0);
  std::vector<std::vector<Host>> results;
  std::size_t next = 0;
  for (std::size_t n : counts) {
    results.emplace_back();
    for (std::size_t i = 0; i < n; ++i) results.back().push_back(to_host(outs[next++].get()));
  }
  return results;
}

void verify(const Check& check, std::span<const Host> outs) {
  SCOPED_TRACE(check.label);
  check.verify(outs);
}

template <class F>
void visit(const Host& h, F&& f) {
  std::int64_t i = 0;
  Shape index = Shape::filled(h.aval->shape.size(), 0);
  for (const Scalar& s : h.data) {
    f(index, s, i++);
    for (int d = index.rank() - 1; d >= 0; --d) {
      if (++index[d] < h.aval->shape[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

void run_checks(const std::vector<Check>& checks) {
  std::vector<std::vector<Host>> results;
  try {
    results = run_together(checks);
  } catch (const std::exception&) {
    for (const Check& c : checks) {
      try {
        auto alone = run_together(std::span(&c, 1));
        verify(c, alone[0]);
      } catch (const std::exception& e) {
        ADD_FAILURE() << c.label << ": " << e.what();
      }
    }
    return;
  }
  for (std::size_t i = 0; i < checks.size(); ++i) verify(checks[i], results[i]);
}

void expect_close(const Host& actual, const Host& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(actual.aval->shape, expected.aval->shape) << what;
  ASSERT_EQ(actual.aval->dtype, expected.aval->dtype) << what;
  for (std::size_t i = 0; i < actual.data.size(); ++i) {
    const Scalar &a = actual.data[i], &e = expected.data[i];
    if (a.same_bits(e)) continue;
    auto x = a.as_complex(), y = e.as_complex();
    bool both_nan = std::isnan(std::abs(x)) && std::isnan(std::abs(y));
    bool close = is_inexact(a.dtype()) && (both_nan || x == y || std::abs(x - y) <= tolerance * (1 + std::abs(y)));
    ASSERT_TRUE(close) << what << ": element " << i << " of " << actual.aval->text << " is " << to_string(a)
                       << ", expected " << to_string(e);
  }
}

double rounding_of(DType t) {
  switch (real_type(t)) {
    case DType::float64:
      return 1e-12;
    case DType::float32:
      return 1e-5;
    case DType::float16:
      return 4e-3;
    case DType::bfloat16:
      return 3e-2;
    default:
      return 0;
  }
}

Host slice_of(const Host& a, int axis, std::int64_t i) {
  Host out{with_shape(a.aval, a.aval->shape.without(axis)), {}};
  visit(a, [&](const Shape& index, const Scalar& s, std::int64_t) {
    if (index[axis] == i) out.data.push_back(s);
  });
  return out;
}
Host stack(std::span<const Host> parts, int axis) {
  AvalP part = parts[0].aval;
  Host out{with_shape(part, part->shape.with(axis, static_cast<std::int64_t>(parts.size()))), {}};
  out.data.resize(parts.size() * parts[0].data.size());
  std::int64_t inner = 1;
  for (int d = axis; d < part->rank(); ++d) inner *= part->shape[d];
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (std::int64_t i = 0; i < part->size(); ++i) {
      std::int64_t outer = inner == 0 ? 0 : i / inner, rest = inner == 0 ? 0 : i % inner;
      out.data[static_cast<std::size_t>(
          (outer * static_cast<std::int64_t>(parts.size()) + static_cast<std::int64_t>(p)) * inner + rest)] =
          parts[p].data[static_cast<std::size_t>(i)];
    }
  return out;
}

}  // namespace lockstep::rules_test

#include "lockstep/ops/examples.h"

#include <algorithm>
#include <cmath>

#include "lockstep/ops/builders.h"

namespace lockstep::examples {
namespace {

// Numbers in (0, 1), well spread and with no pattern in any dimension.
class Noise {
 public:
  explicit Noise(int seed) : state_(0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(seed + 1)) {}
  double next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (static_cast<double>(state_ >> 40) + 0.5) / 16777216.0;
  }

 private:
  std::uint64_t state_;
};

ExampleOperand fill(Shape shape, DType dtype, double low, double high, int seed) {
  ExampleOperand out{make_aval(std::move(shape), dtype), {}};
  Noise noise(seed);
  auto number = [&] { return low + (high - low) * noise.next(); };
  for (std::int64_t i = 0; i < out.aval->size(); ++i) {
    if (is_complex(dtype)) {
      double re = number();
      out.data.emplace_back(std::complex<double>(re, number()), dtype);
    } else if (is_bool(dtype)) {
      out.data.emplace_back(noise.next() < 0.5);
    } else if (dtype == DType::key) {
      out.data.emplace_back(static_cast<std::uint64_t>(noise.next() * 18446744073709551616.0), dtype);
    } else if (is_integer(dtype)) {
      out.data.emplace_back(static_cast<std::int64_t>(std::floor(number())), dtype);
    } else {
      out.data.emplace_back(number(), dtype);
    }
  }
  return out;
}

struct Combination {
  std::vector<Shape> shapes;
};
std::vector<Combination> combinations(int operands, bool broadcast) {
  auto all = [operands](Shape s) { return Combination{std::vector<Shape>(operands, s)}; };
  std::vector<Combination> out = {all({}), all({2, 3}), all({0, 2})};
  if (operands == 1 || !broadcast) return out;
  out.push_back(all({2, 3})), out.back().shapes.back() = {};
  out.push_back(all({2, 3})), out.back().shapes.front() = {};
  out.push_back(all({2, 3})), out.back().shapes.front() = {2, 1};
  return out;
}
std::vector<Example> generate(unsigned accepted, int operands, std::span<const Range> ranges, const ParamsRef& params,
                              bool broadcast) {
  std::vector<Example> out;
  auto add = [&](DType t, const Combination& c) {
    if (!accepts(accepted, t)) return;
    Example e;
    e.params = params;
    for (int i = 0; i < operands; ++i) {
      Range r = ranges[std::min<std::size_t>(static_cast<std::size_t>(i), ranges.size() - 1)];
      r.seed += 17 * i;
      e.in.push_back(is_inexact(t) ? array(c.shapes[i], t, r)
                                   : fill(c.shapes[i], t, is_unsigned_integer(t) ? 1 : -4,
                                          is_unsigned_integer(t) ? 9 : 5, r.seed));
      e.label += (i ? ", " : "") + e.in.back().aval->text;
    }
    if (is_integer(t) && operands > 1)  // no divisions by zero
      for (Scalar& s : e.in.back().data)
        if (!s.truth()) s = Scalar(std::int64_t{3}, t);
    out.push_back(std::move(e));
  };
  auto shapes = combinations(operands, broadcast);
  for (auto& c : shapes) add(DType::float32, c);
  for (DType t : {DType::bfloat16, DType::complex64, DType::int32, DType::uint8, DType::bool_}) add(t, shapes[1]);
  if (!accepts(accepted, DType::float32))
    for (DType t : {DType::complex64, DType::int32})
      for (std::size_t i = 0; i < shapes.size(); ++i)
        if (i != 1) add(t, shapes[i]);
  return out;
}

}  // namespace

ExampleOperand array(Shape shape, DType dtype) {
  if (is_unsigned_integer(dtype)) return fill(std::move(shape), dtype, 0, 9, 0);
  if (is_integer(dtype)) return fill(std::move(shape), dtype, -4, 5, 0);
  return array(std::move(shape), dtype, Range{});
}
ExampleOperand array(Shape shape, DType dtype, Range range) {
  return fill(std::move(shape), dtype, range.low, range.high, range.seed);
}
ExampleOperand values(Shape shape, DType dtype, std::initializer_list<double> data) {
  ExampleOperand out{make_aval(std::move(shape), dtype), {}};
  for (double v : data) out.data.emplace_back(Scalar(v, DType::float64).cast(dtype));
  return out;
}
ExampleOperand weak(double value, DType dtype) {
  return {make_aval({}, dtype, true), {Scalar(value, DType::float64).cast(dtype)}};
}

std::vector<Example> elementwise(unsigned accepted, int operands, std::initializer_list<Range> ranges,
                                 const ParamsRef& params) {
  return generate(accepted, operands, std::span(ranges.begin(), ranges.size()), params, true);
}
std::vector<Example> equal_shapes(unsigned accepted, int operands, std::initializer_list<Range> ranges) {
  return generate(accepted, operands, std::span(ranges.begin(), ranges.size()), {}, false);
}
std::vector<Example> only(std::string_view prefix, std::vector<Example> all) {
  std::erase_if(all, [prefix](const Example& e) { return !e.label.starts_with(prefix); });
  return all;
}
std::vector<Example> not_differentiable(std::vector<Example> all) {
  for (Example& e : all) e.differentiable = false;
  return all;
}

}  // namespace lockstep::examples

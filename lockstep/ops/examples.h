// Inputs for the rule tests, the same in every run.
#pragma once

#include <initializer_list>

#include "lockstep/trace/rules.h"

namespace lockstep::examples {

// What numbers an operand holds. Whole numbers stay small enough for int8.
struct Range {
  double low = -2, high = 2;  // floats and both parts of complex numbers are spread over this range, ends left out
  int seed = 0;               // operands of one example with different seeds differ
};
// An array of numbers that look random; integers run over -4 ... 4 (0 ... 8 if unsigned) unless a range is given, bools
// alternate unevenly.
ExampleOperand array(Shape shape, DType dtype);
ExampleOperand array(Shape shape, DType dtype, Range range);
// Exactly these numbers, in row-major order.
ExampleOperand values(Shape shape, DType dtype, std::initializer_list<double> data);
// The same, as a weakly typed scalar.
ExampleOperand weak(double value, DType dtype = DType::float32);

// The usual list for an elementwise primitive of `operands` operands: scalars, vectors, matrices with a rank-0 operand,
// dimensions of size 1 and 0, for those of float32, bfloat16, complex64, int32, uint8 and bool that are in the set
// (builders.h). Operand i of a floating or complex type lies in ranges[i] (or in the last range).
std::vector<Example> elementwise(unsigned accepted, int operands, std::initializer_list<Range> ranges = {Range{}},
                                 const ParamsRef& params = {});
template <unsigned kAccepted, int kOperands, Range... kRanges>
std::vector<Example> elementwise_of() {
  if constexpr (sizeof...(kRanges) == 0)
    return elementwise(kAccepted, kOperands);
  else
    return elementwise(kAccepted, kOperands, {kRanges...});
}

// Without broadcasting between the operands.
std::vector<Example> equal_shapes(unsigned accepted, int operands, std::initializer_list<Range> ranges = {Range{}});
template <unsigned kAccepted, int kOperands>
std::vector<Example> equal_shapes_of() {
  return equal_shapes(kAccepted, kOperands);
}
// The examples without those whose label starts otherwise ("f32").
std::vector<Example> only(std::string_view prefix, std::vector<Example> all);
// The examples, with derivatives not checked.
std::vector<Example> not_differentiable(std::vector<Example> all);

}  // namespace lockstep::examples

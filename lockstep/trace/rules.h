// What the rules of a primitive are given and give back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/core/jaxpr.h"
#include "lockstep/trace/array.h"

namespace lockstep {

struct JvpOut {
  Arrays primals;
  Arrays tangents;  // null where the tangent is zero
};

// What a linearize rule gives: the results, and their tangents as arrays recorded from the tangents it was given.
struct LinearizeOut {
  Arrays primals;
  Arrays tangents;
};

// An input of an equation that is transposed: linear (its cotangent is wanted; only the aval is known) or known.
struct TransposeIn {
  AvalP aval;
  Array value;  // null if linear
  bool linear() const { return !value.has_value(); }
};

inline constexpr int kNotMapped = -1;
struct BatchIn {
  std::int64_t size;      // of the mapped axis
  std::string axis_name;  // empty if the axis has none
  std::span<const Array> args;
  std::span<const int> dims;  // where the mapped axis is in each argument, or kNotMapped; at least one is mapped, but
                              // for equations that use axis_name
};
struct BatchOut {
  Arrays outs;
  std::vector<int> dims;  // kNotMapped for results that do not vary
};

// An operand of an example, held on the host: `data` has one number per element, in row-major order.
struct ExampleOperand {
  AvalP aval;
  std::vector<Scalar> data;
};

// Inputs on which the rule tests try a primitive.
struct Example {
  std::string label;
  std::vector<ExampleOperand> in = {};
  ParamsRef params = {};
  double tolerance = 0;        // for comparisons of derivatives; 0: the default of the dtype
  bool differentiable = true;  // at this point, in all its inexact inputs; else derivatives are not tried
};

}  // namespace lockstep

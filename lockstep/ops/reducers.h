// Regions of StableHLO operations that combine scalars (reduce, reduce_window, scatter, all_reduce), made from traced
// functions, so that every dtype that the functions take works.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "lockstep/lower/context.h"
#include "lockstep/trace/array.h"

namespace lockstep {

using Reducer = std::function<Arrays(std::span<const Array> a, std::span<const Array> b)>;

// A jaxpr of the reducer on two scalars for each of the avals (whose shapes are ignored).
ClosedJaxpr trace_reducer(const Reducer& reducer, std::span<const AvalP> avals, const std::string& what);
// "({ ^bb0(%1: tensor<f32>, %2: tensor<f32>): ... stablehlo.return %3 : tensor<f32> })" with line breaks; the jaxpr
// takes scalars and has no array constants.
std::string reducer_region(LowerContext& ctx, const ClosedJaxpr& reducer);

// The scalar (or elementwise) functions that primitives reduce with.
Array reducer_add(const Array& a, const Array& b);
Array reducer_mul(const Array& a, const Array& b);
Array reducer_max(const Array& a, const Array& b);
Array reducer_min(const Array& a, const Array& b);
Array reducer_and(const Array& a, const Array& b);
Array reducer_or(const Array& a, const Array& b);
Array reducer_xor(const Array& a, const Array& b);

// What a computation is known to be, if `init` is the number that is its identity.
enum class Monoid { none, add, mul, max, min, bitwise_and, bitwise_or, bitwise_xor };
Monoid monoid_of(const std::function<Array(const Array&, const Array&)>& computation, const Array& init);

// "stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [0] : ...", one operand.
std::string emit_reduce(LowerContext& ctx, const char* op, Array (*reducer)(const Array&, const Array&),
                        const Scalar& identity, const Ints& axes, AvalP in_aval, AvalP out_aval, const std::string& in);

}  // namespace lockstep

// Reductions along axes, and the places of the largest and smallest elements. They keep the dtype (numpy/ does what
// NumPy does about it). `axes` lists distinct axes, not negative; Error(axis) otherwise.
#pragma once

#include <functional>

#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive reduce_sum_p, reduce_prod_p, reduce_max_p, reduce_min_p, reduce_and_p, reduce_or_p, reduce_xor_p,
    argmax_p, argmin_p, reduce_p;

namespace lax {

Array reduce_sum(const Operand& operand, const Ints& axes);   // numbers; an empty sum is 0
Array reduce_prod(const Operand& operand, const Ints& axes);  // numbers; an empty product is 1
// NaN if there is one; an empty maximum is the smallest value of the type (-inf).
Array reduce_max(const Operand& operand, const Ints& axes);
Array reduce_min(const Operand& operand, const Ints& axes);
// bool, or bitwise on integers.
Array reduce_and(const Operand& operand, const Ints& axes);
Array reduce_or(const Operand& operand, const Ints& axes);
Array reduce_xor(const Operand& operand, const Ints& axes);

// The place of the first largest element along the axis (of the first NaN if there is one). The axis must not be empty.
Array argmax(const Operand& operand, int axis, DType index_dtype = DType::int32);
Array argmin(const Operand& operand, int axis, DType index_dtype = DType::int32);

// Reduction with any associative computation of two scalars, of which init_value is an identity.
using BinaryFunction = std::function<Array(const Array& a, const Array& b)>;
Array reduce(const Operand& operand, const Operand& init_value, const BinaryFunction& computation,
             const Ints& dimensions);
// Several operands of one shape reduced together: the computation gets all a's, then all b's.
using ReduceFunction = std::function<Arrays(std::span<const Array> a, std::span<const Array> b)>;
Arrays reduce(std::span<const Array> operands, std::span<const Array> init_values, const ReduceFunction& computation,
              const Ints& dimensions, std::source_location where = std::source_location::current());

}  // namespace lax
}  // namespace lockstep

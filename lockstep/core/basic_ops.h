// The few operations that interpreters need themselves: cotangent sums, zeros, and moving mapped axes. Defined in ops/.
#pragma once

#include <cstdint>

#include "lockstep/core/aval.h"
#include "lockstep/core/scalar.h"

namespace lockstep {

class Array;

// The sum of two tangents or cotangents of the same aval. Empty arrays are zeros: the other is returned.
Array add_any(const Array& a, const Array& b);
// All elements zero; weakly typed if the aval is.
Array zeros(AvalP aval);
// The tangent itself, or zeros of the aval if it is empty.
Array instantiate_zeros(const Array& tangent, AvalP aval);
// All elements `value`, converted to the aval's dtype.
Array full(AvalP aval, const Scalar& value);
// A number as a rank-0 array of this dtype: a literal when traced.
Array scalar(const Scalar& value, DType dtype, bool weak_type = false);
// The same with the dtype and weakness of another array.
Array scalar_like(const Array& a, const Scalar& value);
Array scalar_like(const Array& a, double value);

// convert_element_type, or the array itself if nothing changes.
Array convert(const Array& a, DType dtype, bool weak_type = false);

// The array with its axis `from` at `to`; itself if they are equal.
Array moveaxis(const Array& a, int from, int to);
// The array repeated `size` times along a new axis.
Array broadcast_new_axis(const Array& a, std::int64_t size, int axis);
// The mapped axis of a batched value put at `axis`; a value that is not mapped (dim is kNotMapped) is repeated.
Array batch_axis_at(const Array& a, int dim, std::int64_t size, int axis);
Array batch_axis_at_front(const Array& a, int dim, std::int64_t size);

// A cotangent of a broadcast operand: summed down to the operand's shape, which is rank 0 or of the same rank with
// dimensions of size 1. An empty cotangent stays empty.
Array unbroadcast(const Array& cotangent, AvalP operand);

}  // namespace lockstep

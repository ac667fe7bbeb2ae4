// What NumPy does to the operands of a function before anything else: one dtype, one shape.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "lockstep/trace/array.h"

namespace lockstep::numpy {

// All converted to their common dtype (JAX's lattice). Error(dtype) naming `operation` if there is none.
Arrays promote_dtypes(std::string_view operation, std::span<const Array> arrays);
std::pair<Array, Array> promote_dtypes(std::string_view operation, const Array& a, const Array& b);

// The shape all shapes broadcast to, aligned at the last dimension. Error(shape) naming `operation`.
Shape broadcast_shapes(std::string_view operation, std::span<const Shape> shapes);
// All broadcast to their common shape.
Arrays broadcast_all(std::string_view operation, std::span<const Array> arrays);

}  // namespace lockstep::numpy

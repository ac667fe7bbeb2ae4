// What functions do to their operands first: one dtype, and shapes that lax's elementwise operations take.
#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/core/dtype.h"
#include "lockstep/core/shape.h"
#include "lockstep/numpy/promote.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

DType default_float();  // float32, or float64 with 64-bit types
DType default_int();
DType to_inexact(DType t);  // itself if floating or complex; float32, or float64 for 64-bit integers
DType to_numeric(DType t);  // bool -> int32

// The operand in an inexact (numeric) dtype; and both in the common one.
Array promote_inexact(std::string_view operation, const Array& a);
Array promote_numeric(std::string_view operation, const Array& a);
std::pair<Array, Array> promote_dtypes_inexact(std::string_view operation, const Array& a, const Array& b);

// Leading dimensions of size 1 where ranks differ, but for scalars. Error(shape) if the shapes do not broadcast.
std::pair<Array, Array> promote_shapes(std::string_view operation, const Array& a, const Array& b);
// dtypes and shapes.
std::pair<Array, Array> promote_args(std::string_view operation, const Array& a, const Array& b);
std::pair<Array, Array> promote_args_inexact(std::string_view operation, const Array& a, const Array& b);
std::pair<Array, Array> promote_args_numeric(std::string_view operation, const Array& a, const Array& b);

Shape broadcast_shapes(std::string_view operation, std::initializer_list<Shape> shapes);
// To a shape it broadcasts to, as one broadcast_in_dim; itself if it has the shape.
Array broadcast_operand(const Array& a, const Shape& shape);

}  // namespace lockstep::numpy

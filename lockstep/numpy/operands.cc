#include "lockstep/numpy/operands.h"

#include <string>

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {

DType default_float() { return canonicalize(DType::float64); }
DType default_int() { return canonicalize(DType::int64); }
DType to_inexact(DType t) {
  if (is_inexact(t)) return t;
  return t == DType::int64 || t == DType::uint64 ? DType::float64 : DType::float32;
}
DType to_numeric(DType t) { return is_bool(t) ? DType::int32 : t; }

namespace {

WeakDType common(std::string_view operation, const Array& a, const Array& b) {
  return promote_types(operation, a.aval()->weak_dtype(), b.aval()->weak_dtype());
}
std::pair<Array, Array> convert_both(const Array& a, const Array& b, DType t, bool weak) {
  return {convert(a, t, weak), convert(b, t, weak)};
}
void require_number(std::string_view operation, const Array& a) {
  if (a.dtype() == DType::key || a.dtype() == DType::float0)
    throw_error(ErrorCode::dtype, std::string(operation), "does not take elements of type {}", name(a.dtype()));
}

}  // namespace

Array promote_inexact(std::string_view operation, const Array& a) {
  require_number(operation, a);
  return convert(a, to_inexact(a.dtype()), a.weak_type());
}
Array promote_numeric(std::string_view operation, const Array& a) {
  require_number(operation, a);
  return convert(a, to_numeric(a.dtype()), a.weak_type());
}
std::pair<Array, Array> promote_dtypes_inexact(std::string_view operation, const Array& a, const Array& b) {
  WeakDType t = common(operation, a, b);
  return convert_both(a, b, to_inexact(t.dtype), t.weak);
}

Shape broadcast_shapes(std::string_view operation, std::initializer_list<Shape> shapes) {
  return broadcast_shapes(operation, std::span(shapes.begin(), shapes.size()));
}
Array broadcast_operand(const Array& a, const Shape& shape) {
  if (a.shape() == shape) return a;
  Ints dims;
  for (int i = 0; i < a.ndim(); ++i) dims.push_back(shape.rank() - a.ndim() + i);
  return lax::broadcast_in_dim(a, shape, dims);
}

std::pair<Array, Array> promote_shapes(std::string_view operation, const Array& a, const Array& b) {
  if (a.shape() == b.shape()) return {a, b};
  Shape shape = broadcast_shapes(operation, {a.shape(), b.shape()});
  if (a.ndim() == b.ndim() || a.ndim() == 0 || b.ndim() == 0) return {a, b};
  return {lax::broadcast_to_rank(a, shape.rank()), lax::broadcast_to_rank(b, shape.rank())};
}
std::pair<Array, Array> promote_args(std::string_view operation, const Array& a, const Array& b) {
  auto [x, y] = promote_dtypes(operation, a, b);
  return promote_shapes(operation, x, y);
}
std::pair<Array, Array> promote_args_inexact(std::string_view operation, const Array& a, const Array& b) {
  auto [x, y] = promote_dtypes_inexact(operation, a, b);
  return promote_shapes(operation, x, y);
}
std::pair<Array, Array> promote_args_numeric(std::string_view operation, const Array& a, const Array& b) {
  WeakDType t = common(operation, a, b);
  auto [x, y] = convert_both(a, b, to_numeric(t.dtype), t.weak);
  return promote_shapes(operation, x, y);
}

}  // namespace lockstep::numpy

#include "lockstep/core/basic_ops.h"

#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/rules.h"
#include "lockstep/trace/trace.h"

namespace lockstep {

Array add_any(const Array& a, const Array& b) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  return bind_one(add_any_p, {a, b});
}
Array scalar(const Scalar& value, DType dtype, bool weak_type) {
  return Array(ValueRef(new ScalarValue(value.cast(dtype), weak_type)));
}
Array scalar_like(const Array& a, const Scalar& value) { return scalar(value, a.dtype(), a.weak_type()); }
Array scalar_like(const Array& a, double value) { return scalar_like(a, Scalar(value, DType::float64)); }
Array full(AvalP aval, const Scalar& value) {
  Array number = scalar(value, aval->dtype, aval->weak_type);
  return aval->rank() == 0 ? number : lax::broadcast_in_dim(number, aval->shape, {});
}
Array zeros(AvalP aval) { return full(aval, Scalar(std::int64_t{0}, DType::int32)); }
Array instantiate_zeros(const Array& tangent, AvalP aval) { return tangent.has_value() ? tangent : zeros(aval); }

Array convert(const Array& a, DType dtype, bool weak_type) {
  if (a.dtype() == dtype && a.weak_type() == weak_type) return a;
  if (a.value()->kind() == Value::Kind::scalar)
    return scalar(static_cast<ScalarValue*>(a.value())->scalar, dtype, weak_type);
  return bind_one(convert_element_type_p, {a}, make_params(ConvertElementTypeParams{dtype, weak_type}));
}

Array moveaxis(const Array& a, int from, int to) {
  if (from == to) return a;
  Ints permutation;
  for (int i = 0; i < a.ndim(); ++i)
    if (i != from) permutation.push_back(i);
  permutation.insert(permutation.begin() + to, from);
  return lax::transpose(a, permutation);
}
Array broadcast_new_axis(const Array& a, std::int64_t size, int axis) {
  Ints dims;
  for (int i = 0; i <= a.ndim(); ++i)
    if (i != axis) dims.push_back(i);
  return lax::broadcast_in_dim(a, a.shape().with(axis, size), dims);
}
Array batch_axis_at(const Array& a, int dim, std::int64_t size, int axis) {
  return dim == kNotMapped ? broadcast_new_axis(a, size, axis) : moveaxis(a, dim, axis);
}
Array batch_axis_at_front(const Array& a, int dim, std::int64_t size) { return batch_axis_at(a, dim, size, 0); }

Array unbroadcast(const Array& cotangent, AvalP operand) {
  if (!cotangent.has_value() || cotangent.shape() == operand->shape) return cotangent;
  Ints axes;
  for (int i = 0; i < cotangent.ndim(); ++i)
    if (operand->rank() == 0 || cotangent.shape()[i] != operand->shape[i]) axes.push_back(i);
  Array summed = lax::reduce_sum(cotangent, axes);
  return operand->rank() == 0 ? summed : lax::reshape(summed, operand->shape);
}

}  // namespace lockstep

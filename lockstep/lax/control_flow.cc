#include "lockstep/lax/control_flow.h"

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/support/error.h"

namespace lockstep::lax::internal {

std::vector<std::string> leaf_names(const std::string& what, std::size_t n) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < n; ++i) names.push_back(what + " leaf " + std::to_string(i));
  return names;
}
std::int64_t scan_length(std::span<const Array> xs, std::int64_t given) {
  std::int64_t length = given;
  for (auto& x : xs) {
    if (x.ndim() == 0)
      throw_error(ErrorCode::shape, "scan", "xs must have a leading axis to go over, one of them is a scalar {}",
                  x.aval()->text);
    if (length < 0) length = x.shape()[0];
    if (x.shape()[0] != length)
      throw_error(ErrorCode::shape, "scan", "the leading axes of xs differ: {} and {} ({})", length, x.shape()[0],
                  x.aval()->text);
  }
  if (length < 0) throw_error(ErrorCode::invalid_argument, "scan", "there are no xs: give {{.length = n}}");
  return length;
}
Array branch_index(const Array& index) {
  if (index.ndim() != 0 || !is_integer(index.dtype()))
    throw_error(ErrorCode::dtype, "switch_", "the index must be a scalar integer, it is {}", index.aval()->text);
  return convert(index, DType::int32);
}
Array predicate_index(const Array& pred) {
  if (pred.ndim() != 0)
    throw_error(ErrorCode::shape, "cond",
                "the predicate must be a scalar, it is {}; for a choice per element use numpy::where",
                pred.aval()->text);
  if (is_bool(pred.dtype())) return convert(pred, DType::int32);
  if (!is_integer(pred.dtype()) && !is_floating(pred.dtype()))
    throw_error(ErrorCode::dtype, "cond", "the predicate must be a bool or a number, it is {}", pred.aval()->text);
  return convert(lax::ne(pred, scalar_like(pred, 0)), DType::int32);
}
void check_carry_structure(const char* operation, bool same) {
  if (!same)
    throw_error(ErrorCode::tree, operation,
                "the body must return a carry of the structure that it was given: sizes of containers "
                "or static fields differ");
}
Array loop_index(const Array& bound) {
  if (bound.ndim() != 0 || !is_integer(bound.dtype()))
    throw_error(ErrorCode::dtype, "fori_loop", "bounds must be scalar integers, one is {}", bound.aval()->text);
  return convert(bound, bound.dtype());
}
Array increment(const Array& i) { return lax::add(i, scalar_like(i, 1)); }
Array less(const Array& a, const Array& b) { return lax::lt(a, b); }

}  // namespace lockstep::lax::internal

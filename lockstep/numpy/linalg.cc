#include "lockstep/numpy/linalg.h"

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/promote.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {
namespace {

lax::DotOptions dot_options(const ProductOptions& o) {
  return {.precision = o.precision, .preferred_element_type = o.preferred_element_type};
}
bool is_iota(const Ints& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}
Array permuted(const Array& a, const Ints& perm) { return is_iota(perm) ? a : lax::transpose(a, perm); }
Array flat(const Array& a) { return a.ndim() == 1 ? a : lax::reshape(a, {a.size()}); }

[[noreturn]] void contracted_differ(const char* name, const Array& a, const Array& b, std::int64_t x, std::int64_t y) {
  throw_error(ErrorCode::shape, name, "contracting sizes differ: {} x {}, {} against {}", a.aval()->text,
              b.aval()->text, x, y);
}

}  // namespace

Array matmul(const Operand& a, const Operand& b, const ProductOptions& options) {
  LocationScope scope(a.where);
  for (const Operand* o : {&a, &b})
    if (o->array.ndim() == 0)
      throw_error(ErrorCode::shape, "matmul",
                  "takes arrays of one or more dimensions, got {} and {}; multiply by scalars with *",
                  a.array.aval()->text, b.array.aval()->text);
  auto [x, y] = promote_dtypes("matmul", a.array, b.array);
  bool x_vector = x.ndim() == 1, y_vector = y.ndim() == 1;
  std::int64_t k = x.shape().back(), k2 = y.shape()[static_cast<std::size_t>(y_vector ? 0 : y.ndim() - 2)];
  if (k != k2) contracted_differ("matmul", a.array, b.array, k, k2);

  // Batch dimensions, aligned at the end; those that one side lacks, or has with size 1, stay with the other side.
  int xb = std::max(0, x.ndim() - 2), yb = std::max(0, y.ndim() - 2), nb = std::max(xb, yb);
  Ints x_batch, y_batch, x_squeeze, y_squeeze;
  std::vector<int> kind;  // per batch dimension of the result: 0 both, 1 x only, 2 y only
  for (int i = 0; i < nb; ++i) {
    int xi = i - (nb - xb), yi = i - (nb - yb);
    std::int64_t xs = xi >= 0 ? x.shape()[static_cast<std::size_t>(xi)] : 1,
                 ys = yi >= 0 ? y.shape()[static_cast<std::size_t>(yi)] : 1;
    if (xs == ys && xi >= 0 && yi >= 0) {
      x_batch.push_back(xi), y_batch.push_back(yi), kind.push_back(0);
    } else if (yi < 0 || ys == 1) {
      if (yi >= 0) y_squeeze.push_back(yi);
      kind.push_back(1);
    } else if (xi < 0 || xs == 1) {
      if (xi >= 0) x_squeeze.push_back(xi);
      kind.push_back(2);
    } else {
      throw_error(ErrorCode::shape, "matmul", "batch dimensions do not broadcast: {} x {}", a.array.aval()->text,
                  b.array.aval()->text);
    }
  }
  auto squeeze = [](Array& v, const Ints& dims, Ints& batch) {
    if (dims.empty()) return;
    for (auto& d : batch) {
      std::int64_t less = 0;
      for (auto s : dims) less += s < d;
      d -= less;
    }
    v = lax::squeeze(v, dims);
  };
  squeeze(x, x_squeeze, x_batch);
  squeeze(y, y_squeeze, y_batch);
  Array out = lax::dot_general(x, y, {{{x.ndim() - 1}, {y_vector ? 0 : y.ndim() - 2}}, {x_batch, y_batch}},
                               dot_options(options));
  // The result has: shared batch, x's rest (batch of its own, rows), y's rest (batch of its own, columns).
  std::int64_t shared = static_cast<std::int64_t>(x_batch.size()), x_own = 0, y_own = 0;
  for (int v : kind) x_own += v == 1, y_own += v == 2;
  std::int64_t rows = shared + x_own, y_at = rows + !x_vector;
  Ints perm;
  std::int64_t s = 0, xo = shared, yo = y_at;
  for (int v : kind) perm.push_back(v == 0 ? s++ : v == 1 ? xo++ : yo++);
  if (!x_vector) perm.push_back(rows);
  if (!y_vector) perm.push_back(yo);
  return permuted(out, perm);
}

Array dot(const Operand& a, const Operand& b, const ProductOptions& options) {
  LocationScope scope(a.where);
  auto [x, y] = promote_dtypes("dot", a.array, b.array);
  if (x.ndim() == 0 || y.ndim() == 0) return lax::mul(x, y);
  std::int64_t at = y.ndim() == 1 ? 0 : y.ndim() - 2, k = x.shape().back(),
               k2 = y.shape()[static_cast<std::size_t>(at)];
  if (k != k2) contracted_differ("dot", a.array, b.array, k, k2);
  return lax::dot_general(x, y, {{{x.ndim() - 1}, {at}}, {{}, {}}}, dot_options(options));
}
Array vdot(const Operand& a, const Operand& b, const ProductOptions& options) {
  LocationScope scope(a.where);
  Array x = is_complex(a.array.dtype()) ? lax::conj(a.array) : a.array;
  return dot(flat(x), flat(b.array), options);
}
Array inner(const Operand& a, const Operand& b, const ProductOptions& options) {
  LocationScope scope(a.where);
  if (a.array.ndim() == 0 || b.array.ndim() == 0) return dot(a, b, options);
  return tensordot(a, b, std::pair<Ints, Ints>{Ints{-1}, Ints{-1}}, options);
}
Array outer(const Operand& a, const Operand& b) {
  LocationScope scope(a.where);
  auto [x, y] = promote_dtypes("outer", flat(a.array), flat(b.array));
  return lax::mul(lax::expand_dims(x, {1}), lax::expand_dims(y, {0}));
}
Array tensordot(const Operand& a, const Operand& b, int axes, const ProductOptions& options) {
  LocationScope scope(a.where);
  int xr = a.array.ndim(), yr = b.array.ndim();
  if (axes < 0 || axes > std::min(xr, yr))
    throw_error(ErrorCode::axis, "tensordot", "can't contract {} axes of {} and {}", axes, a.array.aval()->text,
                b.array.aval()->text);
  Ints x, y;
  for (int i = 0; i < axes; ++i) x.push_back(xr - axes + i), y.push_back(i);
  return tensordot(a, b, std::pair{x, y}, options);
}
Array tensordot(const Operand& a, const Operand& b, const std::pair<Ints, Ints>& axes, const ProductOptions& options) {
  LocationScope scope(a.where);
  auto [x, y] = promote_dtypes("tensordot", a.array, b.array);
  if (axes.first.size() != axes.second.size())
    throw_error(ErrorCode::axis, "tensordot", "as many axes of one as of the other: {} and {}",
                to_tuple_string(axes.first), to_tuple_string(axes.second));
  auto canonical = [](const Ints& list, const Array& v) {
    Ints out;
    for (auto i : list) {
      if (i < -v.ndim() || i >= v.ndim())
        throw_error(ErrorCode::axis, "tensordot", "axis {} is out of range for {}", i, v.aval()->text);
      out.push_back(i < 0 ? i + v.ndim() : i);
    }
    return out;
  };
  Ints xs = canonical(axes.first, x), ys = canonical(axes.second, y);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    std::int64_t k = x.shape()[static_cast<std::size_t>(xs[i])], k2 = y.shape()[static_cast<std::size_t>(ys[i])];
    if (k != k2) contracted_differ("tensordot", a.array, b.array, k, k2);
  }
  return lax::dot_general(x, y, {{xs, ys}, {{}, {}}}, dot_options(options));
}

}  // namespace lockstep::numpy

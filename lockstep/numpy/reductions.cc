#include "lockstep/numpy/reductions.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {
namespace {

bool is_half(DType t) { return t == DType::float16 || t == DType::bfloat16; }
DType upcast_half(DType t) { return is_half(t) ? DType::float32 : t; }
// Sums of small integers are made in the default integer type.
DType promote_integer(DType t) {
  if (is_bool(t)) return default_int();
  DType wide = is_unsigned_integer(t) ? canonicalize(DType::uint64) : default_int();
  return is_integer(t) && itemsize(t) < itemsize(wide) ? wide : t;
}
Array to_bool(const Array& a) {
  return lax::convert_element_type(is_complex(a.dtype()) ? lax::real(a) : a, DType::bool_);
}
Array is_nan(const Array& a) { return lax::ne(a, a); }
std::optional<DType> canonical(const std::optional<DType>& t) {
  return t ? std::optional(canonicalize(*t)) : std::nullopt;
}

// What is special to one reduction. The identity is that of a dtype.
struct Reduction {
  const char* name;
  Array (*reduce)(const Operand&, const Ints&);
  Array (*combine)(const Operand&, const Operand&);
  Scalar (*identity)(DType);
  bool has_identity = true;
};
Scalar zero_of(DType t) { return Scalar(std::int64_t{0}, t); }
Scalar one_of(DType t) { return is_bool(t) ? Scalar(true) : Scalar(std::int64_t{1}, t); }
constexpr Reduction kSum{"sum", lax::reduce_sum, lax::add, zero_of};
constexpr Reduction kProd{"prod", lax::reduce_prod, lax::mul, one_of};
constexpr Reduction kMax{"max", lax::reduce_max, lax::max, min_value, false};
constexpr Reduction kMin{"min", lax::reduce_min, lax::min, max_value, false};
constexpr Reduction kAny{"any", lax::reduce_or, lax::bitwise_or, zero_of};
constexpr Reduction kAll{"all", lax::reduce_and, lax::bitwise_and, one_of};
constexpr Reduction kBoolSum{"sum", lax::reduce_or, lax::bitwise_or, zero_of};
constexpr Reduction kBoolProd{"prod", lax::reduce_and, lax::bitwise_and, one_of};

Array reduce(const Reduction& r, Array a, const Axes& axis, DType computation, DType result, bool keepdims,
             const Array& initial, const Array& where) {
  Ints axes = axis.resolve(r.name, a.ndim());
  if (where.has_value() && !is_bool(where.dtype()))
    throw_error(ErrorCode::dtype, r.name, "wants a `where` of bools, not {}", where.aval()->text);
  if (!r.has_identity && !initial.has_value()) {
    if (where.has_value())
      throw_error(ErrorCode::invalid_argument, r.name, "has no identity: with `where` it needs `initial`");
    for (auto d : axes)
      if (a.shape(static_cast<int>(d)) == 0)
        throw_error(ErrorCode::shape, r.name, "axis {} of {} is empty, and there is no identity; give `initial`", d,
                    a.aval()->text);
  }
  a = lax::convert_element_type(a, computation);
  if (where.has_value()) a = select_where(where, a, scalar(r.identity(computation), computation));
  Array out = r.reduce(a, axes);
  if (initial.has_value()) {
    if (initial.ndim() != 0)
      throw_error(ErrorCode::shape, r.name, "wants a scalar `initial`, not {}", initial.aval()->text);
    out = r.combine(lax::convert_element_type(initial, computation), out);
  }
  if (keepdims) {
    std::sort(axes.begin(), axes.end());
    out = lax::expand_dims(out, axes);
  }
  return lax::convert_element_type(out, result);
}
Array sum_or_prod(const Reduction& r, const Reduction& of_bools, const Operand& x, const SumOptions& o) {
  LocationScope scope(x.where);
  Array a = promote_numeric(r.name, x.array);
  DType result = canonical(o.dtype).value_or(o.promote_integers ? promote_integer(a.dtype()) : a.dtype());
  DType computation = o.dtype ? result : upcast_half(result);
  return reduce(is_bool(computation) ? of_bools : r, a, o.axis, computation, result, o.keepdims, o.initial, o.where);
}

}  // namespace

Array sum(const Operand& a, const SumOptions& o) { return sum_or_prod(kSum, kBoolSum, a, o); }
Array prod(const Operand& a, const SumOptions& o) { return sum_or_prod(kProd, kBoolProd, a, o); }
Array max(const Operand& a, const MinMaxOptions& o) {
  LocationScope scope(a.where);
  DType t = a.array.dtype();
  return reduce(kMax, a.array, o.axis, t, t, o.keepdims, o.initial, o.where);
}
Array min(const Operand& a, const MinMaxOptions& o) {
  LocationScope scope(a.where);
  DType t = a.array.dtype();
  return reduce(kMin, a.array, o.axis, t, t, o.keepdims, o.initial, o.where);
}
Array any(const Operand& a, const AnyAllOptions& o) {
  LocationScope scope(a.where);
  return reduce(kAny, to_bool(a.array), o.axis, DType::bool_, DType::bool_, o.keepdims, {}, o.where);
}
Array all(const Operand& a, const AnyAllOptions& o) {
  LocationScope scope(a.where);
  return reduce(kAll, to_bool(a.array), o.axis, DType::bool_, DType::bool_, o.keepdims, {}, o.where);
}

namespace {

// How many elements a reduction runs over, in the dtype.
Array count(const char* name, const Array& a, const Axes& axis, bool keepdims, const Array& where, DType dtype) {
  if (!where.has_value()) {
    std::int64_t n = 1;
    for (auto d : axis.resolve(name, a.ndim())) n *= a.shape(static_cast<int>(d));
    return scalar(Scalar(n, dtype), dtype);
  }
  return sum(broadcast_operand(where, a.shape()), {.axis = axis, .dtype = dtype, .keepdims = keepdims});
}
// The mean in a dtype, before it is converted back.
Array mean_in(const Array& a, const Axes& axis, DType computation, bool keepdims, const Array& where) {
  Array n = count("mean", a, axis, keepdims, where, computation);
  return lax::div(sum(a, {.axis = axis, .dtype = computation, .keepdims = keepdims, .where = where}), n);
}

}  // namespace

Array mean(const Operand& x, const MeanOptions& o) {
  LocationScope scope(x.where);
  DType result = canonical(o.dtype).value_or(to_inexact(x.array.dtype()));
  DType computation = o.dtype ? result : upcast_half(result);
  return lax::convert_element_type(mean_in(x.array, o.axis, computation, o.keepdims, o.where), result);
}
Array average(const Operand& x, const AverageOptions& o) {
  LocationScope scope(x.where);
  if (!o.weights.has_value())
    return mean(promote_inexact("average", x.array), {.axis = o.axis, .keepdims = o.keepdims});
  auto [a, w] = promote_dtypes_inexact("average", x.array, o.weights);
  Ints axes = o.axis.resolve("average", a.ndim());
  if (w.shape() != a.shape()) {
    if (!o.axis.given() || w.shape() != take(a.shape(), axes))
      throw_error(ErrorCode::shape, "average", "wants weights of the array's shape {} or that of its axes {}, not {}",
                  to_string(a.shape()), to_tuple_string(axes), to_string(w.shape()));
    w = lax::reshape(w, keep_axes(a.shape(), remaining(a.ndim(), axes)), argsort(axes));
  }
  Array total = sum(w, {.axis = o.axis, .keepdims = o.keepdims});
  if (w.shape() != a.shape() && total.ndim() != 0 && !o.keepdims) total = sum(w, {.axis = o.axis});
  return true_divide(sum(multiply(a, w), {.axis = o.axis, .keepdims = o.keepdims}), total);
}

namespace {

struct VarTypes {
  DType computation, result;
};
VarTypes var_types(const char* name, DType a, const std::optional<DType>& dtype) {
  if (dtype) {
    DType t = canonicalize(*dtype);
    if (is_complex(a) && !is_complex(t))
      throw_error(ErrorCode::dtype, name, "of complex numbers cannot be computed in {}", lockstep::name(t));
    return {upcast_half(t), t};
  }
  if (!is_inexact(a)) return {to_inexact(a), to_inexact(a)};
  return {upcast_half(a), real_type(a)};
}
// |x|^2.
Array squared(const Array& x) {
  if (!is_complex(x.dtype())) return lax::square(x);
  return lax::real(lax::mul(x, lax::conj(x)));
}
std::string key_of(const VarOptions& o, int rank, const char* name) {
  return fmt::format("{} {} {} {}{}", to_string(o.axis.resolve(name, rank)), o.axis.given(),
                     o.dtype ? lockstep::name(*o.dtype) : "", o.keepdims, o.where.has_value() ? 1 : 0) +
         (o.mean.has_value() ? " mean" : "");
}
// The operands of a jitted variance: the array, ddof, and what else is given; and how a body gets them back.
Arrays var_operands(const Array& a, const VarOptions& o) {
  Arrays out{a, o.ddof};
  if (o.where.has_value()) out.push_back(o.where);
  if (o.mean.has_value()) out.push_back(o.mean);
  return out;
}
VarOptions var_options(VarOptions o, std::span<const Array> in) {
  std::size_t next = 2;
  o.ddof = in[1];
  if (o.where.has_value()) o.where = in[next++];
  if (o.mean.has_value()) o.mean = in[next];
  return o;
}

}  // namespace

Array var(const Operand& x, const VarOptions& options) {
  LocationScope scope(x.where);
  return jitted_many("_var", key_of(options, x.array.ndim(), "var"), var_operands(x.array, options), [&](auto in) {
    VarOptions o = var_options(options, in);
    auto [computation, result] = var_types("var", in[0].dtype(), o.dtype);
    Array a = lax::convert_element_type(in[0], computation);
    Array mean = o.mean.has_value() ? lax::convert_element_type(o.mean, computation)
                                    : mean_in(a, o.axis, computation, true, o.where);
    Array centered =
        squared(lax::sub(a, broadcast_operand(mean, keep_axes(a.shape(), o.axis.resolve("var", a.ndim())))));
    DType real = centered.dtype();
    Array divisor = count("var", a, o.axis, o.keepdims, o.where, real);
    divisor = lax::sub(divisor, lax::convert_element_type(o.ddof, real));
    Array total = sum(centered, {.axis = o.axis, .dtype = real, .keepdims = o.keepdims, .where = o.where});
    Array out = lax::convert_element_type(lax::div(total, divisor), real_type(result));
    return Arrays{select_where(lax::gt(divisor, scalar_like(divisor, 0.0)), out, Array(nan))};
  })[0];
}
Array std(const Operand& x, const VarOptions& options) {
  LocationScope scope(x.where);
  return jitted_many("_std", key_of(options, x.array.ndim(), "std"), var_operands(x.array, options),
                     [&](auto in) { return Arrays{lax::sqrt(var(in[0], var_options(options, in)))}; })[0];
}

namespace {

// As a jit equation, for reductions that JAX makes so: the options without arrays are part of the key.
std::string key_of(const Axes& axis, int rank, const char* name, bool keepdims,
                   const std::optional<DType>& dtype = std::nullopt) {
  return fmt::format("{} {} {} {}", axis.given(), to_string(axis.resolve(name, rank)), keepdims,
                     dtype ? lockstep::name(*dtype) : "");
}

}  // namespace

Array ptp(const Operand& x, const AnyAllOptions& o) {
  LocationScope scope(x.where);
  return jitted("_ptp", key_of(o.axis, x.array.ndim(), "ptp", o.keepdims), {x.array}, [&](auto in) {
    Array high = max(in[0], {.axis = o.axis, .keepdims = o.keepdims});
    return lax::sub(high, min(in[0], {.axis = o.axis, .keepdims = o.keepdims}));
  });
}
Array count_nonzero(const Operand& x, const AnyAllOptions& o) {
  LocationScope scope(x.where);
  return jitted("count_nonzero", key_of(o.axis, x.array.ndim(), "count_nonzero", o.keepdims), {x.array}, [&](auto in) {
    Array nonzero = lax::ne(in[0], scalar_like(in[0], 0.0));
    return sum(nonzero, {.axis = o.axis, .dtype = default_int(), .keepdims = o.keepdims});
  });
}

namespace {

Array arg_reduce(const char* name, Array (*fn)(const Operand&, int, DType), const Operand& x, const ArgOptions& o) {
  LocationScope scope(x.where);
  Array a = x.array;
  Ints dims = o.axis.resolve(name, a.ndim());
  if (o.axis.given() && dims.size() != 1)
    throw_error(ErrorCode::axis, name, "wants one axis, not {}", to_tuple_string(dims));
  int axis = o.axis.given() ? static_cast<int>(dims[0]) : 0;
  if (!o.axis.given()) a = lax::reshape(a, {a.size()});
  if (a.shape(axis) == 0) throw_error(ErrorCode::shape, name, "of an empty sequence: {}", x.array.aval()->text);
  Array out = fn(a, axis, default_int());
  return o.keepdims ? lax::expand_dims(out, dims) : out;
}
Array nan_arg_reduce(const char* name, double replacement, Array (*fn)(const Operand&, const ArgOptions&),
                     const Operand& x, const ArgOptions& o) {
  LocationScope scope(x.where);
  return jitted(name, key_of(o.axis, x.array.ndim(), name, o.keepdims), {x.array}, [&](auto in) {
    const Array& a = in[0];
    if (!is_inexact(a.dtype())) return fn(a, o);
    Array places = fn(select_where(is_nan(a), scalar_like(a, replacement), a), o);
    Array nothing = all(is_nan(a), {.axis = o.axis, .keepdims = o.keepdims});
    return select_where(nothing, scalar_like(places, -1.0), places);
  });
}

}  // namespace

Array argmax(const Operand& a, const ArgOptions& o) { return arg_reduce("argmax", lax::argmax, a, o); }
Array argmin(const Operand& a, const ArgOptions& o) { return arg_reduce("argmin", lax::argmin, a, o); }
Array nanargmax(const Operand& a, const ArgOptions& o) { return nan_arg_reduce("nanargmax", -inf, argmax, a, o); }
Array nanargmin(const Operand& a, const ArgOptions& o) { return nan_arg_reduce("nanargmin", inf, argmin, a, o); }

namespace {

template <class Options>
Arrays operands_of(const Array& a, const Options& o) {
  Arrays out{a};
  if (o.initial.has_value()) out.push_back(o.initial);
  if (o.where.has_value()) out.push_back(o.where);
  return out;
}
template <class Options>
Options options_of(Options o, std::span<const Array> in) {
  std::size_t next = 1;
  if (o.initial.has_value()) o.initial = in[next++];
  if (o.where.has_value()) o.where = in[next];
  return o;
}
template <class Options>
Array nan_reduce(const char* name, Array (*fn)(const Operand&, const Options&), Scalar (*identity)(DType),
                 bool nan_if_all_nan, const std::optional<DType>& dtype, const Operand& x, const Options& options) {
  LocationScope scope(x.where);
  std::string key = key_of(options.axis, x.array.ndim(), name, options.keepdims, dtype);
  key += fmt::format(" {}{}", options.initial.has_value(), options.where.has_value());
  return jitted_many(name, key, operands_of(x.array, options), [&](auto in) {
    Options o = options_of(options, in);
    const Array& a = in[0];
    if (!is_inexact(a.dtype())) return Arrays{fn(a, o)};
    Array out = fn(select_where(is_nan(a), scalar(identity(a.dtype()), a.dtype()), a), o);
    if (!nan_if_all_nan) return Arrays{out};
    Array nothing = all(is_nan(a), {.axis = o.axis, .keepdims = o.keepdims});
    return Arrays{select_where(nothing, scalar_like(a, nan), out)};
  })[0];
}

}  // namespace

Array nansum(const Operand& a, const SumOptions& o) { return nan_reduce("nansum", sum, zero_of, false, o.dtype, a, o); }
Array nanprod(const Operand& a, const SumOptions& o) {
  return nan_reduce("nanprod", prod, one_of, false, o.dtype, a, o);
}
Array nanmax(const Operand& a, const MinMaxOptions& o) {
  return nan_reduce("nanmax", max, min_value, !o.initial.has_value(), std::nullopt, a, o);
}
Array nanmin(const Operand& a, const MinMaxOptions& o) {
  return nan_reduce("nanmin", min, max_value, !o.initial.has_value(), std::nullopt, a, o);
}
Array nanmean(const Operand& x, const MeanOptions& options) {
  LocationScope scope(x.where);
  std::string key = key_of(options.axis, x.array.ndim(), "nanmean", options.keepdims, options.dtype);
  Arrays operands{x.array};
  if (options.where.has_value()) operands.push_back(options.where);
  return jitted_many("nanmean", key + (operands.size() == 2 ? " where" : ""), operands, [&](auto in) {
    MeanOptions o = options;
    if (in.size() == 2) o.where = in[1];
    const Array& a = in[0];
    if (!is_inexact(a.dtype())) return Arrays{mean(a, o)};
    DType t = canonical(o.dtype).value_or(a.dtype());
    Array n = sum(lax::bitwise_not(is_nan(a)), {.axis = o.axis, .dtype = t, .keepdims = o.keepdims, .where = o.where});
    return Arrays{lax::div(nansum(a, {.axis = o.axis, .dtype = t, .keepdims = o.keepdims, .where = o.where}), n)};
  })[0];
}
Array nanvar(const Operand& x, const VarOptions& options) {
  LocationScope scope(x.where);
  return jitted_many("nanvar", key_of(options, x.array.ndim(), "nanvar"), var_operands(x.array, options), [&](auto in) {
    VarOptions o = var_options(options, in);
    auto [computation, result] = var_types("nanvar", in[0].dtype(), o.dtype);
    Array a = lax::convert_element_type(in[0], computation);
    Array mean = o.mean.has_value()
                     ? lax::convert_element_type(o.mean, computation)
                     : nanmean(a, {.axis = o.axis, .dtype = computation, .keepdims = true, .where = o.where});
    Array missing = is_nan(a);
    Array centered =
        squared(select_where(missing, scalar_like(a, 0.0), lax::sub(a, broadcast_operand(mean, a.shape()))));
    Array n = sum(lax::bitwise_not(missing), {.axis = o.axis, .keepdims = o.keepdims, .where = o.where});
    n = subtract(n, o.ddof);
    Array nothing = lax::le(n, scalar_like(n, 0.0));
    Array total = sum(centered, {.axis = o.axis, .keepdims = o.keepdims, .where = o.where});
    total = select_where(nothing, scalar_like(total, nan), total);
    Array divisor = lax::convert_element_type(select_where(nothing, scalar_like(n, 1.0), n), total.dtype());
    return Arrays{lax::convert_element_type(lax::div(total, divisor), real_type(result))};
  })[0];
}
Array nanstd(const Operand& x, const VarOptions& options) {
  LocationScope scope(x.where);
  return jitted_many("nanstd", key_of(options, x.array.ndim(), "nanstd"), var_operands(x.array, options),
                     [&](auto in) { return Arrays{lax::sqrt(nanvar(in[0], var_options(options, in)))}; })[0];
}

}  // namespace lockstep::numpy

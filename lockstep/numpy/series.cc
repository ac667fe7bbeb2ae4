#include "lockstep/numpy/series.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/indexing.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/numpy/sorting.h"
#include "lockstep/ops/conv.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/sort.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep::numpy {
namespace {

using Limit = std::optional<std::int64_t>;

// Operands of which some may be absent, flattened for a jitted body and taken apart again in it.
class Optionals {
 public:
  Optionals(std::initializer_list<Array> all) {
    for (const Array& a : all) {
      given_.push_back(a.has_value());
      if (a.has_value()) operands.push_back(a);
    }
  }
  std::string key() const {
    std::string out;
    for (bool g : given_) out += g ? '1' : '0';
    return out;
  }
  Arrays all(std::span<const Array> in) const {
    Arrays out;
    for (bool g : given_) {
      out.push_back(g ? in[0] : Array());
      if (g) in = in.subspan(1);
    }
    return out;
  }
  Arrays operands;

 private:
  std::vector<bool> given_;
};

Array between(const Array& a, Limit begin, Limit end, int axis) { return lax::slice_in_dim(a, begin, end, 1, axis); }
// All but the first, and all but the last element along an axis.
std::pair<Array, Array> neighbours(const Array& a, int axis) {
  std::vector<Index> later(static_cast<std::size_t>(axis), Index(slice())), before = later;
  later.emplace_back(slice(1, end));
  before.emplace_back(slice(0, -1));
  return {a[IndexList(later)], a[IndexList(before)]};
}

}  // namespace

Array diff(const Operand& operand, int n, const DiffOptions& o) {
  LocationScope scope(operand.where);
  if (n < 0) throw_error(ErrorCode::invalid_argument, "diff", "the order must not be negative, it is {}", n);
  if (operand.array.ndim() == 0) throw_error(ErrorCode::shape, "diff", "wants at least one dimension");
  int axis = canonical_axis("diff", o.axis, operand.array.ndim());
  if (n == 0) return operand.array;
  Optionals optional{operand.array, o.prepend, o.append};
  return jitted_many("diff", fmt::format("{} {} {}", n, axis, optional.key()), optional.operands, [&](auto in) {
    Arrays all = optional.all(in), parts;
    Array a = all[0];
    Shape one = a.shape();
    one[static_cast<std::size_t>(axis)] = 1;
    auto slice_of = [&](const Array& x) { return x.ndim() == 0 ? broadcast_to(x, one) : x; };
    if (all[1].has_value()) parts.push_back(slice_of(all[1]));
    parts.push_back(a);
    if (all[2].has_value()) parts.push_back(slice_of(all[2]));
    if (parts.size() > 1) a = concatenate(parts, axis);
    for (int i = 0; i < n; ++i) {
      auto [later, before] = neighbours(a, axis);
      a = is_bool(a.dtype()) ? lax::ne(later, before) : lax::sub(later, before);
    }
    return Arrays{a};
  })[0];
}
Array ediff1d(const Operand& operand, const Ediff1dOptions& o) {
  LocationScope scope(operand.where);
  Optionals optional{operand.array, o.to_end, o.to_begin};
  return jitted_many("ediff1d", optional.key(), optional.operands, [&](auto in) {
    Arrays all = optional.all(in);
    Array a = ravel(all[0]);
    auto [later, before] = neighbours(a, 0);
    Array out = lax::sub(later, before);
    if (all[2].has_value()) out = concatenate({ravel(convert(all[2], a.dtype())), out});
    if (all[1].has_value()) out = concatenate({out, ravel(convert(all[1], a.dtype()))});
    return Arrays{out};
  })[0];
}

namespace {

Array gradient_along(const Array& a, const Array& spacing, int axis) {
  auto sliced = [axis](const Array& x, Limit begin, Limit end) { return between(x, begin, end, axis); };
  Array upper = sliced(a, 1, 2) - sliced(a, 0, 1), lower = sliced(a, -1, Limit()) - sliced(a, -2, -1), inner;
  if (spacing.ndim() == 0) {
    inner = (sliced(a, 2, Limit()) - sliced(a, Limit(), -2)) * 0.5 / spacing;
    lower /= spacing;
    upper /= spacing;
  } else {
    if (spacing.shape() != Shape{a.shape(axis)})
      throw_error(ErrorCode::shape, "gradient", "wants a number or {} coordinates along axis {}, not {}", a.shape(axis),
                  axis, spacing.aval()->text);
    Shape shape = Shape::filled(static_cast<std::size_t>(a.ndim()), 1);
    shape[static_cast<std::size_t>(axis)] = a.shape(axis);
    Array x = lax::reshape(spacing, shape);
    upper /= sliced(x, 1, 2) - sliced(x, 0, 1);
    lower /= sliced(x, -1, Limit()) - sliced(x, -2, -1);
    Array before = sliced(x, 1, -1) - sliced(x, 0, -2), after = sliced(x, 2, Limit()) - sliced(x, 1, -1);
    Array low = -after / (before * (before + after)), middle = (after - before) / (before * after);
    Array high = before / (after * (before + after));
    inner = low * sliced(a, 0, -2) + middle * sliced(a, 1, -1) + high * sliced(a, 2, Limit());
  }
  return concatenate({upper, inner, lower}, axis);
}

}  // namespace

Arrays gradient(const Operand& f, const Arrays& spacing, const Axes& axis) {
  LocationScope scope(f.where);
  Ints axes = axis.resolve("gradient", f.array.ndim());
  if (spacing.size() > 1 && spacing.size() != axes.size())
    throw_error(ErrorCode::invalid_argument, "gradient", "{} spacings do not go with the {} axes {}", spacing.size(),
                axes.size(), to_tuple_string(axes));
  for (auto d : axes)
    if (f.array.shape(static_cast<int>(d)) < 2)
      throw_error(ErrorCode::shape, "gradient", "wants at least two elements along axis {} of {}", d,
                  f.array.aval()->text);
  Arrays operands{f.array};
  operands.insert(operands.end(), spacing.begin(), spacing.end());
  return jitted_many("gradient", to_string(axes), operands, [&](auto in) {
    Arrays all = promote_dtypes("gradient", in), out;
    if (!is_inexact(all[0].dtype()))
      for (Array& a : all) a = promote_inexact("gradient", a);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      Array h = all.size() == 1 ? Array(1.0) : all.size() == 2 ? all[1] : all[i + 1];
      out.push_back(gradient_along(all[0], h, static_cast<int>(axes[i])));
    }
    return out;
  });
}

Array trapezoid(const Operand& operand, const TrapezoidOptions& o) {
  LocationScope scope(operand.where);
  int axis = canonical_axis("trapezoid", o.axis, operand.array.ndim());
  Optionals optional{operand.array, o.x, o.dx};
  return jitted_many("trapezoid", fmt::format("{} {}", axis, optional.key()), optional.operands, [&](auto in) {
    Arrays all = optional.all(in);
    Array y, dx;
    if (all[1].has_value()) {
      Array x;
      std::tie(y, x) = promote_dtypes_inexact("trapezoid", all[0], all[1]);
      dx = x.ndim() == 1 ? diff(x) : numpy::moveaxis(diff(x, 1, {.axis = o.axis}), o.axis, -1);
    } else {
      y = promote_inexact("trapezoid", all[0]), dx = all[2];
      if (dx.ndim() > 0) dx = numpy::moveaxis(lax::broadcast_to_rank(dx, y.ndim()), o.axis, -1);
    }
    y = numpy::moveaxis(y, axis, -1);
    if (dx.ndim() == 0 || dx.shape(-1) == 1) {
      if (dx.ndim() != 0) dx = dx[{dots, 0}];
      return Arrays{dx * (sum(y, -1) - 0.5 * (y[{dots, 0}] + y[{dots, -1}]))};
    }
    return Arrays{0.5 * sum(dx * (y[{dots, slice(1, end)}] + y[{dots, slice(0, -1)}]), -1)};
  })[0];
}

Array unwrap(const Operand& operand, const UnwrapOptions& o) {
  LocationScope scope(operand.where);
  int axis = canonical_axis("unwrap", o.axis, operand.array.ndim());
  Optionals optional{operand.array, o.period, o.discont};
  return jitted_many("unwrap", fmt::format("{} {}", axis, optional.key()), optional.operands, [&](auto in) {
    Arrays all = optional.all(in);
    auto [p, period] = promote_dtypes("unwrap", all[0], all[1]);
    if (is_complex(p.dtype()))
      throw_error(ErrorCode::dtype, "unwrap", "does not take complex numbers: {}", p.aval()->text);
    if (p.shape(axis) == 0) return Arrays{p};
    Array limit = all[2].has_value() ? all[2] : period / 2;
    Array half = is_integer(p.dtype()) ? floor_divide(period, 2) : period / 2;
    Array step = diff(p, 1, {.axis = axis});
    Array wrapped = remainder(step + half, period) - half;
    wrapped = select_where((wrapped == -half) & (step > 0), half, wrapped);
    Array correction = select_where(abs(step) < limit, 0, wrapped - step);
    Array first = between(p, 0, 1, axis), rest = between(p, 1, Limit(), axis) + cumsum(correction, axis);
    return Arrays{concatenate({first, rest}, axis)};
  })[0];
}

Array interp(const Operand& operand, const Operand& xs, const Operand& fs, const InterpOptions& o) {
  LocationScope scope(operand.where);
  if (xs.array.ndim() != 1 || xs.array.shape() != fs.array.shape())
    throw_error(ErrorCode::shape, "interp", "wants xp and fp as vectors of one size, not {} and {}",
                xs.array.aval()->text, fs.array.aval()->text);
  if (o.period.has_value() && o.period.ndim() != 0)
    throw_error(ErrorCode::shape, "interp", "wants a scalar period, not {}", o.period.aval()->text);
  Optionals optional{operand.array, xs.array, fs.array, o.left, o.right, o.period};
  return jitted_many("_interp", fmt::format("{} {}", optional.key(), o.extrapolate), optional.operands, [&](auto in) {
    Arrays all = optional.all(in);
    auto [x, xp] = promote_dtypes_inexact("interp", all[0], all[1]);
    Array fp = promote_inexact("interp", all[2]), period = all[5];
    if (is_complex(x.dtype())) throw_error(ErrorCode::dtype, "interp", "does not take complex x: {}", x.aval()->text);
    if (period.has_value()) {
      period = abs(period);
      x = remainder(x, period), xp = remainder(xp, period);
      std::tie(xp, fp) = lax::sort_key_val(xp, fp);
      xp = concatenate({xp[slice(-1, none)] - period, xp, xp[slice(0, 1)] + period});
      fp = concatenate({fp[slice(-1, none)], fp, fp[slice(0, 1)]});
    }
    Array i = clip(searchsorted(xp, x, Side::right), 1, xp.size() - 1), before = i - 1;
    Array df = fp[i] - fp[before], dx = xp[i] - xp[before], delta = x - xp[before];
    // The distance between epsilon and the next number: below it two places are the same.
    double epsilon = x.dtype() == DType::float64   ? std::ldexp(1.0, -104)
                     : x.dtype() == DType::float32 ? std::ldexp(1.0, -46)
                     : x.dtype() == DType::float16 ? std::ldexp(1.0, -20)
                                                   : std::ldexp(1.0, -14);
    Array same = lax::le(lax::abs(dx), scalar_like(dx, epsilon));
    Array f = select_where(same, fp[before], fp[before] + delta / select_where(same, 1, dx) * df);
    if (o.extrapolate || period.has_value()) return Arrays{f};
    f = select_where(x < xp[0], all[3].has_value() ? all[3] : fp[0], f);
    return Arrays{select_where(x > xp[-1], all[4].has_value() ? all[4] : fp[-1], f)};
  })[0];
}

namespace {

Array slide(const char* name, bool correlate, const Operand& left, const Operand& right, std::string_view mode,
            const ProductOptions& o) {
  LocationScope scope(left.where);
  for (const Array* a : {&left.array, &right.array})
    if (a->ndim() != 1 || a->size() == 0)
      throw_error(ErrorCode::shape, name, "wants vectors that are not empty, not {}", a->aval()->text);
  if (mode != "full" && mode != "same" && mode != "valid")
    throw_error(ErrorCode::invalid_argument, name, "mode \"{}\" is unknown; there are full, same and valid", mode);
  std::string key(mode);
  if (o.precision)
    key += fmt::format(" {} {}", static_cast<int>(o.precision->first), static_cast<int>(o.precision->second));
  if (o.preferred_element_type) key += fmt::format(" {}", lockstep::name(*o.preferred_element_type));
  return jitted(name, key, {left.array, right.array}, [&](auto in) {
    auto [a, b] =
        o.preferred_element_type ? promote_dtypes(name, in[0], in[1]) : promote_dtypes_inexact(name, in[0], in[1]);
    bool swap = a.size() < b.size();
    if (correlate) b = conj(b);
    if (swap) std::swap(a, b);
    if (!correlate) b = flip(b);
    std::int64_t n = b.size();
    std::pair<std::int64_t, std::int64_t> padding{0, 0};
    if (mode == "same") padding = {n / 2, n - n / 2 - 1};
    if (mode == "full") padding = {n - 1, n - 1};
    Array out =
        lax::conv_general_dilated(a[{newaxis, newaxis}], b[{newaxis, newaxis}], {1}, {padding},
                                  {.precision = o.precision, .preferred_element_type = o.preferred_element_type});
    return correlate && swap ? out[{0, 0, slice(none, none, -1)}] : out[{0, 0}];
  });
}

}  // namespace

Array convolve(const Operand& a, const Operand& v, std::string_view mode, const ProductOptions& o) {
  return slide("convolve", false, a, v, mode, o);
}
Array correlate(const Operand& a, const Operand& v, std::string_view mode, const ProductOptions& o) {
  return slide("correlate", true, a, v, mode, o);
}

Array polyval(const Operand& coefficients, const Operand& operand) {
  LocationScope scope(coefficients.where);
  if (coefficients.array.ndim() == 0)
    throw_error(ErrorCode::shape, "polyval", "wants coefficients along an axis, not {}",
                coefficients.array.aval()->text);
  return jitted("polyval", "", {coefficients.array, operand.array}, [&](auto in) {
    auto [p, x] = promote_dtypes("polyval", in[0], in[1]);
    Shape own(p.shape().begin() + 1, p.shape().end());
    Array start = zeros(make_aval(broadcast_shapes("polyval", {own, x.shape()}), x.dtype()));
    auto step = [x = x](std::span<const Array> a) { return Arrays{a[0] * x + a[1]}; };
    return bind_scan(step, Arrays{start}, Arrays{p}, p.shape(0), false, std::min<std::int64_t>(16, p.shape(0)), {})
        .carry[0];
  });
}
Array polyadd(const Operand& left, const Operand& right) {
  LocationScope scope(left.where);
  for (const Operand* a : {&left, &right})
    if (a->array.ndim() != 1) throw_error(ErrorCode::shape, "polyadd", "wants vectors, not {}", a->array.aval()->text);
  return jitted("polyadd", "", {left.array, right.array}, [&](auto in) {
    auto [a, b] = promote_dtypes("polyadd", in[0], in[1]);
    return b.size() <= a.size() ? a.at(slice(-b.size(), none)).add(b) : b.at(slice(-a.size(), none)).add(a);
  });
}
Array polymul(const Operand& a, const Operand& b) { return convolve(a, b); }
Array vander(const Operand& operand, const VanderOptions& o) {
  LocationScope scope(operand.where);
  if (operand.array.ndim() != 1)
    throw_error(ErrorCode::shape, "vander", "wants a vector, not {}", operand.array.aval()->text);
  std::int64_t n = o.n.value_or(operand.array.size());
  if (n < 0) throw_error(ErrorCode::invalid_argument, "vander", "n must not be negative, it is {}", n);
  return jitted("vander", fmt::format("{} {}", n, o.increasing), {operand.array}, [&](auto in) {
    const Array& x = in[0];
    Array exponents = lax::iota(x.dtype(), n);
    if (!o.increasing) exponents = lax::sub(scalar_like(exponents, static_cast<double>(n - 1)), exponents);
    return power(lax::expand_dims(x, {1}), lax::expand_dims(exponents, {0}));
  });
}

namespace {
// Of n = 0, 1, ..., m - 1; a window of one sample is 1.
Array window(std::int64_t m, const std::function<Array(const Array& n)>& shape) {
  if (m <= 1) return lax::full({m}, 1, default_float());
  return shape(lax::iota(default_float(), m));
}
}  // namespace
Array bartlett(std::int64_t m, std::source_location where) {
  LocationScope scope(where);
  return window(m, [&](const Array& n) { return 1 - abs(2 * n + 1 - m) / (m - 1); });
}
Array blackman(std::int64_t m, std::source_location where) {
  LocationScope scope(where);
  return window(
      m, [&](const Array& n) { return 0.42 - 0.5 * cos(2 * pi * n / (m - 1)) + 0.08 * cos(4 * pi * n / (m - 1)); });
}
Array hamming(std::int64_t m, std::source_location where) {
  LocationScope scope(where);
  return window(m, [&](const Array& n) { return 0.54 - 0.46 * cos(2 * pi * n / (m - 1)); });
}
Array hanning(std::int64_t m, std::source_location where) {
  LocationScope scope(where);
  return window(m, [&](const Array& n) { return 0.5 * (1 - cos(2 * pi * n / (m - 1))); });
}

}  // namespace lockstep::numpy

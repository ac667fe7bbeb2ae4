#include "lockstep/random/random.h"

#include <cmath>
#include <limits>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/gather.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/sort.h"
#include "lockstep/ops/special.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/named_call.h"

namespace lockstep::random {
namespace {

DType default_float() { return config::enable_x64() ? DType::float64 : DType::float32; }
DType default_int() { return config::enable_x64() ? DType::int64 : DType::int32; }
DType default_uint() { return config::enable_x64() ? DType::uint64 : DType::uint32; }

Array check_key(const char* name, const Array& key, bool single = true) {
  Array k = key;
  if (k.dtype() == DType::uint32 && k.ndim() >= 1 && k.shape().back() == 2) k = random_wrap(k);
  if (k.dtype() != DType::key)
    throw_error(ErrorCode::dtype, name, "the key is {}: make one with random::key(seed)", key.aval()->text);
  if (single && k.ndim() != 0)
    throw_error(ErrorCode::shape, name, "takes one key, but was given {}; use vmap for a batch of keys",
                k.aval()->text);
  return k;
}
DType float_dtype(const char* name, std::optional<DType> dtype) {
  DType t = dtype ? canonicalize(*dtype) : default_float();
  if (!is_floating(t)) throw_error(ErrorCode::dtype, name, "the dtype must be floating, it is {}", lockstep::name(t));
  return t;
}
struct FloatInfo {
  int bits, mantissa;
  double tiny, epsneg;
};
FloatInfo info(DType t) {
  switch (t) {
    case DType::float16:
      return {16, 10, 0x1p-14, 0x1p-11};
    case DType::bfloat16:
      return {16, 7, 0x1p-126, 0x1p-8};
    case DType::float64:
      return {64, 52, std::numeric_limits<double>::min(), 0x1p-53};
    default:
      return {32, 23, 0x1p-126, 0x1p-24};
  }
}
DType uint_of(int bits) {
  switch (bits) {
    case 8:
      return DType::uint8;
    case 16:
      return DType::uint16;
    case 32:
      return DType::uint32;
    default:
      return DType::uint64;
  }
}
Array number(double v, DType t) { return scalar(Scalar(v, t), t); }
Array number(std::uint64_t v, DType t) { return scalar(Scalar(v, t), t); }

// named_call with shape and dtype among what identifies the function.
Array call(const char* name, const Shape& shape, DType dtype, std::initializer_list<Array> args,
           const std::function<Array(std::span<const Array>)>& f) {
  std::vector<std::int64_t> statics{static_cast<std::int64_t>(dtype)};
  statics.insert(statics.end(), shape.begin(), shape.end());
  return named_call_one(name, statics, args, f);
}

Array uniform_body(const Array& key, Array minval, Array maxval, const Shape& shape, DType dtype) {
  minval = lax::broadcast_to_rank(convert(minval, dtype), shape.rank());
  maxval = lax::broadcast_to_rank(convert(maxval, dtype), shape.rank());
  FloatInfo f = info(dtype);
  int rng_bits = f.mantissa < 8 ? 8 : f.bits;
  DType u = uint_of(f.bits);
  Array bits = random_bits(key, rng_bits, shape);
  if (rng_bits != f.bits) bits = convert(bits, u);
  Array float_bits = lax::shift_right_logical(bits, number(std::uint64_t(rng_bits - f.mantissa), u));
  std::uint64_t one = 0;
  Scalar(1.0, dtype).write(&one);
  float_bits = lax::bitwise_or(float_bits, number(one, u));
  Array floats = lax::sub(lax::bitcast_convert_type(float_bits, dtype), number(1.0, dtype));
  return lax::max(minval, lax::reshape(lax::add(lax::mul(floats, lax::sub(maxval, minval)), minval), shape));
}
Array uniform_call(const Array& key, const Array& minval, const Array& maxval, const Shape& shape, DType dtype) {
  return call("_uniform", shape, dtype, {key, minval, maxval},
              [&](std::span<const Array> a) { return uniform_body(a[0], a[1], a[2], shape, dtype); });
}
Array normal_real(const Array& key, const Shape& shape, DType dtype) {
  return call("_normal_real", shape, dtype, {key}, [&](std::span<const Array> a) {
    double lo = dtype == DType::float64 ? std::nextafter(-1.0, 0.0) : -1.0 + info(dtype).epsneg;
    Array u = uniform_call(a[0], number(lo, dtype), number(1.0, dtype), shape, dtype);
    return lax::mul(number(std::sqrt(2.0), dtype), lax::erf_inv(u));
  });
}
Shape broadcast_shapes(const char* name, const Shape& a, const Shape& b) {
  int rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(static_cast<std::size_t>(rank), 1);
  for (const Shape* s : {&a, &b})
    for (int i = 0; i < s->rank(); ++i) {
      auto& d = out[static_cast<std::size_t>(rank - s->rank() + i)];
      std::int64_t n = (*s)[static_cast<std::size_t>(i)];
      if (d != n && d != 1 && n != 1)
        throw_error(ErrorCode::shape, name, "shapes {} and {} do not broadcast", to_string(a), to_string(b));
      if (d == 1) d = n;
    }
  return out;
}
// As NumPy broadcasts: to `shape`, with new leading dimensions and sizes of 1 repeated.
Array broadcast(const char* name, const Array& x, const Shape& shape) {
  if (x.shape() == shape || x.ndim() == 0) return x;
  if (broadcast_shapes(name, x.shape(), shape) != shape)
    throw_error(ErrorCode::shape, name, "{} does not broadcast to {}", x.aval()->text, to_string(shape));
  return lax::broadcast_to_rank(x, shape.rank());
}
int canonical_axis(const char* name, int axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw_error(ErrorCode::axis, name, "axis {} is out of range for rank {}", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

Array shuffle(const Array& key, const Array& x, int axis) {
  return named_call_one("_shuffle", {axis}, {key, x}, [&](std::span<const Array> a) {
    Array k = a[0], v = a[1];
    double n = static_cast<double>(std::max<std::int64_t>(1, v.size()));
    int rounds = static_cast<int>(std::ceil(3 * std::log(n) / std::log(4294967295.0)));
    for (int i = 0; i < rounds; ++i) {
      Array both = random_split(k, {2});
      k = internal::key_at(both, 0);
      Array sort_keys = random_bits(internal::key_at(both, 1), 32, v.shape());
      v = lax::sort_key_val(sort_keys, v, axis).second;
    }
    return v;
  });
}

}  // namespace

Array internal::key_at(const Array& keys, std::int64_t i) { return lax::index_in_dim(keys, i, 0, false); }

Array key(const Operand& seed) {
  LocationScope scope(seed.where);
  if (!is_integer(seed.array.dtype()))
    throw_error(ErrorCode::dtype, "random::key", "the seed must be an integer, it is {}", seed.array.aval()->text);
  return random_seed(seed.array);
}
Array key_data(const Operand& keys) {
  LocationScope scope(keys.where);
  return random_unwrap(check_key("random::key_data", keys.array, false));
}
Array wrap_key_data(const Operand& words) {
  LocationScope scope(words.where);
  return random_wrap(words.array);
}
Array split(const Operand& key, const Shape& num) {
  LocationScope scope(key.where);
  return random_split(check_key("random::split", key.array), num);
}
Array fold_in(const Operand& key, const Operand& data) {
  LocationScope scope(key.where);
  Array k = check_key("random::fold_in", key.array);
  if (data.array.ndim() != 0 || !is_integer(data.array.dtype()))
    throw_error(ErrorCode::dtype, "random::fold_in", "folds in one integer, not {}; use vmap for arrays",
                data.array.aval()->text);
  return random_fold_in(k, convert(data.array, DType::uint32));
}

Array bits(const Operand& key, const Shape& shape, std::optional<DType> dtype) {
  LocationScope scope(key.where);
  Array k = check_key("random::bits", key.array);
  DType t = dtype ? canonicalize(*dtype) : default_uint();
  if (!is_unsigned_integer(t))
    throw_error(ErrorCode::dtype, "random::bits", "the dtype must be an unsigned integer, it is {}", lockstep::name(t));
  return random_bits(k, static_cast<int>(8 * itemsize(t)), shape);
}
Array uniform(const Operand& key, const Shape& shape, const UniformOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::uniform", key.array);
  DType t = float_dtype("random::uniform", options.dtype);
  return uniform_call(k, broadcast("random::uniform", options.minval, shape),
                      broadcast("random::uniform", options.maxval, shape), shape, t);
}
Array normal(const Operand& key, const Shape& shape, const SampleOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::normal", key.array);
  DType t = options.dtype ? canonicalize(*options.dtype) : default_float();
  if (!is_inexact(t))
    throw_error(ErrorCode::dtype, "random::normal", "the dtype must be floating or complex, it is {}",
                lockstep::name(t));
  return call("_normal", shape, t, {k}, [&](std::span<const Array> a) {
    if (!is_complex(t)) return normal_real(a[0], shape, t);
    Array both = random_split(a[0], {2});
    DType r = real_type(t);
    Array re = convert(normal_real(internal::key_at(both, 0), shape, r), t);
    Array im = convert(normal_real(internal::key_at(both, 1), shape, r), t);
    Array i = scalar(Scalar(std::complex<double>(0, 1), t), t);
    return lax::div(lax::add(re, lax::mul(i, im)), scalar(Scalar(std::sqrt(2.0), t), t));
  });
}
Array exponential(const Operand& key, const Shape& shape, const SampleOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::exponential", key.array);
  DType t = float_dtype("random::exponential", options.dtype);
  return call("_exponential", shape, t, {k}, [&](std::span<const Array> a) {
    return lax::neg(lax::log1p(lax::neg(uniform_call(a[0], Array(0.0), Array(1.0), shape, t))));
  });
}
Array gumbel(const Operand& key, const Shape& shape, const SampleOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::gumbel", key.array);
  DType t = float_dtype("random::gumbel", options.dtype);
  return call("_gumbel", shape, t, {k}, [&](std::span<const Array> a) {
    Array u = uniform_call(a[0], number(info(t).tiny, t), Array(1.0), shape, t);
    return lax::neg(lax::log(lax::neg(lax::log(u))));
  });
}
Array laplace(const Operand& key, const Shape& shape, const SampleOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::laplace", key.array);
  DType t = float_dtype("random::laplace", options.dtype);
  return call("_laplace", shape, t, {k}, [&](std::span<const Array> a) {
    Array u = uniform_call(a[0], number(-1.0 + info(t).epsneg, t), Array(1.0), shape, t);
    return lax::mul(lax::sign(u), lax::log1p(lax::neg(lax::abs(u))));
  });
}
Array logistic(const Operand& key, const Shape& shape, const SampleOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::logistic", key.array);
  DType t = float_dtype("random::logistic", options.dtype);
  return call("_logistic", shape, t, {k}, [&](std::span<const Array> a) {
    Array u = uniform_call(a[0], number(info(t).tiny, t), Array(1.0), shape, t);
    return lax::sub(lax::log(u), lax::log1p(lax::neg(u)));
  });
}
Array rademacher(const Operand& key, const Shape& shape, const SampleOptions& options) {
  LocationScope scope(key.where);
  DType t = options.dtype ? canonicalize(*options.dtype) : default_int();
  Array heads = convert(bernoulli(key, 0.5, shape), t);
  return lax::sub(lax::mul(scalar_like(heads, 2), heads), scalar_like(heads, 1));
}
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper, std::optional<Shape> shape,
                       const SampleOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::truncated_normal", key.array);
  DType t = float_dtype("random::truncated_normal", options.dtype);
  Shape out = shape ? *shape : broadcast_shapes("random::truncated_normal", lower.array.shape(), upper.array.shape());
  Array lo = broadcast("random::truncated_normal", lower.array, out),
        hi = broadcast("random::truncated_normal", upper.array, out);
  return call("_truncated_normal", out, t, {k, lo, hi}, [&](std::span<const Array> args) {
    Array l = convert(args[1], t), h = convert(args[2], t), sqrt2 = number(std::sqrt(2.0), t);
    Array u = uniform_call(args[0], lax::erf(lax::div(l, sqrt2)), lax::erf(lax::div(h, sqrt2)), out, t);
    Array x = lax::mul(sqrt2, lax::erf_inv(u));
    Array inf = number(std::numeric_limits<double>::infinity(), t),
          minus = number(-std::numeric_limits<double>::infinity(), t);
    Array low = lax::nextafter(lax::stop_gradient(l), inf), high = lax::nextafter(lax::stop_gradient(h), minus);
    return lax::min(lax::max(x, low), high);
  });
}

Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              const SampleOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::randint", key.array);
  DType t = options.dtype ? canonicalize(*options.dtype) : default_int();
  if (!is_integer(t))
    throw_error(ErrorCode::dtype, "random::randint", "the dtype must be an integer, it is {}", lockstep::name(t));
  auto bound = [&](const Array& v) {
    Array b = broadcast("random::randint", v, shape);
    return is_integer(b.dtype()) ? b : convert(b, default_int());
  };
  DType s = itemsize(t) < 4 ? DType::int32 : t;
  Array lo = bound(minval.array), hi = bound(maxval.array);
  if (s != t) {
    lo = lax::clamp(scalar(min_value(t).cast(s), s), convert(lo, s), scalar(max_value(t).cast(s), s));
    hi = lax::clamp(scalar(min_value(t).cast(s), s), convert(hi, s), scalar(Scalar(max_value(t).as_int() + 1, s), s));
  }
  // Values outside the type are clipped to it, in the wider of the two types.
  auto clip = [](const Array& v, DType to) {
    if (v.dtype() == to) return v;
    DType from = v.dtype();
    Array x = v;
    auto fits = [&](const Scalar& b) {
      return b.cast(from).cast(to).same_bits(b.cast(to)) && b.cast(from).as_double() == b.as_double();
    };
    if (fits(min_value(to)) && min_value(from).as_double() < min_value(to).as_double())
      x = lax::max(x, scalar(min_value(to).cast(from), from));
    if (is_unsigned_integer(to) && is_signed_integer(from))
      x = lax::max(x, scalar(Scalar(std::int64_t{0}, from), from));
    if (max_value(from).as_double() > max_value(to).as_double())
      x = lax::min(x, scalar(max_value(to).cast(from), from));
    return convert(x, to);
  };
  Array out = call("_randint", shape, s, {k, lo, hi}, [&](std::span<const Array> a) {
    Array hi_in = a[2];
    Array out_of_range = lax::gt(hi_in, clip(scalar(max_value(s), s), hi_in.dtype()));
    Array low = lax::broadcast_to_rank(clip(a[1], s), shape.rank()),
          high = lax::broadcast_to_rank(clip(hi_in, s), shape.rank());
    Array range = lax::broadcast_to_rank(out_of_range, shape.rank());
    int nbits = static_cast<int>(8 * itemsize(s));
    Array both = random_split(a[0], {2});
    Array higher = random_bits(internal::key_at(both, 0), nbits, shape),
          lower = random_bits(internal::key_at(both, 1), nbits, shape);
    DType u = uint_of(nbits);
    Array span = convert(lax::sub(high, low), u), one = scalar(Scalar(std::uint64_t{1}, u), u);
    auto choose = [](const Array& pred, const Array& yes, const Array& no) {
      Array y = yes.ndim() == 0 && no.ndim() > 0 ? lax::broadcast_in_dim(yes, no.shape(), {}) : yes;
      return lax::select(pred, y, no);
    };
    span = choose(lax::le(high, low), one, span);
    span = choose(lax::bitwise_and(range, lax::gt(high, low)), lax::add(span, one), span);
    Array multiplier = lax::rem(scalar(Scalar(std::uint64_t{1} << (nbits / 2), u), u), span);
    multiplier = lax::rem(lax::mul(multiplier, multiplier), span);
    Array offset = lax::add(lax::mul(lax::rem(higher, span), multiplier), lax::rem(lower, span));
    offset = lax::rem(offset, span);
    return lax::add(low, convert(offset, s));
  });
  return convert(out, t);
}

Array bernoulli(const Operand& key, const Operand& p, std::optional<Shape> shape) {
  LocationScope scope(key.where);
  Array k = check_key("random::bernoulli", key.array);
  DType t = p.array.dtype();
  if (!is_floating(t))
    throw_error(ErrorCode::dtype, "random::bernoulli", "the probability must be floating, it is {}",
                p.array.aval()->text);
  Shape out = shape ? *shape : p.array.shape();
  Array prob = broadcast("random::bernoulli", convert(p.array, t), out);
  return call("_bernoulli", out, t, {k, prob}, [&](std::span<const Array> a) {
    return lax::lt(uniform_call(a[0], Array(0.0), Array(1.0), out, t), a[1]);
  });
}
Array categorical(const Operand& key, const Operand& logits, int axis, std::optional<Shape> shape) {
  LocationScope scope(key.where);
  Array k = check_key("random::categorical", key.array);
  Array x = logits.array;
  if (!is_floating(x.dtype()))
    throw_error(ErrorCode::dtype, "random::categorical", "logits must be floating, they are {}", x.aval()->text);
  int rank = x.ndim(), at = canonical_axis("random::categorical", axis, rank);
  Shape batch = x.shape().without(at), out = shape ? *shape : batch;
  if (broadcast_shapes("random::categorical", out, batch) != out)
    throw_error(ErrorCode::shape, "random::categorical", "shape {} does not fit logits {} without axis {}",
                to_string(out), x.aval()->text, at);
  // Gumbel noise on logits repeated over the leading dimensions that `shape` adds.
  int extra = out.rank() - batch.rank();
  Shape noise_shape;
  for (int i = 0; i < extra; ++i) noise_shape.push_back(out[static_cast<std::size_t>(i)]);
  int place = at - rank;  // counted from the end, as the noise has more dimensions
  Shape full = out.with(out.rank() + 1 + place, x.shape()[static_cast<std::size_t>(at)]);
  Array noise = gumbel(k, full, {.dtype = x.dtype()});
  Array expanded = lax::broadcast_to_rank(x, full.rank());
  return lax::argmax(lax::add(noise, expanded), full.rank() + place, default_int());
}
Array permutation(const Operand& key, const Operand& x, const PermutationOptions& options) {
  LocationScope scope(key.where);
  Array k = check_key("random::permutation", key.array), v = x.array;
  if (v.ndim() == 0) return permutation(key, v.item_scalar().as_int());
  int axis = canonical_axis("random::permutation", options.axis, v.ndim());
  if (options.independent || v.ndim() == 1) return shuffle(k, v, axis);
  Array order = shuffle(k, lax::iota(default_int(), v.shape()[static_cast<std::size_t>(axis)]), 0);
  return numpy::take(v, order, axis);
}
Array permutation(const Operand& key, std::int64_t n) {
  LocationScope scope(key.where);
  return shuffle(check_key("random::permutation", key.array), lax::iota(default_int(), n), 0);
}

}  // namespace lockstep::random

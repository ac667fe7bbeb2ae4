#include "lockstep/collectives/reduce.h"

#include <bit>
#include <complex>
#include <type_traits>

namespace lockstep::collectives {
namespace {

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

LOCKSTEP_INLINE float widen(Bfloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
LOCKSTEP_INLINE Bfloat16 narrow(Bfloat16, float f) {
  auto u = std::bit_cast<std::uint32_t>(f);
  std::uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16, quiet = (u >> 16) | 0x40;
  return {static_cast<std::uint16_t>(static_cast<std::int32_t>(u & 0x7fffffff) > 0x7f800000 ? quiet : rounded)};
}

// Normal numbers are rebiased; subnormal ones are made normal by a subtraction. Signed comparisons, which SSE2 has.
LOCKSTEP_INLINE float widen(Half x) {
  std::int32_t magnitude = x.bits & 0x7fff, sign = (x.bits & 0x8000) << 16;
  std::int32_t shifted = magnitude << 13, bias = 113 << 23;
  auto subnormal = std::bit_cast<std::int32_t>(std::bit_cast<float>(shifted + bias) - std::bit_cast<float>(bias));
  std::int32_t bits = magnitude < 0x400 ? subnormal : shifted + (112 << 23);
  bits = magnitude >= 0x7c00 ? shifted + (224 << 23) : bits;
  return std::bit_cast<float>(bits | sign);
}
LOCKSTEP_INLINE Half narrow(Half, float f) {
  auto u = std::bit_cast<std::int32_t>(f);
  std::int32_t sign = (u >> 16) & 0x8000, m = u & 0x7fffffff;
  // Normal results: rebias, round to nearest even. Subnormal ones: an addition aligns the bits and rounds.
  std::int32_t normal = (m - (112 << 23) + 0xfff + ((m >> 13) & 1)) >> 13;
  std::int32_t subnormal = std::bit_cast<std::int32_t>(std::bit_cast<float>(m) + 0.5f) - 0x3f000000;
  std::int32_t bits = m < (113 << 23) ? subnormal : normal;
  bits = m >= 0x47800000 ? 0x7c00 : bits;
  bits = m > 0x7f800000 ? 0x7e00 : bits;
  return {static_cast<std::uint16_t>(bits | sign)};
}

template <class T>
constexpr bool is_complex_type = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// Integer arithmetic is done in an unsigned type that nothing is promoted from, where it wraps.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), std::uint32_t, std::make_unsigned_t<T>>;

template <Reduction R, class T>
LOCKSTEP_INLINE T apply(T a, T b) {
  if constexpr (std::is_integral_v<T> && (R == Reduction::add || R == Reduction::multiply)) {
    auto x = static_cast<Wrapping<T>>(a), y = static_cast<Wrapping<T>>(b);
    return static_cast<T>(R == Reduction::add ? x + y : x * y);
  } else if constexpr (R == Reduction::add) {
    return a + b;
  } else if constexpr (R == Reduction::multiply) {
    return a * b;
  } else if constexpr (R == Reduction::maximum) {
    return a > b || a != a ? a : b;
  } else if constexpr (R == Reduction::minimum) {
    return a < b || a != a ? a : b;
  } else if constexpr (R == Reduction::and_) {
    return static_cast<T>(a & b);
  } else if constexpr (R == Reduction::or_) {
    return static_cast<T>(a | b);
  } else {
    return static_cast<T>(a ^ b);
  }
}

template <Reduction R, class T>
void loop(void* to, const void* a, const void* b, std::size_t count) {
  auto* z = static_cast<T*>(to);
  auto* x = static_cast<const T*>(a);
  auto* y = static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) z[i] = apply<R>(x[i], y[i]);
}

template <Reduction R, class T>
void half_loop(void* to, const void* a, const void* b, std::size_t count) {
  auto* z = static_cast<std::uint16_t*>(to);
  auto* x = static_cast<const std::uint16_t*>(a);
  auto* y = static_cast<const std::uint16_t*>(b);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) z[i] = narrow(T{}, apply<R>(widen(T{x[i]}), widen(T{y[i]}))).bits;
}

template <class T>
void add_complex(void* to, const void* a, const void* b, std::size_t count) {
  loop<Reduction::add, T>(to, a, b, 2 * count);
}

template <class T>
Combine select(Reduction reduction) {
  switch (reduction) {
    case Reduction::add:
      if constexpr (is_complex_type<T>) {
        return add_complex<typename T::value_type>;
      } else {
        return loop<Reduction::add, T>;
      }
    case Reduction::multiply:
      return loop<Reduction::multiply, T>;
    case Reduction::maximum:
      if constexpr (!is_complex_type<T>) return loop<Reduction::maximum, T>;
      break;
    case Reduction::minimum:
      if constexpr (!is_complex_type<T>) return loop<Reduction::minimum, T>;
      break;
    case Reduction::and_:
      if constexpr (std::is_integral_v<T>) return loop<Reduction::and_, T>;
      break;
    case Reduction::or_:
      if constexpr (std::is_integral_v<T>) return loop<Reduction::or_, T>;
      break;
    case Reduction::xor_:
      if constexpr (std::is_integral_v<T>) return loop<Reduction::xor_, T>;
      break;
    case Reduction::none:
      break;
  }
  return nullptr;
}

template <class T>
Combine select_half(Reduction reduction) {
  switch (reduction) {
    case Reduction::add:
      return half_loop<Reduction::add, T>;
    case Reduction::multiply:
      return half_loop<Reduction::multiply, T>;
    case Reduction::maximum:
      return half_loop<Reduction::maximum, T>;
    case Reduction::minimum:
      return half_loop<Reduction::minimum, T>;
    default:
      return nullptr;
  }
}

Combine select_bool(Reduction reduction) {
  switch (reduction) {
    case Reduction::add:
    case Reduction::maximum:
      return loop<Reduction::or_, std::uint8_t>;
    case Reduction::multiply:
    case Reduction::minimum:
      return loop<Reduction::and_, std::uint8_t>;
    default:
      return select<std::uint8_t>(reduction);
  }
}

}  // namespace

Combine combine_function(DType dtype, Reduction reduction) {
  switch (dtype) {
    case DType::bool_:
      return select_bool(reduction);
    case DType::int8:
      return select<std::int8_t>(reduction);
    case DType::int16:
      return select<std::int16_t>(reduction);
    case DType::int32:
      return select<std::int32_t>(reduction);
    case DType::int64:
      return select<std::int64_t>(reduction);
    case DType::uint8:
      return select<std::uint8_t>(reduction);
    case DType::uint16:
      return select<std::uint16_t>(reduction);
    case DType::uint32:
      return select<std::uint32_t>(reduction);
    case DType::uint64:
      return select<std::uint64_t>(reduction);
    case DType::float16:
      return select_half<Half>(reduction);
    case DType::bfloat16:
      return select_half<Bfloat16>(reduction);
    case DType::float32:
      return select<float>(reduction);
    case DType::float64:
      return select<double>(reduction);
    case DType::complex64:
      return select<std::complex<float>>(reduction);
    case DType::complex128:
      return select<std::complex<double>>(reduction);
    case DType::key:
    case DType::float0:
      break;
  }
  return nullptr;
}

}  // namespace lockstep::collectives

#include "lockstep/core/dtype.h"

#include <array>
#include <bit>
#include <string>

#include "lockstep/support/config.h"
#include "lockstep/support/error.h"

namespace lockstep {
namespace {

struct Info {
  std::string_view name, short_name, mlir;
  std::uint8_t size;
};
constexpr std::array<Info, kDTypeCount> kInfo{{
    {"bool", "bool", "i1", 1},
    {"int8", "i8", "i8", 1},
    {"int16", "i16", "i16", 2},
    {"int32", "i32", "i32", 4},
    {"int64", "i64", "i64", 8},
    {"uint8", "u8", "ui8", 1},
    {"uint16", "u16", "ui16", 2},
    {"uint32", "u32", "ui32", 4},
    {"uint64", "u64", "ui64", 8},
    {"float16", "f16", "f16", 2},
    {"bfloat16", "bf16", "bf16", 2},
    {"float32", "f32", "f32", 4},
    {"float64", "f64", "f64", 8},
    {"complex64", "c64", "complex<f32>", 8},
    {"complex128", "c128", "complex<f64>", 16},
    {"key<fry>", "key<fry>", "ui64", 8},
    {"float0", "float0", "i1", 0},
}};
const Info& info(DType t) { return kInfo[static_cast<int>(t)]; }
bool between(DType t, DType low, DType high) { return low <= t && t <= high; }

// The lattice's nodes: the dtypes, and the weak int, float and complex that stand between them.
constexpr int kWeakInt = 15, kWeakFloat = 16, kWeakComplex = 17, kNodes = 18;
using Reach = std::array<std::uint32_t, kNodes>;  // bit j of reach[i]: j is at or above i

constexpr Reach reachability() {
  auto n = [](DType t) { return static_cast<int>(t); };
  const int edges[][2] = {
      {n(DType::bool_), kWeakInt},
      {kWeakInt, n(DType::uint8)},
      {kWeakInt, n(DType::int8)},
      {n(DType::uint8), n(DType::int16)},
      {n(DType::uint8), n(DType::uint16)},
      {n(DType::uint16), n(DType::int32)},
      {n(DType::uint16), n(DType::uint32)},
      {n(DType::uint32), n(DType::int64)},
      {n(DType::uint32), n(DType::uint64)},
      {n(DType::uint64), kWeakFloat},
      {n(DType::int8), n(DType::int16)},
      {n(DType::int16), n(DType::int32)},
      {n(DType::int32), n(DType::int64)},
      {n(DType::int64), kWeakFloat},
      {kWeakFloat, n(DType::bfloat16)},
      {kWeakFloat, n(DType::float16)},
      {kWeakFloat, kWeakComplex},
      {n(DType::bfloat16), n(DType::float32)},
      {n(DType::float16), n(DType::float32)},
      {n(DType::float32), n(DType::float64)},
      {n(DType::float32), n(DType::complex64)},
      {n(DType::float64), n(DType::complex128)},
      {kWeakComplex, n(DType::complex64)},
      {n(DType::complex64), n(DType::complex128)},
  };
  Reach reach{};
  for (int i = 0; i < kNodes; ++i) reach[i] = 1u << i;
  for (int round = 0; round < kNodes; ++round)
    for (auto& e : edges) reach[e[0]] |= reach[e[1]];
  return reach;
}
constexpr Reach kReach = reachability();

int node(WeakDType t) {
  if (!t.weak || t.dtype == DType::bool_) return static_cast<int>(t.dtype);
  if (is_integer(t.dtype)) return kWeakInt;
  if (is_floating(t.dtype)) return kWeakFloat;
  return kWeakComplex;
}

}  // namespace

std::size_t itemsize(DType t) { return info(t).size; }
std::string_view name(DType t) { return info(t).name; }
std::string_view short_name(DType t) { return info(t).short_name; }
std::string_view mlir_name(DType t) { return info(t).mlir; }

DType dtype_from_name(std::string_view text) {
  std::string legal;
  for (int i = 0; i < kDTypeCount; ++i) {
    if (kInfo[i].name == text) return static_cast<DType>(i);
    legal += (i ? ", " : "") + std::string(kInfo[i].name);
  }
  throw_error(ErrorCode::dtype, "dtype", "\"{}\" is not an element type; there are {}", text, legal);
}

bool is_bool(DType t) { return t == DType::bool_; }
bool is_signed_integer(DType t) { return between(t, DType::int8, DType::int64); }
bool is_unsigned_integer(DType t) { return between(t, DType::uint8, DType::uint64); }
bool is_integer(DType t) { return between(t, DType::int8, DType::uint64); }
bool is_floating(DType t) { return between(t, DType::float16, DType::float64); }
bool is_complex(DType t) { return between(t, DType::complex64, DType::complex128); }
bool is_inexact(DType t) { return between(t, DType::float16, DType::complex128); }

DType real_type(DType t) {
  if (t == DType::complex64) return DType::float32;
  return t == DType::complex128 ? DType::float64 : t;
}
DType complex_type(DType t) {
  if (is_complex(t)) return t;
  return t == DType::float64 ? DType::complex128 : DType::complex64;
}
DType canonicalize(DType t) {
  if (config::enable_x64()) return t;
  switch (t) {
    case DType::int64:
      return DType::int32;
    case DType::uint64:
      return DType::uint32;
    case DType::float64:
      return DType::float32;
    case DType::complex128:
      return DType::complex64;
    default:
      return t;
  }
}
DType tangent_dtype(DType t) { return is_inexact(t) ? t : DType::float0; }

WeakDType promote_types(std::string_view operation, std::initializer_list<WeakDType> types) {
  LS_CHECK(types.size() > 0);
  std::uint32_t common = ~0u;
  bool all_weak = true, all_same = true;
  DType first = types.begin()->dtype;
  for (auto t : types) {
    all_same = all_same && t.dtype == first;
    all_weak = all_weak && t.weak;
  }
  if (all_same) return {canonicalize(first), all_weak};
  for (auto t : types) {
    if (t.dtype == DType::key || t.dtype == DType::float0)
      throw_error(ErrorCode::dtype, std::string(operation), "{} and {} have no common type", name(t.dtype),
                  name(t.dtype == first ? std::rbegin(types)->dtype : first));
    common &= kReach[node(t)];
  }
  int best = -1;
  for (int i = 0; i < kNodes; ++i)
    if ((common >> i & 1) && (kReach[i] & common) == common) best = i;
  LS_CHECK(best >= 0);
  if (best == kWeakInt) return {canonicalize(DType::int64), true};
  if (best == kWeakFloat) return {canonicalize(DType::float64), true};
  if (best == kWeakComplex) return {canonicalize(DType::complex128), true};
  return {canonicalize(static_cast<DType>(best)), false};
}
WeakDType promote_types(std::string_view operation, WeakDType a, WeakDType b) {
  if (a.dtype == b.dtype) return {canonicalize(a.dtype), a.weak && b.weak};
  return promote_types(operation, {a, b});
}

float to_float(Half h) {
  std::uint32_t sign = (h.bits & 0x8000u) << 16, exponent = h.bits >> 10 & 0x1f, mantissa = h.bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}
float to_float(Bfloat16 b) { return std::bit_cast<float>(std::uint32_t{b.bits} << 16); }

Half to_half(float f) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(f), sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<std::uint16_t>(sign | 0x7e00u)};
  if (magnitude >= 0x477ff000u) return {static_cast<std::uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {  // subnormal or zero: the adder rounds
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u))};
  }
  std::uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1) - 0x38000000u;
  return {static_cast<std::uint16_t>(sign | rounded >> 13)};
}
Bfloat16 to_bfloat16(float f) {
  std::uint32_t u = std::bit_cast<std::uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<std::uint16_t>(u >> 16 | 0x40u)};
  return {static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1)) >> 16)};
}

}  // namespace lockstep

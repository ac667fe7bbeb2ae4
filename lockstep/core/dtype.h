// Element types, and JAX's promotion lattice with weak types.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace lockstep {

enum class DType : std::uint8_t {
  bool_,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  float16,
  bfloat16,
  float32,
  float64,
  complex64,
  complex128,
  key,     // a threefry key: two 32-bit words, held as one uint64 (first word high); printed key<fry>
  float0,  // the tangent type of integers and bools: holds nothing
};
inline constexpr int kDTypeCount = 17;

// Storage for the half types; conversions round to nearest even.
struct Half {
  std::uint16_t bits = 0;
};
struct Bfloat16 {
  std::uint16_t bits = 0;
};
float to_float(Half h);
float to_float(Bfloat16 b);
Half to_half(float f);
Bfloat16 to_bfloat16(float f);

std::size_t itemsize(DType t);         // bytes per element; 1 for bool_, 8 for key, 0 for float0
std::string_view name(DType t);        // "float32", "bool", "key<fry>"
std::string_view short_name(DType t);  // "f32", "bool", "key<fry>", as jaxprs print it
std::string_view mlir_name(DType t);   // "f32", "i1", "ui8", "complex<f32>"
// From NumPy's name ("float32"); throws Error(dtype) listing the legal names.
DType dtype_from_name(std::string_view name);

bool is_bool(DType t);
bool is_signed_integer(DType t);
bool is_unsigned_integer(DType t);
bool is_integer(DType t);   // signed or unsigned, not bool
bool is_floating(DType t);  // float16 ... float64
bool is_complex(DType t);
bool is_inexact(DType t);  // floating or complex: what can be differentiated

DType real_type(DType t);     // complex64 -> float32; others unchanged
DType complex_type(DType t);  // float32 -> complex64; complex unchanged
// What the type is when 64-bit types are off (jax_enable_x64 = false): int64 -> int32 and so on; itself otherwise.
DType canonicalize(DType t);
// float0 for integers and bools, the type itself for floating and complex types.
DType tangent_dtype(DType t);

struct WeakDType {
  DType dtype;
  bool weak;
};
// JAX's promotion (jnp.promote_types with weak types): the least upper bound in the lattice of
// https://docs.jax.dev/en/latest/type_promotion.html, canonicalised. Throws Error(dtype) for types that have none
// (keys with numbers), naming `operation`.
WeakDType promote_types(std::string_view operation, std::initializer_list<WeakDType> types);
WeakDType promote_types(std::string_view operation, WeakDType a, WeakDType b);

// The element type of a C++ type: dtype_of<float> is DType::float32. Not defined for other types.
template <class T>
struct DTypeOf;
#define LOCKSTEP_DTYPE(T, t)                 \
  template <>                                \
  struct DTypeOf<T> {                        \
    static constexpr DType value = DType::t; \
  }
LOCKSTEP_DTYPE(bool, bool_);
LOCKSTEP_DTYPE(std::int8_t, int8);
LOCKSTEP_DTYPE(std::int16_t, int16);
LOCKSTEP_DTYPE(std::int32_t, int32);
LOCKSTEP_DTYPE(std::int64_t, int64);
LOCKSTEP_DTYPE(long long, int64);
LOCKSTEP_DTYPE(std::uint8_t, uint8);
LOCKSTEP_DTYPE(std::uint16_t, uint16);
LOCKSTEP_DTYPE(std::uint32_t, uint32);
LOCKSTEP_DTYPE(std::uint64_t, uint64);
LOCKSTEP_DTYPE(unsigned long long, uint64);
LOCKSTEP_DTYPE(Half, float16);
LOCKSTEP_DTYPE(Bfloat16, bfloat16);
LOCKSTEP_DTYPE(float, float32);
LOCKSTEP_DTYPE(double, float64);
LOCKSTEP_DTYPE(std::complex<float>, complex64);
LOCKSTEP_DTYPE(std::complex<double>, complex128);
#undef LOCKSTEP_DTYPE
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace lockstep

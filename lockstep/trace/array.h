// Array: the one type of value in a program. Concrete (data on devices, or a number on the host) or a tracer that
// stands for a value inside a transformation; a cheap shared value either way. Functions on arrays are in numpy/, lax/,
// nn/.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/core/value.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/support/location.h"

namespace lockstep {

template <class T>
concept Number = std::integral<T> || std::floating_point<T> || std::same_as<T, std::complex<float>> ||
    std::same_as<T, std::complex<double>>;

class Index;      // numpy/indexing.h
class IndexList;  // what goes between the brackets
class IndexUpdate;
struct Shard;

// A host number as JAX types Python numbers: bool strong; integers weak int32 (int64 with x64), floats weak float32
// (float64), complex weak. Integers that do not fit are an Error(dtype).
ValueRef scalar_value(bool v);
ValueRef scalar_value(std::int64_t v);
ValueRef scalar_value(std::uint64_t v);
ValueRef scalar_value(double v);
ValueRef scalar_value(std::complex<double> v);
template <Number T>
ValueRef scalar_from(T v) {
  if constexpr (std::same_as<T, bool>)
    return scalar_value(v);
  else if constexpr (std::signed_integral<T>)
    return scalar_value(static_cast<std::int64_t>(v));
  else if constexpr (std::unsigned_integral<T>)
    return scalar_value(static_cast<std::uint64_t>(v));
  else if constexpr (std::floating_point<T>)
    return scalar_value(static_cast<double>(v));
  else
    return scalar_value(std::complex<double>(v));
}

class Operand;

class Array {
 public:
  Array() = default;  // holds nothing: an empty slot until assigned
  template <Number T>
  Array(T number) : value_(scalar_from(number)) {}  // a weakly typed scalar
  explicit Array(ValueRef v) : value_(std::move(v)) {}

  explicit operator bool() const;  // the value of a one-element array; Error(concretization) if it is traced
  bool has_value() const { return static_cast<bool>(value_); }
  Value* value() const { return value_.get(); }
  const ValueRef& ref() const { return value_; }

  AvalP aval() const;  // Error(invalid_argument) if empty, as all below
  const Shape& shape() const { return aval()->shape; }
  std::int64_t shape(int axis) const;  // negative axes count from the end; Error(axis) if out of range
  // The dimensions for a structured binding: auto [b, t, d] = x.shape<3>(). Error(shape) if the rank is not N.
  template <std::size_t N>
  std::array<std::int64_t, N> shape(std::source_location where = std::source_location::current()) const {
    LocationScope scope(where);
    require_rank(static_cast<int>(N));
    std::array<std::int64_t, N> out;
    for (std::size_t i = 0; i < N; ++i) out[i] = aval()->shape[i];
    return out;
  }
  int ndim() const { return aval()->rank(); }
  std::int64_t size() const { return aval()->size(); }
  std::int64_t nbytes() const { return static_cast<std::int64_t>(aval()->bytes()); }
  DType dtype() const { return aval()->dtype; }
  bool weak_type() const { return aval()->weak_type; }
  bool is_tracer() const { return value_ && value_->kind() == Value::Kind::tracer; }

  // The value of a one-element array, converted to T; waits for it. Error(concretization) if it is traced.
  template <class T>
  T item(std::source_location where = std::source_location::current()) const {
    LocationScope scope(where);
    Scalar s = item_scalar();
    if constexpr (std::is_same_v<T, bool>)
      return s.truth();
    else if constexpr (std::is_unsigned_v<T>)
      return static_cast<T>(s.as_uint());
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(s.as_int());
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(s.as_double());
    else
      return T(s.as_complex());
  }
  Scalar item_scalar() const;
  // Waits until the data is there; an error of the computation comes out here. Returns *this.
  const Array& block_until_ready(std::source_location where = std::source_location::current()) const;

  // Where it lies; of the value under a tracer that only adds to it, else Error(concretization). A number on the host
  // counts as an array on the default device.
  const Sharding& sharding(std::source_location where = std::source_location::current()) const;
  // Whether this process holds all of it, or only some shards.
  bool is_fully_addressable(std::source_location where = std::source_location::current()) const;
  std::vector<Shard> addressable_shards(std::source_location where = std::source_location::current()) const;

  // NumPy's methods, thin (numpy/).
  Array reshape(Shape shape, std::source_location where = std::source_location::current()) const;
  Array astype(DType dtype, std::source_location where = std::source_location::current()) const;
  Array T(std::source_location where = std::source_location::current()) const;
  Array operator[](const IndexList& index) const;  // numpy/indexing.h
  IndexUpdate at(const IndexList& index) const;

  Array& operator+=(const Operand& o);
  Array& operator-=(const Operand& o);
  Array& operator*=(const Operand& o);
  Array& operator/=(const Operand& o);

  friend Array operator+(const Operand& a, const Operand& b);
  friend Array operator-(const Operand& a, const Operand& b);
  friend Array operator*(const Operand& a, const Operand& b);
  friend Array operator/(const Operand& a, const Operand& b);  // true division, as in JAX
  friend Array operator%(const Operand& a, const Operand& b);
  friend Array operator-(const Operand& a);
  friend Array operator+(const Operand& a);
  friend Array operator~(const Operand& a);
  friend Array operator&(const Operand& a, const Operand& b);
  friend Array operator|(const Operand& a, const Operand& b);
  friend Array operator^(const Operand& a, const Operand& b);
  friend Array operator<<(const Operand& a, const Operand& b);
  friend Array operator>>(const Operand& a, const Operand& b);
  friend Array operator==(const Operand& a, const Operand& b);
  friend Array operator!=(const Operand& a, const Operand& b);
  friend Array operator<(const Operand& a, const Operand& b);
  friend Array operator<=(const Operand& a, const Operand& b);
  friend Array operator>(const Operand& a, const Operand& b);
  friend Array operator>=(const Operand& a, const Operand& b);
  friend Array operator!(const Array& a);  // of Array itself, else the conversion to bool would do as well
  // C++ would call bool() on each side: use & | and numpy::logical_and.
  friend void operator&&(const Operand& a, const Operand& b) = delete;
  friend void operator||(const Operand& a, const Operand& b) = delete;

 private:
  void require_rank(int n) const;
  ValueRef value_;
};

using Arrays = std::vector<Array>;

// The part of an array on one of this process's devices.
struct Shard {
  Array data;  // on that device; shares the array's memory
  Region index;
  int device_id;
  std::int64_t replica_id;  // 0: the first of those that hold the same part
};

// One side of an operator, or an argument that may be a number: an array, or a number taken exactly, and the user's
// line.
class Operand {
 public:
  Operand(const Array& a, std::source_location where = std::source_location::current()) : array(a), where(where) {}
  template <Number T>
  Operand(T number, std::source_location where = std::source_location::current()) : array(number), where(where) {}

  Array array;
  std::source_location where;
};

std::ostream& operator<<(std::ostream& out, const Array& a);
std::string to_string(const Array& a);

}  // namespace lockstep

// A number on the host, exactly as the user wrote it: the value of a literal in a jaxpr.
#pragma once

#include <bit>
#include <complex>
#include <concepts>
#include <cstdint>
#include <string>

#include "lockstep/core/dtype.h"

namespace lockstep {

class Scalar {
 public:
  Scalar() : Scalar(std::int64_t{0}, DType::int32) {}
  Scalar(bool v) : dtype_(DType::bool_), i_(v) {}
  // A value of the given type; integers wrap, floats round, as a conversion on the device would.
  Scalar(std::int64_t v, DType t);
  Scalar(std::uint64_t v, DType t);
  Scalar(double v, DType t);
  Scalar(std::complex<double> v, DType t);

  DType dtype() const { return dtype_; }
  Scalar cast(DType t) const;
  bool truth() const;
  std::int64_t as_int() const;
  std::uint64_t as_uint() const;
  double as_double() const;
  std::complex<double> as_complex() const;
  // itemsize(dtype()) bytes in the device's layout.
  void write(void* to) const;
  static Scalar read(const void* from, DType t);
  bool same_bits(const Scalar& o) const;
  std::size_t hash() const;

 private:
  DType dtype_;
  std::int64_t i_ = 0;  // bool and integers (uint64 by its bits)
  double re_ = 0, im_ = 0;
};

std::string to_string(const Scalar& s);       // as jaxprs print it: "2.0", "-inf", "True", "3", "(1+2j)"
std::string to_mlir_string(const Scalar& s);  // as dense<...> takes it; exact (hexadecimal for non-finite floats)
// The smallest and largest value of a type (-inf and inf for floats; false and true for bool).
Scalar min_value(DType t);
Scalar max_value(DType t);

}  // namespace lockstep

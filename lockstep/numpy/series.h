// jax.numpy's functions of sequences of samples: differences, integrals, interpolation, convolution, polynomials.
//
// Errors name the function: Error(axis), Error(shape), Error(dtype).
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "lockstep/numpy/axes.h"
#include "lockstep/numpy/linalg.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

struct DiffOptions {
  OptionsTag tag{};
  int axis = -1;
  Array prepend{}, append{};  // joined to the array first; scalars count as one slice
};
// The differences of neighbours (of bools: whether they differ), n times over. The axis gets shorter by n.
Array diff(const Operand& a, int n = 1, const DiffOptions& options = {});
struct Ediff1dOptions {
  OptionsTag tag{};
  Array to_end{}, to_begin{};
};
Array ediff1d(const Operand& a, const Ediff1dOptions& options = {});  // of the flattened array

// Derivatives by central differences, one-sided at the ends, along each axis (all if absent). `spacing`: none (1), one
// for all axes, or one for each: a number, or a vector of coordinates.
Arrays gradient(const Operand& f, const Arrays& spacing = {}, const Axes& axis = {});

struct TrapezoidOptions {
  OptionsTag tag{};
  Array x{};  // the places of the samples; absent: `dx` apart
  Array dx = 1.0;
  int axis = -1;
};
Array trapezoid(const Operand& y, const TrapezoidOptions& options = {});

struct UnwrapOptions {
  OptionsTag tag{};
  Array discont{};  // the largest step that stays; absent: period / 2
  int axis = -1;
  Array period = 6.28318530717958647692;
};
// Whole periods added, so that neighbours differ by at most half of one.
Array unwrap(const Operand& p, const UnwrapOptions& options = {});

struct InterpOptions {
  OptionsTag tag{};
  Array left{}, right{};  // outside; absent: the first and the last value
  bool extrapolate = false;
  Array period{};
};
// Linear interpolation at x through the points (xp, fp), two vectors of one size, xp ascending.
Array interp(const Operand& x, const Operand& xp, const Operand& fp, const InterpOptions& options = {});

// Of vectors. mode: "full" (n + m - 1 elements), "same" (the larger of n and m), "valid" (where they overlap wholly).
Array convolve(const Operand& a, const Operand& v, std::string_view mode = "full", const ProductOptions& options = {});
Array correlate(const Operand& a, const Operand& v, std::string_view mode = "valid",
                const ProductOptions& options = {});

// p[0] x^(n-1) + ... + p[n-1]; further dimensions of p are those of the coefficients.
Array polyval(const Operand& p, const Operand& x);
Array polyadd(const Operand& a, const Operand& b);
Array polymul(const Operand& a, const Operand& b);
struct VanderOptions {
  OptionsTag tag{};
  std::optional<std::int64_t> n{};  // columns; absent: as many as rows
  bool increasing = false;
};
// Powers of a vector's elements as columns, descending.
Array vander(const Operand& x, const VanderOptions& options = {});

// Windows of m samples: signal processing's names.
Array bartlett(std::int64_t m, std::source_location where = std::source_location::current());
Array blackman(std::int64_t m, std::source_location where = std::source_location::current());
Array hamming(std::int64_t m, std::source_location where = std::source_location::current());
Array hanning(std::int64_t m, std::source_location where = std::source_location::current());

}  // namespace lockstep::numpy

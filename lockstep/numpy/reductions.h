// Reductions along axes, as NumPy has them.
//
// The axis is one, several ({0, 1}), or absent (all); it stands second or among the options. Sums and products of bools
// and small integers are computed in int32 (int64 with 64-bit types); float16 and bfloat16 are summed in float32.
// Error(axis) names the function; Error(shape) for empty axes where there is no identity.
#pragma once

#include <optional>
#include <utility>

#include "lockstep/numpy/axes.h"
#include "lockstep/numpy/math.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

struct SumOptions {
  OptionsTag tag{};
  Axes axis{};
  std::optional<DType> dtype{};  // of computation and result
  bool keepdims = false;         // reduced axes stay, with size 1
  Array initial{};               // combined with the result
  Array where{};                 // bools: only these elements count
  bool promote_integers = true;
};
struct MinMaxOptions {
  OptionsTag tag{};
  Axes axis{};
  bool keepdims = false;
  Array initial{};  // needed with `where`
  Array where{};
};
struct AnyAllOptions {
  OptionsTag tag{};
  Axes axis{};
  bool keepdims = false;
  Array where{};
};
struct MeanOptions {
  OptionsTag tag{};
  Axes axis{};
  std::optional<DType> dtype{};
  bool keepdims = false;
  Array where{};
};
struct VarOptions {
  OptionsTag tag{};
  Axes axis{};
  std::optional<DType> dtype{};
  Array ddof = 0;  // the divisor is the number of elements minus this
  bool keepdims = false;
  Array where{};
  Array mean{};  // if known, with keepdims
};
struct ArgOptions {
  OptionsTag tag{};
  Axes axis{};  // one, or none: of the flattened array
  bool keepdims = false;
};
struct CumulativeOptions {
  OptionsTag tag{};
  Axes axis{};  // one, or none: of the flattened array
  std::optional<DType> dtype{};
};

// The overload with axes is a template, so that options win where a compiler would take {.keepdims = true} for axes.
#define LOCKSTEP_REDUCTION(name, Options)                                     \
  Array name(const Operand& a, const Options& options);                       \
  template <int = 0>                                                          \
  Array name(const Operand& a, const Axes& axis = {}, Options options = {}) { \
    if (axis.given()) options.axis = axis;                                    \
    return name(a, static_cast<const Options&>(options));                     \
  }
LOCKSTEP_REDUCTION(sum, SumOptions)
LOCKSTEP_REDUCTION(prod, SumOptions)
LOCKSTEP_REDUCTION(max, MinMaxOptions)
LOCKSTEP_REDUCTION(min, MinMaxOptions)
LOCKSTEP_REDUCTION(any, AnyAllOptions)
LOCKSTEP_REDUCTION(all, AnyAllOptions)
LOCKSTEP_REDUCTION(mean, MeanOptions)
LOCKSTEP_REDUCTION(var, VarOptions)  // NaN where the divisor is not positive
LOCKSTEP_REDUCTION(std, VarOptions)
LOCKSTEP_REDUCTION(ptp, AnyAllOptions)  // max - min
LOCKSTEP_REDUCTION(count_nonzero, AnyAllOptions)
// Places, int32, of the first largest and smallest element; NaN counts as both.
LOCKSTEP_REDUCTION(argmax, ArgOptions)
LOCKSTEP_REDUCTION(argmin, ArgOptions)
// The same without the NaNs; NaN (-1 for places) where there is nothing else.
LOCKSTEP_REDUCTION(nansum, SumOptions)
LOCKSTEP_REDUCTION(nanprod, SumOptions)
LOCKSTEP_REDUCTION(nanmax, MinMaxOptions)
LOCKSTEP_REDUCTION(nanmin, MinMaxOptions)
LOCKSTEP_REDUCTION(nanmean, MeanOptions)
LOCKSTEP_REDUCTION(nanvar, VarOptions)
LOCKSTEP_REDUCTION(nanstd, VarOptions)
LOCKSTEP_REDUCTION(nanargmax, ArgOptions)
LOCKSTEP_REDUCTION(nanargmin, ArgOptions)
// Running sums and products.
LOCKSTEP_REDUCTION(cumsum, CumulativeOptions)
LOCKSTEP_REDUCTION(cumprod, CumulativeOptions)
LOCKSTEP_REDUCTION(nancumsum, CumulativeOptions)
LOCKSTEP_REDUCTION(nancumprod, CumulativeOptions)
LOCKSTEP_REDUCTION(median, AnyAllOptions)
#undef LOCKSTEP_REDUCTION
inline Array amax(const Operand& a, const Axes& axis = {}, const MinMaxOptions& options = {}) {
  return max(a, axis, options);
}
inline Array amin(const Operand& a, const Axes& axis = {}, const MinMaxOptions& options = {}) {
  return min(a, axis, options);
}

struct AverageOptions {
  OptionsTag tag{};
  Axes axis{};
  Array weights{};  // of a's shape, or that of the axes
  bool keepdims = false;
};
Array average(const Operand& a, const AverageOptions& options);
template <int = 0>
Array average(const Operand& a, const Axes& axis = {}, AverageOptions options = {}) {
  if (axis.given()) options.axis = axis;
  return average(a, static_cast<const AverageOptions&>(options));
}

// Between which neighbours, and how, a quantile that falls between two elements is taken.
enum class QuantileMethod { linear, lower, higher, nearest, midpoint };
struct QuantileOptions {
  OptionsTag tag{};
  Axes axis{};
  QuantileMethod method = QuantileMethod::linear;
  bool keepdims = false;
};
// q in [0, 1], a number or a vector of them, whose axis comes first. percentile: in [0, 100].
Array quantile(const Operand& a, const Operand& q, const QuantileOptions& options = {});
Array percentile(const Operand& a, const Operand& q, const QuantileOptions& options = {});

}  // namespace lockstep::numpy

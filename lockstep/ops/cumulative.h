// Running reductions along an axis, and the parallel scan of any associative function.
#pragma once

#include <functional>
#include <span>

#include "lockstep/core/primitive.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive cumsum_p, cumprod_p, cummax_p, cummin_p, cumlogsumexp_p;

namespace lax {

// Element i is the reduction of elements 0 ... i along the axis, or of those from i on if reversed. Numbers only; the
// dtype is kept. axis: not negative.
Array cumsum(const Operand& operand, int axis = 0, bool reverse = false);
Array cumprod(const Operand& operand, int axis = 0, bool reverse = false);
Array cummax(const Operand& operand, int axis = 0, bool reverse = false);
Array cummin(const Operand& operand, int axis = 0, bool reverse = false);
Array cumlogsumexp(const Operand& operand, int axis = 0, bool reverse = false);

// The same for any associative function of two equally shaped lists of arrays, in logarithmic depth. All arrays have
// one size along the axis; the function is applied to whole slices.
struct AssociativeScanOptions {
  OptionsTag tag{};
  bool reverse = false;
  int axis = 0;
};
using CombineFunction = std::function<Arrays(std::span<const Array> a, std::span<const Array> b)>;
Arrays associative_scan(const CombineFunction& fn, std::span<const Array> elems,
                        const AssociativeScanOptions& options = {},
                        std::source_location where = std::source_location::current());

}  // namespace lax
}  // namespace lockstep

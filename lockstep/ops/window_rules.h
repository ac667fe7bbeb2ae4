// Parameters of window primitives, and their lowering, which cumulative reductions share.
#pragma once

#include "lockstep/lower/context.h"
#include "lockstep/ops/window.h"

namespace lockstep {

struct WindowParams {
  Ints base_dilation;
  lax::PaddingPairs padding;
  Ints window_dilation;
  Shape window_dimensions;
  Ints window_strides;
};
// Throws Error(shape) if the lists have the wrong lengths.
Shape window_result_shape(const char* operation, AvalP operand, const WindowParams& p);
// `inits` are names of scalars of the operands' types.
std::vector<std::string> emit_reduce_window(LowerContext& ctx, const ClosedJaxpr& reducer, const WindowParams& p,
                                            std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                                            std::span<const std::string> in, std::span<const std::string> inits);
// How much a cotangent of a strided window operation is padded to be one of the operand.
lax::PaddingPairs vjp_lhs_padding(const Shape& in, const Shape& window, const Ints& strides, const Shape& out,
                                  const lax::PaddingPairs& padding, const Ints& lhs_dilation, const Ints& rhs_dilation);

}  // namespace lockstep

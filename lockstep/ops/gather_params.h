// What gather and scatter share: the checks of their dimension numbers, and constants made of indices.
#pragma once

#include "lockstep/lower/context.h"
#include "lockstep/ops/gather.h"

namespace lockstep {

struct GatherParams {
  lax::GatherDimensionNumbers dimension_numbers;
  std::optional<Scalar> fill_value;  // only of mode fill_or_drop
  bool indices_are_sorted;
  lax::GatherScatterMode mode;
  Shape slice_sizes;
  bool unique_indices;
};

// Dimension numbers in words that fit both: the window dimensions lie in an array of window_rank (gather's result,
// scatter's updates).
struct IndexDims {
  const Ints& window;
  int window_rank;
  const Ints &collapsed, &index_map, &operand_batching, &indices_batching;
};
// Throws Error(shape/dtype) if they do not fit the operand and the indices.
void check_index_dims(const char* operation, const std::string& description, AvalP operand, AvalP indices,
                      const IndexDims& d);

// The values along the last dimension of an array of this shape.
std::string emit_index_constant(LowerContext& ctx, const Ints& values, DType dtype, const Shape& shape);

}  // namespace lockstep

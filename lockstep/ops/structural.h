// Functions that move elements without computing on them: shapes, slices, concatenation, padding.
//
// Axes may be negative where JAX allows it. Every function throws Error(shape/axis) naming itself and the shapes.
#pragma once

#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive broadcast_in_dim_p, reshape_p, transpose_p, squeeze_p, concatenate_p, pad_p, rev_p, split_p,
    stack_p, unstack_p, tile_p, slice_p, dynamic_slice_p, dynamic_update_slice_p;

namespace lax {

// Operand dimension i becomes dimension broadcast_dimensions[i] of the result (strictly increasing); dimensions of size
// 1 are repeated.
Array broadcast_in_dim(const Operand& operand, const Shape& shape, const Ints& broadcast_dimensions);
// New leading dimensions.
Array broadcast(const Operand& operand, const Shape& sizes);
// New leading dimensions of size 1, up to the rank; the operand itself if it has it.
Array broadcast_to_rank(const Operand& operand, int rank);
// The same elements in row-major order. One size may be -1. `dimensions`: the order in which the operand's dimensions
// are read; absent or the identity: as they are. The operand itself if nothing changes.
Array reshape(const Operand& operand, const Shape& new_sizes, const std::optional<Ints>& dimensions = std::nullopt);
// Dimensions start ... stop - 1 (to the last if absent) as one.
Array collapse(const Operand& operand, int start_dimension, std::optional<int> stop_dimension = std::nullopt);
// Result dimension i is operand dimension permutation[i]. The operand itself for the identity.
Array transpose(const Operand& operand, const Ints& permutation);
// Without these dimensions, which must have size 1.
Array squeeze(const Operand& array, const Ints& dimensions);
// With dimensions of size 1 at these places of the result.
Array expand_dims(const Operand& array, const Ints& dimensions);
// Operands of equal rank and dtype, equal in all dimensions but this one.
Array concatenate(std::span<const Array> operands, int dimension,
                  std::source_location where = std::source_location::current());
inline Array concatenate(std::initializer_list<Array> operands, int dimension,
                         std::source_location where = std::source_location::current()) {
  return concatenate(std::span(operands.begin(), operands.size()), dimension, where);
}

// Joined along a new axis, and taken apart along one. Operands have one shape.
Array stack(std::span<const Array> operands, int axis = 0,
            std::source_location where = std::source_location::current());
inline Array stack(std::initializer_list<Array> operands, int axis = 0,
                   std::source_location where = std::source_location::current()) {
  return stack(std::span(operands.begin(), operands.size()), axis, where);
}
Arrays unstack(const Operand& x, int axis = 0);

// Elements before, after, and between each two of a dimension. Negative low and high remove elements.
struct PaddingDim {
  std::int64_t low = 0, high = 0, interior = 0;
  bool operator==(const PaddingDim&) const = default;
};
void print_param(Printer& p, const PaddingDim& d);
std::size_t hash_param(const PaddingDim& d);
using PaddingConfig = std::vector<PaddingDim>;
Array pad(const Operand& operand, const Operand& padding_value, const PaddingConfig& padding_config);
// Reversed along these dimensions.
Array rev(const Operand& operand, const Ints& dimensions);
// Consecutive pieces of these sizes, which must add up to the dimension.
Arrays split(const Operand& operand, const Ints& sizes, int axis = 0);
// Repeated reps[i] times along dimension i.
Array tile(const Operand& operand, const Ints& reps);

// operand[start:limit:stride] in every dimension; absent strides are 1. 0 <= start <= limit <= size.
Array slice(const Operand& operand, const Ints& start_indices, const Ints& limit_indices,
            const std::optional<Ints>& strides = std::nullopt);
// The same along one axis; negative indices count from the end, absent ones are the ends.
Array slice_in_dim(const Operand& operand, std::optional<std::int64_t> start_index,
                   std::optional<std::int64_t> limit_index, std::int64_t stride = 1, int axis = 0);
Array index_in_dim(const Operand& operand, std::int64_t index, int axis = 0, bool keepdims = true);

// A block of static size at traced places. Starts are clamped so that the block fits; negative ones count from the end
// unless told not to.
struct DynamicSliceOptions {
  OptionsTag tag{};
  bool allow_negative_indices = true;
};
Array dynamic_slice(const Operand& operand, const Arrays& start_indices, const Shape& slice_sizes,
                    const DynamicSliceOptions& options = {});
Array dynamic_slice_in_dim(const Operand& operand, const Operand& start_index, std::int64_t slice_size, int axis = 0,
                           const DynamicSliceOptions& options = {});
Array dynamic_index_in_dim(const Operand& operand, const Operand& index, int axis = 0, bool keepdims = true,
                           const DynamicSliceOptions& options = {});
// The operand with a block replaced.
Array dynamic_update_slice(const Operand& operand, const Operand& update, const Arrays& start_indices,
                           const DynamicSliceOptions& options = {});
Array dynamic_update_slice_in_dim(const Operand& operand, const Operand& update, const Operand& start_index, int axis,
                                  const DynamicSliceOptions& options = {});
// `update` has the operand's rank, or lacks the axis.
Array dynamic_update_index_in_dim(const Operand& operand, const Operand& update, const Operand& index, int axis,
                                  const DynamicSliceOptions& options = {});

}  // namespace lax
}  // namespace lockstep

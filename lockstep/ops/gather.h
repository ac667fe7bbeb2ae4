// Reading and writing slices at traced places: XLA's gather and scatter, with JAX's names and out-of-bounds modes.
#pragma once

#include <functional>
#include <optional>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive gather_p, scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p,
    scatter_apply_p;

namespace lax {

// What happens to indices out of bounds. clip: moved to the nearest legal place. fill_or_drop: gather gives the fill
// value, scatter drops the update. promise_in_bounds: the user's promise, undefined otherwise.
enum class GatherScatterMode { clip, fill_or_drop, promise_in_bounds };
void print_param(Printer& p, GatherScatterMode mode);

// offset_dims: dimensions of the result that hold the slices. collapsed_slice_dims, operand_batching_dims: operand
// dimensions (of slice size 1) that the result lacks. start_index_map[i]: the operand dimension that component i of an
// index vector addresses; index vectors lie along the last dimension of the indices. Operand batching dimensions go in
// step with start_indices_batching_dims.
struct GatherDimensionNumbers {
  Ints offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims;
  bool operator==(const GatherDimensionNumbers&) const = default;
};
void print_param(Printer& p, const GatherDimensionNumbers& v);
std::size_t hash_param(const GatherDimensionNumbers& v);
struct ScatterDimensionNumbers {
  Ints update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, operand_batching_dims,
      scatter_indices_batching_dims;
  bool operator==(const ScatterDimensionNumbers&) const = default;
};
void print_param(Printer& p, const ScatterDimensionNumbers& v);
std::size_t hash_param(const ScatterDimensionNumbers& v);

// Absent mode: promise_in_bounds (in practice, clip). Absent fill value: NaN for inexact types, the smallest for signed
// and the largest for unsigned integers, true for bool.
struct GatherOptions {
  OptionsTag tag{};
  bool unique_indices = false;
  bool indices_are_sorted = false;
  std::optional<GatherScatterMode> mode = std::nullopt;
  std::optional<Scalar> fill_value = std::nullopt;
};
Array gather(const Operand& operand, const Operand& start_indices, const GatherDimensionNumbers& dimension_numbers,
             const Shape& slice_sizes, const GatherOptions& options = {});

// Absent mode: fill_or_drop.
struct ScatterOptions {
  OptionsTag tag{};
  bool indices_are_sorted = false;
  bool unique_indices = false;
  std::optional<GatherScatterMode> mode = std::nullopt;
};
// The operand with slices replaced by the updates; in which order, if places repeat, is not said.
Array scatter(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
              const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
// With the updates combined into it.
Array scatter_add(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
Array scatter_sub(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
Array scatter_mul(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
Array scatter_min(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});
Array scatter_max(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options = {});

// With a function applied to the elements of slices of update_shape: once more for each time that a place is named. The
// function is one of scalars, captures no arrays, and keeps the dtype. There is no derivative.
Array scatter_apply(const Operand& operand, const Operand& scatter_indices,
                    const std::function<Array(const Array& element)>& func,
                    const ScatterDimensionNumbers& dimension_numbers, const Shape& update_shape,
                    const ScatterOptions& options = {});

}  // namespace lax
}  // namespace lockstep

// Reductions over windows that slide along an array (pooling), and the padding that they share with convolutions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive reduce_window_p, reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p,
    select_and_scatter_add_p, select_and_gather_add_p;

namespace lax {

// Elements added (or, if negative, removed) before and after each dimension: explicitly, or by name. "VALID": none.
// "SAME": as many as make the result as large as the operand divided by the stride, rounded up; "SAME_LOWER": the same
// with the odd one in front.
using PaddingPairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
class Padding {
 public:
  Padding(const char* name) : name(name) {}
  Padding(std::string name) : name(std::move(name)) {}
  Padding(PaddingPairs pairs) : pairs(std::move(pairs)) {}
  Padding(std::initializer_list<std::pair<std::int64_t, std::int64_t>> list) : pairs(list) {}
  std::string name;  // empty if given explicitly
  PaddingPairs pairs;
};
// The pairs that a padding stands for; the window's sizes are those after dilation.
PaddingPairs padding_pairs(const char* operation, const Padding& padding, const Shape& sizes, const Shape& window,
                           const Ints& strides);
// The size after putting dilation - 1 holes between each two elements; the number of windows that fit.
std::int64_t dilate_dim(std::int64_t size, std::int64_t dilation);
std::int64_t stride_dim(std::int64_t size, std::int64_t window, std::int64_t stride);

struct ReduceWindowOptions {
  OptionsTag tag{};
  std::optional<Ints> window_strides = std::nullopt;  // 1 if absent, as the dilations are
  Padding padding = "VALID";
  std::optional<Ints> base_dilation = std::nullopt;
  std::optional<Ints> window_dilation = std::nullopt;
};
// The computation (lax::add, max and min have gradients for reverse mode) over each window, starting from its identity
// `init_value`, with which padding and dilation are filled too. window_dimensions has one size for each dimension.
Array reduce_window(const Operand& operand, const Operand& init_value, const BinaryFunction& computation,
                    const Shape& window_dimensions, const ReduceWindowOptions& options = {});

}  // namespace lax
}  // namespace lockstep

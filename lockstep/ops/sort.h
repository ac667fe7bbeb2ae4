// Sorting along an axis, and the k largest elements.
#pragma once

#include <span>
#include <utility>

#include "lockstep/core/primitive.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive sort_p, top_k_p;

namespace lax {

struct SortOptions {
  OptionsTag tag{};
  int dimension = -1;
  bool is_stable = true;
  int num_keys = 1;
};
// Ascending; -0 and 0 are equal, NaN comes last; complex numbers by real, then imaginary part.
Array sort(const Operand& operand, const SortOptions& options = {});
// Equally shaped arrays rearranged together, by the first num_keys of them in lexicographic order.
Arrays sort(std::span<const Array> operands, const SortOptions& options = {},
            std::source_location where = std::source_location::current());
std::pair<Array, Array> sort_key_val(const Operand& keys, const Operand& values, int dimension = -1,
                                     bool is_stable = true);

// The k largest elements along the axis, descending, and their places (int32); the first of equal ones comes first.
std::pair<Array, Array> top_k(const Operand& operand, int k, int axis = -1);

}  // namespace lax
}  // namespace lockstep

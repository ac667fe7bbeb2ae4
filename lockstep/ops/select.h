// Choices between arrays, element by element.
#pragma once

#include <source_location>
#include <span>

#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive select_n_p, clamp_p;

namespace lax {

// on_true where pred, else on_false. pred: bool, of rank 0 or of the cases' shape.
Array select(const Operand& pred, const Operand& on_true, const Operand& on_false);
// cases[which]: which is bool (at most two cases: false, true) or an integer, of rank 0 or of the cases' shape.
Array select_n(const Operand& which, std::span<const Array> cases);
inline Array select_n(const Operand& which, std::initializer_list<Array> cases) {
  return select_n(which, std::span(cases.begin(), cases.size()));
}
// min(max(x, low), high). The limits have rank 0 or x's shape.
Array clamp(const Operand& min, const Operand& x, const Operand& max);

}  // namespace lax
}  // namespace lockstep

// What the rules of structural primitives share.
#pragma once

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/gather.h"
#include "lockstep/support/error.h"

namespace lockstep {

// A result of these operands: the memory of the first, the varying axes of all.
inline AvalP joined_aval(std::span<const AvalP> in, Shape shape, bool weak_type) {
  Aval result = *with_shape(in[0], std::move(shape));
  result.weak_type = weak_type;
  join_varying(result, in);
  return intern(std::move(result));
}
// Axes of an unbatched array, with the mapped axis in front of it.
inline Ints shifted(const Ints& axes, std::int64_t by = 1) {
  Ints out = axes;
  for (auto& a : out) a += by;
  return out;
}
inline Ints prefixed(std::int64_t first, const Ints& rest) { return rest.with(0, first); }

// The batch rules of gather and scatter, for primitives that are special cases of them. A dim may be kNotMapped, but
// not all.
BatchOut batch_gather(std::int64_t size, const Array& operand, int operand_dim, const Array& indices, int indices_dim,
                      const lax::GatherDimensionNumbers& dimension_numbers, const Shape& slice_sizes,
                      const lax::GatherOptions& options);
BatchOut batch_scatter(const Primitive& primitive, const BatchIn& in,
                       const lax::ScatterDimensionNumbers& dimension_numbers, const lax::ScatterOptions& options);

}  // namespace lockstep

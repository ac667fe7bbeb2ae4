// Primitives whose results are their operands, and arrays made from nothing.
#pragma once

#include <optional>
#include <source_location>
#include <span>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive copy_p, stop_gradient_p, optimization_barrier_p, iota_p;

struct IotaParams {
  std::int64_t dimension;
  DType dtype;
  Shape shape;
  None sharding;
};

namespace lax {

// A copy in memory of its own.
Array copy(const Operand& x);
// The array, through which no derivative flows.
Array stop_gradient(const Operand& x);
// The arrays, none of which is available before all are computed; nothing is moved across.
Arrays optimization_barrier(std::span<const Array> operands,
                            std::source_location where = std::source_location::current());

// 0, 1, ..., size - 1.
Array iota(DType dtype, std::int64_t size, std::source_location where = std::source_location::current());
// Counting along one dimension of a shape.
Array broadcasted_iota(DType dtype, const Shape& shape, int dimension,
                       std::source_location where = std::source_location::current());
// All elements fill_value, a rank-0 array or number, converted to the dtype if one is given.
Array full(const Shape& shape, const Operand& fill_value, std::optional<DType> dtype = std::nullopt);
Array full_like(const Operand& x, const Operand& fill_value, std::optional<DType> dtype = std::nullopt,
                const std::optional<Shape>& shape = std::nullopt);
Array zeros_like(const Operand& x);
Array ones_like(const Operand& x);

}  // namespace lax
}  // namespace lockstep

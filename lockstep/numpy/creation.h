// Arrays made from nothing, with jax.numpy's names and dtypes: float32 (float64 with 64-bit types) unless the arguments
// are integers or a dtype is given.
#pragma once

#include <optional>
#include <source_location>

#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

Array zeros(const Shape& shape, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current());
Array ones(const Shape& shape, std::optional<DType> dtype = std::nullopt,
           std::source_location where = std::source_location::current());
Array empty(const Shape& shape, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current());  // zeros
// The dtype is the value's unless given; the value is broadcast to the shape.
Array full(const Shape& shape, const Operand& fill_value, std::optional<DType> dtype = std::nullopt);

// Of an array's shape and dtype, unless others are given.
struct ZerosLike {
  Array operator()(const Operand& a) const;
  Array operator()(const Operand& a, std::optional<DType> dtype,
                   const std::optional<Shape>& shape = std::nullopt) const;
};
struct OnesLike {
  Array operator()(const Operand& a) const;
  Array operator()(const Operand& a, std::optional<DType> dtype,
                   const std::optional<Shape>& shape = std::nullopt) const;
};
inline constexpr ZerosLike zeros_like{}, empty_like{};
inline constexpr OnesLike ones_like{};
Array full_like(const Operand& a, const Operand& fill_value, std::optional<DType> dtype = std::nullopt,
                const std::optional<Shape>& shape = std::nullopt);

// start, start + step, ... up to stop, which is left out. The numbers must be known.
Array arange(const Operand& stop, std::optional<DType> dtype = std::nullopt);
Array arange(const Operand& start, const Operand& stop, std::optional<DType> dtype = std::nullopt);
Array arange(const Operand& start, const Operand& stop, const Operand& step, std::optional<DType> dtype = std::nullopt);

struct LinspaceOptions {
  OptionsTag tag{};
  bool endpoint = true;  // the last number is stop
  std::optional<DType> dtype{};
  int axis = 0;  // along which the numbers run, if start or stop are arrays
};
// `num` numbers at equal distances.
Array linspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const LinspaceOptions& options = {});
struct LogspaceOptions {
  OptionsTag tag{};
  bool endpoint = true;
  Array base = 10.0;
  std::optional<DType> dtype{};
  int axis = 0;
};
// base to the power of linspace(start, stop).
Array logspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const LogspaceOptions& options = {});
// At equal ratios.
Array geomspace(const Operand& start, const Operand& stop, std::int64_t num = 50, const LinspaceOptions& options = {});

// Ones on the k-th diagonal.
Array eye(std::int64_t rows, std::optional<std::int64_t> columns = std::nullopt, std::int64_t k = 0,
          std::optional<DType> dtype = std::nullopt, std::source_location where = std::source_location::current());
Array identity(std::int64_t n, std::optional<DType> dtype = std::nullopt,
               std::source_location where = std::source_location::current());

}  // namespace lockstep::numpy

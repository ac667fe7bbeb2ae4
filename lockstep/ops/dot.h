// Contractions of two arrays.
#pragma once

#include <optional>
#include <utility>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive dot_general_p;

namespace lax {

// How exactly accelerators multiply float32; of no effect on CPU. `default_` is the fastest.
enum class Precision : std::uint8_t { default_, high, highest };
void print_param(Printer& p, Precision v);  // "Precision.HIGHEST"

// One precision for both operands, or one for each.
struct PrecisionPair : std::pair<Precision, Precision> {
  PrecisionPair(Precision both) : pair(both, both) {}
  PrecisionPair(Precision lhs, Precision rhs) : pair(lhs, rhs) {}
};
using CanonicalPrecision = std::optional<std::pair<Precision, Precision>>;
// "[DEFAULT, HIGH]", as StableHLO's precision attribute.
std::string precision_list(const CanonicalPrecision& precision);
// "[#stablehlo<precision DEFAULT>, #stablehlo<precision HIGH>]", as convolutions take it.
std::string precision_config(const CanonicalPrecision& precision);

// JAX's ((lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch)), written so: {{{1}, {0}}, {{}, {}}}.
struct DotDimensionNumbers {
  std::pair<Ints, Ints> contracting, batch;
  bool operator==(const DotDimensionNumbers&) const = default;
};
void print_param(Printer& p, const DotDimensionNumbers& v);  // (([1], [0]), ([], []))
std::size_t hash_param(const DotDimensionNumbers& v);

struct DotOptions {
  OptionsTag tag{};
  std::optional<PrecisionPair> precision = std::nullopt;
  std::optional<DType> preferred_element_type = std::nullopt;  // of the sums and the result
};
// Batch dimensions, then the other dimensions of lhs, then those of rhs. Throws Error(shape/axis/dtype).
Array dot_general(const Operand& lhs, const Operand& rhs, const DotDimensionNumbers& dimension_numbers,
                  const DotOptions& options = {});
// Vector and matrix products: contracts lhs's last with rhs's first dimension, both of rank 1 or 2.
Array dot(const Operand& lhs, const Operand& rhs, const DotOptions& options = {});
// A product of matrices with leading batch dimensions in common.
Array batch_matmul(const Operand& lhs, const Operand& rhs, const DotOptions& options = {});

}  // namespace lax
}  // namespace lockstep

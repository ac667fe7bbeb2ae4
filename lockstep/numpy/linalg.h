// Products of arrays, under jax.numpy's names.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "lockstep/ops/dot.h"
#include "lockstep/trace/array.h"

namespace lockstep::numpy {

struct ProductOptions {
  OptionsTag tag{};
  std::optional<lax::PrecisionPair> precision = std::nullopt;
  std::optional<DType> preferred_element_type = std::nullopt;  // of the sums and the result
};

// [..., n, k] x [..., k, m] -> [..., n, m]; leading dimensions broadcast; a vector counts as a row on the left and as a
// column on the right, and its dimension of size 1 is dropped from the result. Error(shape) for scalars and for
// contracted sizes that differ.
Array matmul(const Operand& a, const Operand& b, const ProductOptions& options = {});
// Contracts the last axis of a with the second last of b (the last if b is a vector); scalars multiply.
Array dot(const Operand& a, const Operand& b, const ProductOptions& options = {});
Array vdot(const Operand& a, const Operand& b, const ProductOptions& options = {});   // of the flattened; a conjugated
Array inner(const Operand& a, const Operand& b, const ProductOptions& options = {});  // over the last axes
Array outer(const Operand& a, const Operand& b);                                      // of the flattened
// Over the last `axes` of a and the first of b; or over axes listed for each.
Array tensordot(const Operand& a, const Operand& b, int axes = 2, const ProductOptions& options = {});
Array tensordot(const Operand& a, const Operand& b, const std::pair<Ints, Ints>& axes,
                const ProductOptions& options = {});
// Einstein's summation: "bhqd,bhkd->bhqk". Without an arrow the result has the labels that occur once, in alphabetical
// order; "..." stands for leading dimensions that broadcast; a label repeated in one operand takes its diagonal. More
// than two operands are contracted pair by pair, the cheapest first.
Array einsum(std::string_view subscripts, std::span<const Array> operands, const ProductOptions& options = {},
             std::source_location where = std::source_location::current());
inline Array einsum(std::string_view subscripts, std::initializer_list<Array> operands,
                    const ProductOptions& options = {}, std::source_location where = std::source_location::current()) {
  return einsum(subscripts, std::span(operands.begin(), operands.size()), options, where);
}

// Kronecker's product: every element of a times all of b, dimension by dimension.
Array kron(const Operand& a, const Operand& b);
struct CrossOptions {
  OptionsTag tag{};
  int axisa = -1, axisb = -1, axisc = -1;  // where the vectors lie in a, b and the result
  std::optional<int> axis{};               // of all three
};
// Of vectors of 2 or 3 components; of two with 2, the third component alone.
Array cross(const Operand& a, const Operand& b, const CrossOptions& options = {});
struct TraceOptions {
  OptionsTag tag{};
  int axis1 = 0, axis2 = 1;
  std::optional<DType> dtype{};  // of the sum
};
// The sum along a diagonal.
Array trace(const Operand& a, std::int64_t offset = 0, const TraceOptions& options = {});

struct CovOptions {
  OptionsTag tag{};
  Array y{};           // further variables
  bool rowvar = true;  // each row is a variable; otherwise each column
  bool bias = false;   // divides by the number of samples, not by one less
  std::optional<int> ddof{};
  Array fweights{}, aweights{};  // how often each sample counts: integers, and any weights
};
// The covariances of variables, and their correlation coefficients.
Array cov(const Operand& m, const CovOptions& options = {});
struct CorrcoefOptions {
  OptionsTag tag{};
  Array y{};
  bool rowvar = true;
};
Array corrcoef(const Operand& x, const CorrcoefOptions& options = {});

}  // namespace lockstep::numpy

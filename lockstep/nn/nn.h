// Functions of neural networks, under the names of jax.nn.
#pragma once

#include <optional>
#include <source_location>

#include "lockstep/core/shape.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::nn {

// Along an axis (or axes): exp(x) / sum(exp(x)), stable for large x. Its gradient does not go through the maximum.
Array softmax(const Operand& x, const Ints& axis = {-1});
Array log_softmax(const Operand& x, const Ints& axis = {-1});
struct LogsumexpOptions {
  OptionsTag tag{};
  bool keepdims = false;
};
// log(sum(exp(x))) over the axes (all without).
Array logsumexp(const Operand& x, std::optional<Ints> axis = std::nullopt, const LogsumexpOptions& options = {});

namespace internal {
struct Relu {
  Array operator()(const Operand& x) const;
};
struct Relu6 {
  Array operator()(const Operand& x) const;
};
struct Silu {
  Array operator()(const Operand& x) const;
};
struct Sigmoid {
  Array operator()(const Operand& x) const;
};
struct Tanh {
  Array operator()(const Operand& x) const;
};
struct Softplus {
  Array operator()(const Operand& x) const;
};
}  // namespace internal
inline constexpr internal::Relu relu{};    // max(x, 0), with gradient 0 at 0
inline constexpr internal::Relu6 relu6{};  // min(max(x, 0), 6)
inline constexpr internal::Silu silu{};    // x * sigmoid(x)
inline constexpr internal::Silu swish{};
inline constexpr internal::Sigmoid sigmoid{};  // 1 / (1 + exp(-x))
inline constexpr internal::Tanh tanh{};
inline constexpr internal::Softplus softplus{};  // log(1 + exp(x))
// x times the normal distribution function of x: by the tanh formula, or exactly by erf.
Array gelu(const Operand& x, bool approximate = true);
Array leaky_relu(const Operand& x, const Operand& negative_slope = 0.01);
Array elu(const Operand& x, const Operand& alpha = 1.0);

// A new last axis (or `axis`) of size num_classes with one at x, zeros elsewhere; all zeros for x out of range.
struct OneHotOptions {
  OptionsTag tag{};
  std::optional<DType> dtype{};  // float32, or float64 with x64
  int axis = -1;
};
Array one_hot(const Operand& x, std::int64_t num_classes, const OneHotOptions& options = {});

// (x - mean) / sqrt(variance + epsilon) over the axes.
struct StandardizeOptions {
  OptionsTag tag{};
  double epsilon = 1e-5;
};
Array standardize(const Operand& x, const Ints& axis = {-1}, const StandardizeOptions& options = {});
// Layer normalisation over the last axis, then times `scale`, plus `bias` (each of the size of that axis).
Array layer_norm(const Operand& x, const Array& scale, const Array& bias, double epsilon = 1e-5);

// softmax(q k^T * scale) v for q [batch, time, heads, width], k and v [batch, source, kv heads, width]; kv heads must
// divide heads. jax.nn.dot_product_attention.
struct AttentionOptions {
  OptionsTag tag{};
  std::optional<Array> bias{};    // added to the logits [batch, heads, time, source]
  std::optional<Array> mask{};    // bool, true where attention is allowed; broadcast as bias
  std::optional<double> scale{};  // 1 / sqrt(width)
  bool is_causal = false;
};
Array dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                            const AttentionOptions& options = {});

}  // namespace lockstep::nn

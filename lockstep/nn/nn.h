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

// Log of the mean of exp(x) over the axes (all without).
Array logmeanexp(const Operand& x, std::optional<Ints> axis = std::nullopt, const LogsumexpOptions& options = {});

// Functions of one array are objects, so that they can be passed on: vmap(nn::relu).
inline constexpr struct Identity { Array operator()(const Operand& x) const; } identity{};
inline constexpr struct Relu { Array operator()(const Operand& x) const; } relu{};    // max(x, 0), with gradient 0 at 0
inline constexpr struct Relu6 { Array operator()(const Operand& x) const; } relu6{};  // min(max(x, 0), 6)
inline constexpr struct Silu { Array operator()(const Operand& x) const; } silu{};    // x * sigmoid(x)
inline constexpr Silu swish{};
inline constexpr struct Sigmoid { Array operator()(const Operand& x) const; } sigmoid{};  // 1 / (1 + exp(-x))
inline constexpr struct Tanh { Array operator()(const Operand& x) const; } tanh{};
inline constexpr struct Softplus { Array operator()(const Operand& x) const; } softplus{};  // log(1 + exp(x))
inline constexpr struct LogSigmoid { Array operator()(const Operand& x) const; } log_sigmoid{};
inline constexpr struct Log1mexp { Array operator()(const Operand& x) const; } log1mexp{};   // log(1 - exp(-x)), x > 0
inline constexpr struct SoftSign { Array operator()(const Operand& x) const; } soft_sign{};  // x / (|x| + 1)
inline constexpr struct SparsePlus {
  Array operator()(const Operand& x) const;
} sparse_plus{};  // 0, (x + 1)^2 / 4, x: below -1, in between, above 1
inline constexpr struct SparseSigmoid { Array operator()(const Operand& x) const; } sparse_sigmoid{};  // its derivative
inline constexpr struct Mish { Array operator()(const Operand& x) const; } mish{};  // x * tanh(softplus(x))
inline constexpr struct Selu { Array operator()(const Operand& x) const; } selu{};
inline constexpr struct HardTanh { Array operator()(const Operand& x) const; } hard_tanh{};        // within [-1, 1]
inline constexpr struct HardSigmoid { Array operator()(const Operand& x) const; } hard_sigmoid{};  // relu6(x + 3) / 6
inline constexpr struct HardSilu { Array operator()(const Operand& x) const; } hard_silu{};  // x * hard_sigmoid(x)
inline constexpr HardSilu hard_swish{};

Array celu(const Operand& x, const Operand& alpha = 1.0);
Array squareplus(const Operand& x, const Operand& b = 4);  // (x + sqrt(x^2 + b)) / 2
// The first half along the axis times the sigmoid of the second.
Array glu(const Operand& x, int axis = -1);
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

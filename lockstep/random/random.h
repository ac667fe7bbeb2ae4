// Random numbers from explicit keys, bit for bit JAX's (jax.random, default threefry2x32, partitionable): the same key
// gives the same numbers, on any number of devices and processes. A key is used once; split it for more.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <tuple>
#include <utility>

#include "lockstep/core/shape.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep::random {

// A key from an integer seed: key<fry>[]. With an array of seeds, an array of keys.
Array key(const Operand& seed);
// uint32[..., 2] <-> key<fry>[...].
Array key_data(const Operand& keys);
Array wrap_key_data(const Operand& words);

// New keys: an array of `num` (shape key.shape + num). A tuple of N with split<N>(key).
Array split(const Operand& key, const Shape& num = {2});
template <std::size_t N>
auto split(const Operand& key);
// A new key from a key and an integer (scalar).
Array fold_in(const Operand& key, const Operand& data);

// Uniform unsigned integers. Error(dtype) for others.
Array bits(const Operand& key, const Shape& shape = {}, std::optional<DType> dtype = std::nullopt);

struct UniformOptions {
  OptionsTag tag{};
  Array minval = 0.0, maxval = 1.0;  // broadcast to the shape
  std::optional<DType> dtype{};      // float32, or float64 with x64
};
// In [minval, maxval).
Array uniform(const Operand& key, const Shape& shape = {}, const UniformOptions& options = {});

struct SampleOptions {
  OptionsTag tag{};
  std::optional<DType> dtype{};
};
// Mean 0, variance 1; complex dtypes too.
Array normal(const Operand& key, const Shape& shape = {}, const SampleOptions& options = {});
Array exponential(const Operand& key, const Shape& shape = {}, const SampleOptions& options = {});
Array gumbel(const Operand& key, const Shape& shape = {}, const SampleOptions& options = {});
Array laplace(const Operand& key, const Shape& shape = {}, const SampleOptions& options = {});
Array logistic(const Operand& key, const Shape& shape = {}, const SampleOptions& options = {});
Array rademacher(const Operand& key, const Shape& shape = {}, const SampleOptions& options = {});  // -1 or 1
// Normal, conditioned on [lower, upper].
Array truncated_normal(const Operand& key, const Operand& lower, const Operand& upper,
                       std::optional<Shape> shape = std::nullopt, const SampleOptions& options = {});
// Integers in [minval, maxval).
Array randint(const Operand& key, const Shape& shape, const Operand& minval, const Operand& maxval,
              const SampleOptions& options = {});
// True with probability p; of p's shape unless given.
Array bernoulli(const Operand& key, const Operand& p = 0.5, std::optional<Shape> shape = std::nullopt);
// Indices along `axis`, with probabilities softmax(logits); of the shape of logits without the axis unless given.
Array categorical(const Operand& key, const Operand& logits, int axis = -1, std::optional<Shape> shape = std::nullopt);
// x in random order along an axis; with `independent`, every slice in its own order.
struct PermutationOptions {
  OptionsTag tag{};
  int axis = 0;
  bool independent = false;
};
Array permutation(const Operand& key, const Operand& x, const PermutationOptions& options = {});
Array permutation(const Operand& key, std::int64_t n);  // of 0 ... n - 1

namespace internal {
Array key_at(const Array& keys, std::int64_t i);
}
template <std::size_t N>
auto split(const Operand& key) {
  LocationScope scope(key.where);
  Array keys = split(key, Shape{N});
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::tuple{internal::key_at(keys, static_cast<std::int64_t>(I))...};
  }
  (std::make_index_sequence<N>());
}

}  // namespace lockstep::random

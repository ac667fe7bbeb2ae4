// The GPT and AdamW step that lockstep and its rival are timed on (rival/jax_rival.py has the same).
#pragma once

#include <lockstep/lockstep.h>

#include <cmath>
#include <random>
#include <vector>

namespace bench {

namespace ls = lockstep;
namespace np = ls::numpy;
namespace nn = ls::nn;
using ls::Array;

struct GptConfig {
  int layers, width, heads, vocabulary, context;
};
struct Norm {
  Array scale, bias;
};
struct Block {
  Norm ln1;
  Array qkv, out;
  Norm ln2;
  Array up, down;
};
struct Gpt {
  Array tokens, positions;
  std::vector<Block> blocks;
  Norm last;
};
struct State {
  Gpt params, mu, nu;
  Array count;
};

inline Gpt init(const GptConfig& c, Array key) {
  Array keys = ls::random::split(key, {2 + 4 * c.layers});
  int n = 0;
  auto normal = [&](int rows, int columns) { return 0.02 * ls::random::normal(keys[n++], {rows, columns}); };
  auto norm = [&] { return Norm{np::ones({c.width}), np::zeros({c.width})}; };
  Gpt g{.tokens = normal(c.vocabulary, c.width), .positions = normal(c.context, c.width), .blocks = {}, .last = norm()};
  for (int i = 0; i < c.layers; ++i) {
    Array qkv = normal(c.width, 3 * c.width), out = normal(c.width, c.width), up = normal(c.width, 4 * c.width),
          down = normal(4 * c.width, c.width);
    g.blocks.push_back({norm(), qkv, out, norm(), up, down});
  }
  return g;
}
inline Array layer_norm(const Norm& p, Array x) {
  Array mean = np::mean(x, -1, {.keepdims = true});
  Array variance = np::mean(np::square(x - mean), -1, {.keepdims = true});
  return (x - mean) * ls::lax::rsqrt(variance + 1e-5) * p.scale + p.bias;
}
inline Array logits(const GptConfig& c, const Gpt& p, Array tokens) {
  auto [batch, time] = tokens.shape<2>();
  Array x = p.tokens[tokens] + p.positions[{ls::slice(0, time)}];
  Array mask = np::tril(np::ones({time, time}, ls::DType::bool_));
  for (const Block& b : p.blocks) {
    auto qkv = np::split(np::matmul(layer_norm(b.ln1, x), b.qkv), 3, -1);
    for (Array& t : qkv) t = np::transpose(t.reshape({batch, time, c.heads, c.width / c.heads}), {0, 2, 1, 3});
    Array scores = np::einsum("bhqd,bhkd->bhqk", {qkv[0], qkv[1]}) / std::sqrt(static_cast<double>(c.width) / c.heads);
    Array weights = nn::softmax(np::where(mask, scores, -1e9));
    Array attended =
        np::transpose(np::einsum("bhqk,bhkd->bhqd", {weights, qkv[2]}), {0, 2, 1, 3}).reshape({batch, time, c.width});
    x = x + np::matmul(attended, b.out);
    x = x + np::matmul(nn::gelu(np::matmul(layer_norm(b.ln2, x), b.up)), b.down);
  }
  return np::matmul(layer_norm(p.last, x), p.tokens.T());
}
inline Array loss(const GptConfig& c, const Gpt& p, Array rows) {
  Array in = rows[{ls::slice(), ls::slice(0, -1)}], target = rows[{ls::slice(), ls::slice(1, ls::end), ls::newaxis}];
  return -np::mean(np::take_along_axis(nn::log_softmax(logits(c, p, in)), target, -1));
}
inline std::tuple<State, Array> step(const GptConfig& c, const State& s, Array rows) {
  auto [value, grads] = ls::value_and_grad([&](Gpt p) { return loss(c, p, rows); })(s.params);
  Array count = s.count + 1;
  auto [params, mu, nu] = ls::tree::map(
      [&](Array p, Array g, Array m, Array v) {
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        Array update = m / (1 - np::power(0.9, count)) / (np::sqrt(v / (1 - np::power(0.95, count))) + 1e-8);
        return std::tuple{p - 3e-4 * (update + 0.1 * p), m, v};
      },
      s.params, grads, s.mu, s.nu);
  return {State{params, mu, nu, count}, value};
}

// What a training run over a mesh starts from: parameters and zero moments, whole on each device.
inline State initial_state(const GptConfig& c, const ls::NamedSharding& everywhere) {
  auto start = ls::jit(
      [&](Array key) {
        Gpt g = init(c, key);
        Gpt zero = ls::tree::map([](Array p) { return np::zeros_like(p); }, g);
        return State{g, zero, zero, np::zeros({}, ls::DType::float32)};
      },
      {.out_shardings = everywhere});
  return start(ls::random::key(0));
}
// int32[batch, context + 1] of random bytes, the same on each process.
inline Array random_rows(const GptConfig& c, int batch, const ls::NamedSharding& split) {
  std::mt19937 random(1);
  std::vector<std::int32_t> bytes(static_cast<std::size_t>(batch * (c.context + 1)));
  for (auto& b : bytes) b = static_cast<std::int32_t>(random() % 256);
  return ls::device_put(np::asarray(std::move(bytes), {batch, c.context + 1}), split);
}

}  // namespace bench

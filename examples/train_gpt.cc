// A byte-level GPT trained on real text, by as many processes as there are: `lockstep run -n 2 -- train_gpt`.
//
// The training code has no word about processes: the global batch is split over all devices by its sharding, the model
// is replicated, and the compiler sums the gradients across them.
#include <lockstep/lockstep.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace ls = lockstep;
namespace np = ls::numpy;
namespace nn = ls::nn;
namespace lax = ls::lax;
using ls::Array, ls::P;

struct Config {
  int layers = 4, width = 128, heads = 4, context = 64, batch = 32, steps = 600, seed = 0, sample = 400, log_every = 50;
  double learning_rate = 3e-3, weight_decay = 0.1, clip = 1.0;
  std::vector<std::string> text;
};
constexpr int kVocabulary = 256;  // bytes

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
  Array step;
};

Gpt init(const Config& c, Array key) {
  int n = 0;
  auto normal = [&](int rows, int columns, double scale) {
    return scale * ls::random::normal(ls::random::fold_in(key, n++), {rows, columns});
  };
  auto norm = [&] { return Norm{np::ones({c.width}), np::zeros({c.width})}; };
  double small = 0.02, residual = 0.02 / std::sqrt(2.0 * c.layers);
  Gpt g{.tokens = normal(kVocabulary, c.width, small),
        .positions = normal(c.context, c.width, small),
        .blocks = {},
        .last = norm()};
  for (int i = 0; i < c.layers; ++i)
    g.blocks.push_back({norm(), normal(c.width, 3 * c.width, small), normal(c.width, c.width, residual), norm(),
                        normal(c.width, 4 * c.width, small), normal(4 * c.width, c.width, residual)});
  return g;
}

// Logits of the next byte at every position: [batch, time] -> [batch, time, 256].
Array logits(const Gpt& g, Array tokens, int heads) {
  auto [batch, time] = tokens.shape<2>();
  auto width = g.tokens.shape(1);
  Array x = g.tokens[tokens] + g.positions[{ls::slice(0, time)}];
  for (const Block& b : g.blocks) {
    auto qkv = np::split(np::matmul(nn::layer_norm(x, b.ln1.scale, b.ln1.bias), b.qkv), 3, -1);
    for (Array& part : qkv) part = part.reshape({batch, time, heads, width / heads});
    Array attended = nn::dot_product_attention(qkv[0], qkv[1], qkv[2], {.is_causal = true});
    x += np::matmul(attended.reshape({batch, time, width}), b.out);
    x += np::matmul(nn::gelu(np::matmul(nn::layer_norm(x, b.ln2.scale, b.ln2.bias), b.up)), b.down);
  }
  return np::matmul(nn::layer_norm(x, g.last.scale, g.last.bias), g.tokens.T());
}

// Mean nats per byte of rows of context + 1 bytes.
Array loss(const Gpt& g, Array rows, int heads) {
  Array in = rows[{ls::dots, ls::slice(0, -1)}], target = rows[{ls::dots, ls::slice(1, ls::end), ls::newaxis}];
  return -np::mean(np::take_along_axis(nn::log_softmax(logits(g, in, heads)), target, -1));
}

// AdamW with the gradient clipped to a global norm. The rate is an argument: a new one does not compile again.
std::tuple<State, Array> train_step(const State& s, Array rows, Array rate, const Config& c) {
  auto [value, grads] = ls::value_and_grad([&](Gpt g) { return loss(g, rows, c.heads); })(s.params);
  Array squares = 0.0;
  for (const Array& g : ls::tree::leaves(grads)) squares = squares + np::sum(np::square(g));
  Array shrink = np::minimum(1.0, c.clip / (np::sqrt(squares) + 1e-6));
  Array t = s.step + 1;
  auto [params, mu, nu] = ls::tree::map(
      [&](Array p, Array g, Array m, Array v) {
        g = g * shrink;
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * np::square(g);
        Array update = m / (1 - np::power(0.9, t)) / (np::sqrt(v / (1 - np::power(0.95, t))) + 1e-8);
        double decay = p.ndim() == 2 ? c.weight_decay : 0.0;  // not of norms
        return std::tuple{p - rate * (update + decay * p), m, v};
      },
      s.params, grads, s.mu, s.nu);
  return {State{params, mu, nu, t}, value};
}

double rate_at(const Config& c, int step) {  // linear warm-up, then a cosine down to a tenth
  int warm = std::max(1, std::min(100, c.steps / 10));
  if (step < warm) return c.learning_rate * (step + 1) / warm;
  double done = static_cast<double>(step - warm) / std::max(1, c.steps - warm);
  return c.learning_rate * (0.1 + 0.9 * 0.5 * (1 + std::cos(M_PI * done)));
}

std::string read_text(const std::vector<std::string>& files) {
  std::string text;
  if (files.empty()) {
    // The King James Bible: Debian's package bible-kjv, whose program prints any passage.
    FILE* pipe = popen("bible -f gen1:1-rev22:21 2>/dev/null", "r");
    char buffer[1 << 16];
    for (std::size_t n; pipe && (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, n);
    if (pipe) pclose(pipe);
    if (text.size() < 1'000'000)
      throw ls::Error(
          ls::ErrorCode::io, "train_gpt",
          "the default text is not there: install Debian's package bible-kjv (apt-get install bible-kjv), or "
          "give files with --text FILE...",
          0);
    return text;
  }
  for (const auto& name : files) {
    std::ifstream in(name, std::ios::binary);
    std::ostringstream all;
    if (!(in && all << in.rdbuf()))
      throw ls::Error(ls::ErrorCode::io, "train_gpt", "can't read the text file " + name, 0);
    text += all.str();
  }
  return text;
}

// Rows of context + 1 bytes at random places, the same on every process.
class Batches {
 public:
  Batches(std::string_view text, const Config& c, unsigned seed)
      : text_(text), rows_(c.batch), length_(c.context + 1), random_(seed) {}
  std::vector<std::int32_t> next() {
    std::vector<std::int32_t> out;
    out.reserve(static_cast<std::size_t>(rows_ * length_));
    std::uniform_int_distribution<std::size_t> place(0, text_.size() - static_cast<std::size_t>(length_));
    for (int r = 0; r < rows_; ++r) {
      std::size_t at = place(random_);
      for (int i = 0; i < length_; ++i)
        out.push_back(static_cast<unsigned char>(text_[at + static_cast<std::size_t>(i)]));
    }
    return out;
  }

 private:
  std::string_view text_;
  int rows_, length_;
  std::mt19937 random_;
};

std::string bytes_text(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB"};
  int u = 0;
  while (bytes >= 1024 && u < 3) bytes /= 1024, ++u;
  char out[32];
  std::snprintf(out, sizeof out, "%.*f %s", u ? 1 : 0, bytes, units[u]);
  return out;
}

int run(const Config& c) {
  ls::distributed::initialize();  // finds its peers, or learns that it is alone
  bool talks = ls::process_index() == 0;
  std::string text = read_text(c.text);
  std::string_view all(text);
  std::size_t split = all.size() * 9 / 10, row = static_cast<std::size_t>(c.context + 1);
  if (all.size() - split < row + 1)
    throw ls::Error(ls::ErrorCode::invalid_argument, "train_gpt",
                    "the text is too short for a context of " + std::to_string(c.context), 0);

  auto mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding batch(mesh, P("data")), everywhere(mesh, P());
  auto place = [&](std::vector<std::int32_t> rows) {
    return ls::device_put(np::asarray(std::move(rows), {c.batch, c.context + 1}), batch);
  };

  auto start = ls::jit(
      [&](Array key) {
        Gpt g = init(c, key);
        Gpt zero = ls::tree::map([](Array p) { return np::zeros_like(p); }, g);
        return State{g, zero, zero, np::zeros({}, ls::DType::float32)};
      },
      {.out_shardings = everywhere, .name = "init"});
  State state = start(ls::random::key(c.seed));
  auto step = ls::jit([&](State s, Array rows, Array rate) { return train_step(s, rows, rate, c); },
                      {.donate_argnums = {0}, .out_shardings = {everywhere, everywhere}, .name = "train_step"});
  auto evaluate = ls::jit([&](Gpt g, Array rows) { return loss(g, rows, c.heads); },
                          {.out_shardings = everywhere, .name = "evaluate"});

  std::int64_t parameters = 0;
  for (const Array& p : ls::tree::leaves(state.params)) parameters += p.size();
  if (talks) {
    std::printf("text: %.1f MB, %.0f%% held out; model: %d layers, width %d, %d heads, %.2f M parameters\n",
                all.size() / 1e6, 100.0 * static_cast<double>(all.size() - split) / static_cast<double>(all.size()),
                c.layers, c.width, c.heads, static_cast<double>(parameters) / 1e6);
    std::printf("%s over %d devices of %d processes; %d rows of %d bytes a step\n", ls::to_string(mesh).c_str(),
                ls::device_count(), ls::process_count(), c.batch, c.context);
    std::fflush(stdout);
  }

  using Clock = std::chrono::steady_clock;
  Batches training(all.substr(0, split), c, static_cast<unsigned>(c.seed));
  auto begin = Clock::now(), first_done = begin;
  Array value;
  for (int i = 0; i < c.steps; ++i) {
    std::tie(state, value) = step(std::move(state), place(training.next()), rate_at(c, i));
    if (i == 0) {
      value.block_until_ready();
      first_done = Clock::now();
      if (talks) {
        std::printf("compiled in %.1f s; collectives per step and device:",
                    std::chrono::duration<double>(first_done - begin).count());
        auto reports = step.collectives();
        double total = 0;
        for (auto& r : reports) {
          std::printf(" %s %s", r.op.c_str(), bytes_text(static_cast<double>(r.bytes)).c_str());
          total += static_cast<double>(r.bytes) * static_cast<double>(r.calls.value_or(1));
        }
        std::printf("%s, %s in all\n", reports.empty() ? " none" : "", bytes_text(total).c_str());
      }
    }
    if (talks && (i % c.log_every == 0 || i + 1 == c.steps)) {
      double loss_now = value.item<double>(),
             seconds = std::chrono::duration<double>(Clock::now() - first_done).count();
      std::printf("step %5d/%d  loss %.4f", i + 1, c.steps, loss_now);
      if (i > 0) {  // the first step's time is the compiler's
        double rate = i * double(c.batch) * c.context / seconds, left = seconds / i * (c.steps - 1 - i);
        std::printf("  %7.0f tokens/s  %3.0f s left", rate, left);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }

  // Held-out loss, on rows the training never saw.
  Batches held_out(all.substr(split), c, 12345);
  double total = 0;
  const int rounds = 20;
  for (int i = 0; i < rounds; ++i) total += evaluate(state.params, place(held_out.next())).item<double>();

  // A sample: the context slides over what has been written so far.
  if (c.sample > 0) {
    auto next = ls::jit(
        [&](Gpt g, Array window, Array at, Array key) {
          Array all_logits = logits(g, window, c.heads);
          return ls::random::categorical(key, lax::dynamic_index_in_dim(all_logits[0], at, 0, false) / 0.8);
        },
        {.out_shardings = everywhere, .name = "sample"});
    std::string written = "\n";
    for (int i = 0; i < c.sample; ++i) {
      std::string tail = written.substr(written.size() > static_cast<std::size_t>(c.context)
                                            ? written.size() - static_cast<std::size_t>(c.context)
                                            : 0);
      std::vector<std::int32_t> window(static_cast<std::size_t>(c.context), 0);
      for (std::size_t k = 0; k < tail.size(); ++k) window[k] = static_cast<unsigned char>(tail[k]);
      Array in = ls::device_put(np::asarray(std::move(window), {1, c.context}), everywhere);
      Array byte = next(state.params, in, static_cast<int>(tail.size()) - 1,
                        ls::random::fold_in(ls::random::key(c.seed + 1), i));
      written.push_back(static_cast<char>(byte.item<int>()));
    }
    if (talks) std::printf("--- sample ---%s\n--------------\n", written.c_str());
  }
  if (talks) std::printf("held-out loss: %.4f nats/byte\n", total / rounds);
  ls::distributed::shutdown();
  return 0;
}

int main(int argc, char** argv) {
  Config c;
  CLI::App app{"Trains a byte-level GPT on text, on all devices of all processes."};
  app.add_option("--text", c.text, "text files (default: the King James Bible of Debian's package bible-kjv)");
  app.add_option("--layers", c.layers, "transformer blocks")->capture_default_str();
  app.add_option("--width", c.width, "width of the model")->capture_default_str();
  app.add_option("--heads", c.heads, "attention heads; must divide the width")->capture_default_str();
  app.add_option("--context", c.context, "bytes that a prediction may look back on")->capture_default_str();
  app.add_option("--batch", c.batch, "rows per step, over all processes")->capture_default_str();
  app.add_option("--steps", c.steps, "training steps")->capture_default_str();
  app.add_option("--learning-rate", c.learning_rate, "peak learning rate")->capture_default_str();
  app.add_option("--seed", c.seed, "of initialisation, batches and the sample")->capture_default_str();
  app.add_option("--sample", c.sample, "bytes to write at the end; 0: none")->capture_default_str();
  app.add_option("--log-every", c.log_every, "steps between progress lines")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    if (c.width % c.heads != 0)
      throw ls::Error(ls::ErrorCode::invalid_argument, "train_gpt", "--heads must divide --width", 0);
    return run(c);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

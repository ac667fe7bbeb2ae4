// lockstep's figures, one JSON object a line, in the form of rival/jax_rival.py. usage: bench
// dispatch|trace|compile|step
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

#include "benchmarks/gpt.h"

namespace {

using namespace bench;
using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double best(const std::function<void(int)>& f, int n, int rounds = 5) {
  double least = 1e9;
  for (int i = 0; i < rounds; ++i) {
    auto start = Clock::now();
    f(n);
    least = std::min(least, since(start) / n);
  }
  return least;
}

void dispatch() {
  auto one = ls::jit([](Array a) { return a + 1; });
  Array x = np::ones({8});
  one(x).block_until_ready();
  std::printf("{\"name\": \"dispatch_1\", \"seconds\": %.9f}\n", best(
                                                                     [&](int n) {
                                                                       Array y = x;
                                                                       for (int i = 0; i < n; ++i) y = one(y);
                                                                       y.block_until_ready();
                                                                     },
                                                                     20000));
  std::vector<Array> leaves(100, x);
  for (Array& l : leaves) l = np::ones({8});
  auto many = ls::jit([](std::vector<Array> p) {
    for (Array& a : p) a = a + 1;
    return p;
  });
  many(leaves)[99].block_until_ready();
  std::printf("{\"name\": \"dispatch_100\", \"seconds\": %.9f}\n", best(
                                                                       [&](int n) {
                                                                         auto p = leaves;
                                                                         for (int i = 0; i < n; ++i) p = many(p);
                                                                         p[99].block_until_ready();
                                                                       },
                                                                       1000));
}

// Constants apart: lockstep writes each once, JAX at each use.
std::size_t count_ops(const std::string& text) {
  std::size_t n = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find('\n', at);
    std::string_view line(text.data() + at, (end == std::string::npos ? text.size() : end) - at);
    n += line.find("stablehlo.") != line.npos && line.find('=') != line.npos &&
         line.find("stablehlo.constant") == line.npos;
    at = end == std::string::npos ? text.size() : end + 1;
  }
  return n;
}

// The AdamW step of GPT-2 small, and what it is traced with. Only shapes are needed: the parameters are traced from a
// function that makes them.
struct Gpt2Small {
  GptConfig c{12, 768, 12, 50257, 256};
  State state = ls::internal::abstract<State>(
      [this](Array key) {
        Gpt g = init(c, key);
        return State{g, g, g, np::zeros({}, ls::DType::float32)};
      },
      ls::random::key(0));
  Array rows = ls::internal::placeholder({ls::Shape{2, 257}, ls::DType::int32});

  auto lower() const {
    auto f = ls::jit([this](State s, Array r) { return step(c, s, r); }, {.donate_argnums = {0}, .name = "step"});
    return f.lower(state, rows);
  }
};

void trace() {
  Gpt2Small gpt;
  double least = 1e9;
  std::string text;
  for (int i = 0; i < 5; ++i) {
    auto start = Clock::now();
    text = gpt.lower().as_text();
    least = std::min(least, since(start));
  }
  std::printf("{\"name\": \"trace_lower\", \"seconds\": %.6f, \"ops\": %zu}\n", least, count_ops(text));
}

// Says "ready", and compiles when it is told to.
void compile() {
  Gpt2Small gpt;
  auto lowered = gpt.lower();
  std::puts("ready");
  std::fflush(stdout);
  std::getchar();
  auto start = Clock::now();
  lowered.compile();
  std::printf("{\"name\": \"compile\", \"seconds\": %.6f}\n", since(start));
}

void steps() {
  ls::distributed::initialize();
  auto mesh = ls::make_mesh({{"data", ls::device_count()}});
  ls::NamedSharding everywhere(mesh, ls::P()), split(mesh, ls::P("data"));
  struct Case {
    const char* name;
    GptConfig c;
    int batch, steps;
  };
  for (const Case& k :
       {Case{"step_small", {4, 128, 4, 256, 64}, 8, 20}, Case{"step_mid", {6, 384, 6, 256, 256}, 8, 4}}) {
    State state = initial_state(k.c, everywhere);
    Array rows = random_rows(k.c, k.batch, split);
    auto f = ls::jit([&](State s, Array r) { return step(k.c, s, r); },
                     {.donate_argnums = {0}, .out_shardings = {everywhere, everywhere}});
    Array value;
    std::tie(state, value) = f(std::move(state), rows);
    value.block_until_ready();
    std::vector<double> times;
    for (int i = 0; i < k.steps; ++i) {
      auto start = Clock::now();
      std::tie(state, value) = f(std::move(state), rows);
      value.block_until_ready();
      times.push_back(since(start));
    }
    std::sort(times.begin(), times.end());
    double loss_now = value.item<double>();
    if (ls::process_index() == 0)
      std::printf("{\"name\": \"%s_%dp\", \"seconds\": %.6f, \"loss\": %.4f}\n", k.name, ls::process_count(),
                  times[times.size() / 2], loss_now);
    std::fflush(stdout);
  }
  ls::distributed::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  std::string job = argc > 1 ? argv[1] : "";
  try {
    if (job == "dispatch")
      dispatch();
    else if (job == "trace")
      trace();
    else if (job == "compile")
      compile();
    else if (job == "step")
      steps();
    else
      return std::fprintf(stderr, "usage: bench dispatch|trace|compile|step\n"), 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

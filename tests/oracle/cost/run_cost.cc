// Prints what cost_analysis() counts for some programs; cost_test.py compares it with XLA's own count.
#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array;

namespace {

template <class F, class... Args>
void show(const char* name, F f, const Args&... args) {
  auto c = ls::jit(f).lower(args...).compile().cost_analysis();
  std::printf("%s %.0f %.0f %.0f\n", name, c.flops, c.transcendentals, c.bytes_accessed);
}

}  // namespace

int main() {
  Array x = np::ones({32, 64}), w = np::ones({64, 64}), v = np::ones({64, 16});
  show(
      "matmul", [](Array a, Array b) { return np::matmul(a, b); }, x, w);
  show(
      "softmax", [](Array a) { return ls::nn::softmax(a); }, x);
  auto loss = [](Array a, Array b, Array c) { return np::mean(np::square(np::matmul(np::tanh(np::matmul(c, a)), b))); };
  show("loss", loss, w, v, x);
  show("gradient", ls::grad(loss), w, v, x);
  show(
      "cumsum", [](Array a) { return np::cumsum(a, 1); }, x);
  show(
      "gelu", [](Array a) { return ls::nn::gelu(a); }, x);
  show(
      "slice",
      [](Array a) {
        return ls::lax::slice(a, {2, 0}, {10, 64}) * 2;
      },
      x);
  show(
      "choice",
      [](Array a) {
        return ls::lax::cond(
            a[0][0] > 0, [](Array b) { return np::exp(b) * 2; }, [](Array b) { return b + 1; }, a);
      },
      x);
  show(
      "pair",
      [](Array a) {
        return std::pair{a + 1, np::sum(a, 0)};
      },
      x);
  show(
      "conv",
      [](Array a, Array b) {
        return ls::lax::conv(a, b, {2, 2}, "SAME");
      },
      np::ones({2, 3, 9, 9}), np::ones({5, 3, 3, 3}));
}

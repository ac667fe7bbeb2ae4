#include <lockstep/lockstep.h>

#include <cmath>
#include <cstdio>

namespace ls = lockstep;
namespace np = lockstep::numpy;
using ls::Array;

int main() {
  auto f = ls::jit([](Array x) { return np::sum(np::sin(x) * x); });
  float x = 0.5f;
  float value = f(x).item<float>();
  float slope = ls::jit(ls::grad([](Array y) { return np::sum(np::sin(y) * y); }))(x).item<float>();
  std::printf("f(0.5) = %.6f, f'(0.5) = %.6f\n", value, slope);
  return std::abs(value - std::sin(x) * x) < 1e-6f && std::abs(slope - (std::cos(x) * x + std::sin(x))) < 1e-6f ? 0 : 1;
}

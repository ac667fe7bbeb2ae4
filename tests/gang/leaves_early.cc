// The README's program. Process 1 returns from main with a hundred launches in flight, which process 0 needs.
#include <lockstep/lockstep.h>
#include <iostream>
namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::P;

struct Linear {
  Array w, b;
};  // any aggregate of arrays is a tree
struct Model {
  std::vector<Linear> layers;
};

Array apply(const Model& m, Array x) {
  for (auto& l : m.layers) x = np::tanh(np::matmul(x, l.w) + l.b);
  return x;
}
Array loss(const Model& m, Array x, Array y) { return np::mean(np::square(apply(m, x) - y)); }

int main() {
  ls::distributed::initialize();              // finds its peers, or learns that it is alone
  auto mesh = ls::make_mesh({{"data", -1}});  // all devices of all processes
  auto [k1, k2] = ls::random::split<2>(ls::random::key(0));
  Model m{{{ls::random::normal(k1, {8, 8}), np::zeros({8})}}};
  Array x = ls::device_put(ls::random::normal(k2, {64, 8}), ls::NamedSharding(mesh, P("data")));
  auto step = ls::jit([](Model m, Array x, Array y, Array rate) {
    auto [l, g] = ls::value_and_grad(loss)(m, x, y);
    return std::tuple{ls::tree::map([&](Array p, Array d) { return p - rate * d; }, m, g), l};
  });
  Array l;
  for (int i = 0; i < 100; ++i) std::tie(m, l) = step(m, x, 0.5 * x, 0.1);  // a new rate would not compile again
  if (ls::process_index() == 0) std::cout << "loss " << l << '\n';
}

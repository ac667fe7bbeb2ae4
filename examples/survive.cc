// Training that outlives its processes: when one dies, the others go on without it, from the state they hold.
//
//   lockstep run -n 3 --recoverable -- survive --die 2@40     # process 2 kills itself at step 40
//
// What makes it so: jax_enable_recoverability, under which a collective with a dead process is an Error(peer) that the
// program may catch; live_processes(), on which all that are left agree; and a mesh of their devices. Process 0 runs
// the coordinator: without it the gang ends.
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::P;

struct Model {
  Array w, b;
};
struct State {
  Model model;
  Array step;
};

Array loss(const Model& m, Array x, Array y) { return np::mean(np::square(np::matmul(x, m.w) + m.b - y)); }

std::vector<ls::Device> devices_of(const std::vector<int>& processes) {
  std::vector<ls::Device> result;
  for (const ls::Device& d : ls::devices())
    if (std::find(processes.begin(), processes.end(), d.process_index) != processes.end()) result.push_back(d);
  return result;
}

// A replicated tree as arrays of this process's own device.
template <class T>
T here(const T& t) {
  return ls::tree::map([](const Array& a) { return a.addressable_shards().front().data; }, t);
}

int main(int argc, char** argv) {
  int steps = 200, victim = -1, last = -1;
  auto heartbeat = std::chrono::seconds(100);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (argv[i] == std::string("--steps")) steps = std::stoi(argv[i + 1]);
    if (argv[i] == std::string("--die")) std::sscanf(argv[i + 1], "%d@%d", &victim, &last);
    if (argv[i] == std::string("--heartbeat")) heartbeat = std::chrono::seconds(std::stoi(argv[i + 1]));
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  ls::distributed::initialize({.heartbeat_timeout = heartbeat, .recoverable = true});
  const int me = ls::distributed::process_index();

  auto step = ls::jit([](State s, Array x, Array y) {
    auto [l, g] = ls::value_and_grad(loss)(s.model, x, y);
    Model next = ls::tree::map([](Array p, Array d) { return p - 0.1 * d; }, s.model, g);
    return std::tuple{State{next, s.step + 1}, l};
  });

  State state{{np::zeros({8, 1}), np::zeros({1})}, np::array(0)};
  Array truth = ls::random::normal(ls::random::key(1), {8, 1});
  std::vector<int> processes = ls::distributed::membership().processes;
  for (bool done = false; !done;) {
    // From here on nothing remembers who was there before.
    auto mesh = ls::make_mesh({{"data", -1}}, devices_of(processes));
    ls::NamedSharding split(mesh, P("data")), whole(mesh, P());
    if (me == 0) std::printf("%s\n", to_string(mesh).c_str());
    try {
      state = ls::device_put(ls::multihost_utils::broadcast_one_to_all(state), whole);
      State held = state;
      for (int i = state.step.item<int>(); i < steps; ++i) {
        if (me == victim && i == last) std::raise(SIGKILL);
        // The global batch of 48 rows: each process puts the rows of its devices there.
        Array x = ls::random::normal(ls::random::fold_in(ls::random::key(0), i), {48, 8});
        Array l;
        std::tie(held, l) = step(state, ls::device_put(x, split), ls::device_put(np::matmul(x, truth) + 3, split));
        double value = l.item<double>();  // here a lost process shows
        state = held;
        if (me == 0 && (i + 1) % 50 == 0) std::printf("step %d  loss %.6f\n", i + 1, value);
      }
      done = true;
    } catch (const ls::Error& e) {
      if (e.code() != ls::ErrorCode::peer) throw;
      state = here(state);
      processes = ls::distributed::live_processes();
      if (me == 0) std::printf("going on with %zu processes from step %d\n", processes.size(), state.step.item<int>());
    }
  }
  if (me == 0) std::printf("w is off by at most %.1e\n", np::max(np::abs(here(state).model.w - truth)).item<double>());
  ls::distributed::shutdown();
}

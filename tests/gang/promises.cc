// A user's program for tests: it joins its gang and does what its argument says, on the process that PROMISES_RANK
// names (1 by default); on the others it does what everybody is meant to do. Lines that errors have to name are marked.
#include <lockstep/lockstep.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/compile/program.h"  // clear_caches

namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::P;

namespace {

std::string act;
bool odd_one() {
  const char* rank = std::getenv("PROMISES_RANK");
  return ls::process_index() == (rank == nullptr ? 1 : std::atoi(rank));
}
bool odd(const char* what) { return act == what && odd_one(); }
std::chrono::milliseconds from_environment(const char* name, double otherwise) {
  const char* seconds = std::getenv(name);
  return std::chrono::milliseconds(static_cast<long>(1e3 * (seconds == nullptr ? otherwise : std::atof(seconds))));
}
void pass_time(double seconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(static_cast<long>(seconds * 1e3)));
}
void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void train(int steps) {
  const char* axis = odd("another_mesh") ? "rows" : "data";
  auto mesh = ls::make_mesh({{axis, -1}});
  const auto n = static_cast<std::int64_t>(mesh.size());
  ls::NamedSharding rows(mesh, P(axis));
  if (odd("bad_axis")) ls::NamedSharding(mesh, P("model"));                          // line: bad_axis
  if (odd("bad_size")) ls::device_put(np::ones({2 * n + 1, 2}), {mesh, P("data")});  // line: bad_size
  Array x = ls::device_put(np::ones({8 * n, 4}), rows);
  auto step = ls::jit([](Array w, Array x) { return w - 0.1 * np::mean(np::matmul(x, w)); });   // line: step
  auto other = ls::jit([](Array w, Array x) { return w - 0.2 * np::mean(np::matmul(x, w)); });  // line: another_program
  auto sum = ls::jit([](Array x) { return np::sum(x); });                                       // line: sum
  Array w = np::ones({4, 1});
  if (odd("another_shape")) w = np::ones({4, 3});
  if (odd("another_call")) ls::jit([](Array x) { return np::max(x); })(x);  // line: another_call
  if (odd("never_calls")) {
    ls::distributed::PhaseScope phase("loading data");
    pass_time(60);
  }
  sum(x);  // line: first_call
  auto again = ls::jit([](Array x) { return np::sum(x); });
  if (odd("remade")) {  // it has to make again what the others still have
    ls::compile::clear_caches();
    again(x);
  } else if (act == "remade") {
    sum(x);
  }
  if (odd("stops_calling_new")) pass_time(60);
  auto plain = ls::jit([](Array x) { return x + 1; });  // line: plain
  if (act == "another_number") plain(x);                // nothing that the others wait for
  if (odd("another_number")) plain(x);
  if (act == "swaps" || act == "skips") {  // both know all programs
    plain(x);
    step(w, x);
    other(w, x);
  }
  if (act == "threads") {  // that launch on one mesh without an order between them
    step(w, x);
    other(w, x);
    std::thread late([&] { pass_time(odd_one() ? 0.3 : 0), step(w, x).block_until_ready(); });
    std::thread early([&] { pass_time(odd_one() ? 0 : 0.3), other(w, x).block_until_ready(); });
    late.join();
    early.join();
  }
  for (int i = 0; i < steps; ++i) {
    if (act == "skips" && !(i == 3 && odd_one())) plain(x);
    if (odd("another_program"))
      w = other(w, x);
    else if (i == 3 && odd("swaps"))
      w = other(w, x);
    else
      w = step(w, x);
    w.block_until_ready();
    if (i == 2) say("training");
    if (i == 2 && odd("stops_calling")) pass_time(60);
    if (i == 2 && odd("throws")) throw std::runtime_error("no more cheese");
    if (i == 2 && odd("exits")) std::exit(7);
    if (i == 2 && odd("returns")) return;
    if (i == 2 && odd("_exits")) ::_exit(0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  act = argc > 1 ? argv[1] : "train";
  int steps = argc > 2 ? std::atoi(argv[2]) : 1000000;
  try {
    ls::distributed::initialize({.initialization_timeout = from_environment("PROMISES_INIT", 60),  // line: initialize
                                 .heartbeat_timeout = from_environment("PROMISES_HEARTBEAT", 100)});
  } catch (const ls::Error& e) {
    say(std::string("refused ") + to_string(e.code()) + ": " + e.what());
    return 4;
  }
  if (std::getenv("PROMISES_CATCH") == nullptr) {
    train(steps);
  } else {
    try {
      train(steps);
    } catch (const ls::Error& e) {
      say(std::string("caught ") + to_string(e.code()) + ": " + e.what());
      if (std::getenv("PROMISES_GO_ON") != nullptr) pass_time(60);
      return 3;
    }
  }
  ls::distributed::shutdown();
  say("done");
}

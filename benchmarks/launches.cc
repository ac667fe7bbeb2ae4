// What the comparison of launches costs in a warm step: the same step on two meshes of the same devices, of which one
// is compared and the other is not, in turns, in the same processes. Process 0 prints a JSON object per step:
//   {"name": "tiny", "seconds": [compared, without], "cpu_seconds": [..], "instructions": [..]}
// each per step and process; instructions are there if the kernel counts them. Under callgrind (launches.py) it counts.
// usage: launches [ROUNDS] [STEPS]
#include <linux/perf_event.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name)
#endif

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include "benchmarks/gpt.h"
#include "lockstep/runtime/gang.h"

namespace {

using namespace bench;
using Clock = std::chrono::steady_clock;

// Of all threads that this process will have; has to be opened first.
class Instructions {
 public:
  Instructions() {
    perf_event_attr what{};
    what.type = PERF_TYPE_HARDWARE;
    what.size = sizeof what;
    what.config = PERF_COUNT_HW_INSTRUCTIONS;
    what.inherit = 1;
    what.exclude_kernel = what.exclude_hv = 1;
    fd_ = static_cast<int>(::syscall(SYS_perf_event_open, &what, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  }
  double now() const {
    std::uint64_t count = 0;
    return fd_ >= 0 && ::read(fd_, &count, sizeof count) == sizeof count ? static_cast<double>(count) : 0;
  }

 private:
  int fd_ = -1;
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Sample {
  double seconds, cpu_seconds, instructions;
};
double median(std::vector<Sample> samples, double Sample::*part) {
  std::sort(samples.begin(), samples.end(), [&](auto& a, auto& b) { return a.*part < b.*part; });
  return samples[samples.size() / 2].*part;
}

// `steps[0]` is compared, `steps[1]` is not; each takes one step and waits for it.
void measure(const Instructions& instructions, const std::string& name, const std::function<void()> (&steps)[2],
             int rounds, int count) {
  for (auto& step : steps)
    for (int i = 0; i < 3; ++i) step();
  std::vector<Sample> samples[2];
  for (int round = 0; round < 2 * rounds; ++round) {
    int which = (round + round / 2) % 2;  // 0 1 1 0: neither gains by a drift
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    auto start = Clock::now();
    double cpu = cpu_seconds(), before = instructions.now();
    for (int i = 0; i < count; ++i) steps[which]();
    samples[which].push_back({std::chrono::duration<double>(Clock::now() - start).count() / count,
                              (cpu_seconds() - cpu) / count, (instructions.now() - before) / count});
    CALLGRIND_DUMP_STATS_AT((name + (which == 0 ? " compared " : " without ") + std::to_string(count)).c_str());
    CALLGRIND_STOP_INSTRUMENTATION;
  }
  if (ls::process_index() != 0) return;
  auto pair = [&](double Sample::*part) {
    char text[80];
    std::snprintf(text, sizeof text, "[%.9g, %.9g]", median(samples[0], part), median(samples[1], part));
    return std::string(text);
  };
  std::printf("{\"name\": \"%s\", \"seconds\": %s, \"cpu_seconds\": %s", name.c_str(), pair(&Sample::seconds).c_str(),
              pair(&Sample::cpu_seconds).c_str());
  if (instructions.now() > 0) std::printf(", \"instructions\": %s", pair(&Sample::instructions).c_str());
  std::printf("}\n");
  std::fflush(stdout);
}

void run(const Instructions& instructions, int rounds, int count) {
  ls::distributed::initialize();
  const ls::Mesh meshes[2] = {ls::make_mesh({{"compared", -1}}), ls::make_mesh({{"plain", -1}})};
  ls::runtime::channel(meshes[1]).do_not_compare();
  std::function<void()> steps[2];

  for (int i = 0; i < 2; ++i) {
    Array x = ls::device_put(np::ones({8 * ls::device_count(), 16}), {meshes[i], ls::P(i == 0 ? "compared" : "plain")});
    steps[i] = [x, f = ls::jit([](Array x) { return x + 0 * np::sum(x); }, {.name = "tiny"})]() mutable {
      x = f(x);
      x.block_until_ready();
    };
  }
  measure(instructions, "tiny", steps, rounds, count);

  GptConfig c{4, 128, 4, 256, 64};
  for (int i = 0; i < 2; ++i) {
    ls::NamedSharding everywhere(meshes[i], ls::P()), split(meshes[i], ls::P(i == 0 ? "compared" : "plain"));
    auto start = ls::jit(
        [&](Array key) {
          Gpt g = init(c, key);
          Gpt zero = ls::tree::map([](Array p) { return np::zeros_like(p); }, g);
          return State{g, zero, zero, np::zeros({}, ls::DType::float32)};
        },
        {.out_shardings = everywhere});
    std::mt19937 random(1);
    std::vector<std::int32_t> bytes(static_cast<std::size_t>(8 * (c.context + 1)));
    for (auto& b : bytes) b = static_cast<std::int32_t>(random() % 256);
    Array rows = ls::device_put(np::asarray(std::move(bytes), {8, c.context + 1}), split);
    steps[i] = [c, rows, state = start(ls::random::key(0)),
                f = ls::jit([c](State s, Array r) { return step(c, s, r); },
                            {.donate_argnums = {0}, .out_shardings = {everywhere, everywhere}})]() mutable {
      Array value;
      std::tie(state, value) = f(std::move(state), rows);
      value.block_until_ready();
    };
  }
  measure(instructions, "gpt", steps, rounds, std::max(count / 100, 2));
  for (auto& step : steps) step = nullptr;
  ls::distributed::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  Instructions instructions;
  try {
    run(instructions, argc > 1 ? std::atoi(argv[1]) : 20, argc > 2 ? std::atoi(argv[2]) : 1000);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

// What the comparison of launches costs in a warm step: the same step on two meshes of the same devices, of which one
// is compared and the other is not, in turns, in the same processes. Process 0 prints a JSON object per step:
//   {"name": "tiny", "seconds": [without, ratio], "cpu_seconds": [..], "instructions": [..]}
// each per step and process; instructions are there if the kernel counts them. Under callgrind (launches.py) it counts.
// usage: launches tiny|gpt ROUNDS STEPS
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
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// `steps[0]` is compared, `steps[1]` is not; each takes one step and waits for it. Blocks of `count` steps, short
// enough that what else the machine does meets both alike; the ratio is the median of those of neighbours.
void measure(const Instructions& instructions, const std::string& name, const std::function<void()> (&steps)[2],
             int rounds, int count) {
  for (auto& step : steps)
    for (int i = 0; i < 3; ++i) step();
  std::vector<Sample> samples[2];
  static const std::string labels[2] = {"compared", "without"};  // valgrind reads them later
  for (int block = 0; block < 4 * rounds; ++block) {
    int which = (block + block / 2) % 2;  // 0 1 1 0: neither gains by a drift
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    auto start = Clock::now();
    double cpu = cpu_seconds(), before = instructions.now();
    for (int i = 0; i < count; ++i) steps[which]();
    samples[which].push_back({std::chrono::duration<double>(Clock::now() - start).count() / count,
                              (cpu_seconds() - cpu) / count, (instructions.now() - before) / count});
    CALLGRIND_DUMP_STATS_AT(labels[which].c_str());
    CALLGRIND_STOP_INSTRUMENTATION;
  }
  if (ls::process_index() != 0) return;
  auto compare = [&](double Sample::*part) {
    std::vector<double> without, ratios;
    for (int round = 0; round < rounds; ++round) {
      auto sum = [&](int which) { return samples[which][2 * round].*part + samples[which][2 * round + 1].*part; };
      without.push_back(sum(1) / 2);
      ratios.push_back(sum(0) / sum(1));
    }
    char text[80];
    std::snprintf(text, sizeof text, "[%.9g, %.6f]", median(without), median(ratios));
    return std::string(text);
  };
  std::printf("{\"name\": \"%s\", \"seconds\": %s, \"cpu_seconds\": %s", name.c_str(),
              compare(&Sample::seconds).c_str(), compare(&Sample::cpu_seconds).c_str());
  if (instructions.now() > 0) std::printf(", \"instructions\": %s", compare(&Sample::instructions).c_str());
  std::printf("}\n");
  std::fflush(stdout);
}

// An array and a sum over it: next to nothing but the launch and its collective.
std::function<void()> tiny_step(const ls::Mesh& mesh) {
  Array x = ls::device_put(np::ones({8 * ls::device_count(), 16}), {mesh, ls::P("data")});
  return [x, f = ls::jit([](Array x) { return x + 0 * np::sum(x); }, {.name = "tiny"})]() mutable {
    x = f(x);
    x.block_until_ready();
  };
}

std::function<void()> gpt_step(const ls::Mesh& mesh) {
  GptConfig c{4, 128, 4, 256, 64};
  ls::NamedSharding everywhere(mesh, ls::P()), split(mesh, ls::P("data"));
  return [c, rows = random_rows(c, 8, split), state = initial_state(c, everywhere),
          f = ls::jit([c](State s, Array r) { return step(c, s, r); },
                      {.donate_argnums = {0}, .out_shardings = {everywhere, everywhere}})]() mutable {
    Array value;
    std::tie(state, value) = f(std::move(state), rows);
    value.block_until_ready();
  };
}

void run(const Instructions& instructions, const std::string& name, int rounds, int count) {
  ls::distributed::initialize();
  // Two meshes of the same devices; launches on the second are not compared.
  const ls::Mesh meshes[2] = {ls::make_mesh({{"data", -1}}), ls::make_mesh({{"data", -1}, {"one", 1}})};
  ls::runtime::channel(meshes[1]).do_not_compare();
  {
    auto make = name == "tiny" ? tiny_step : gpt_step;
    std::function<void()> steps[2] = {make(meshes[0]), make(meshes[1])};
    measure(instructions, name, steps, rounds, count);
  }
  ls::distributed::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  std::string name = argc == 4 ? argv[1] : "";
  if (name != "tiny" && name != "gpt") return std::fprintf(stderr, "usage: launches tiny|gpt ROUNDS STEPS\n"), 2;
  Instructions instructions;
  try {
    run(instructions, name, std::atoi(argv[2]), std::atoi(argv[3]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

#include "tools/doctor.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "lockstep/collectives/tcp_rendezvous.h"
#include "lockstep/distributed/address.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/cluster.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/support/error.h"
#include "tools/probe_link.h"

namespace lockstep::tools {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr double clocks_differ = 0.1;        // seconds: logs of several hosts can't be put in order any more
constexpr double slow_latency_factor = 10;   // against the median of all pairs
constexpr double slow_latency_floor = 2e-3;  // below this none is called slow
constexpr double slow_bandwidth_factor = 4;
constexpr std::size_t most_pairs_shown = 120;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::string duration(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.1f} s", seconds);
}
std::string rate(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.0f} MB/s", bytes / 1e6) : fmt::format("{:.1f} GB/s", bytes / 1e9);
}

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

// Who meets whom in which round: every process is in one pair of a round at most.
std::vector<std::vector<std::pair<int, int>>> tournament(int n) {
  int slots = n + n % 2;
  std::vector<std::vector<std::pair<int, int>>> rounds;
  for (int r = 0; r + 1 < slots; ++r) {
    auto& round = rounds.emplace_back();
    for (int i = 0; i < slots / 2; ++i) {
      auto seat = [&](int k) { return k == 0 ? 0 : 1 + (k - 1 + r) % (slots - 1); };
      int a = seat(i), b = seat(slots - 1 - i);
      if (a < n && b < n) round.emplace_back(std::min(a, b), std::max(a, b));
    }
  }
  return rounds;
}

std::string host_of(const std::string& address) { return distributed::parse_address(address, "doctor").host; }

// The address under which the others reach this process. For process 0 that is what they take the coordinator's name
// for, which its own resolver may tell otherwise.
std::string own_address(const std::string& coordinator, int process, int count, milliseconds timeout,
                        std::vector<std::string>& problems) {
  auto kv = distributed::kv();
  std::string error;
  auto here = distributed::resolve(distributed::parse_address(coordinator, "doctor"), error);
  std::string resolved = here.empty() ? "" : host_of(here.front().numeric);
  kv.set(fmt::format("doctor/coordinator/{}", process), resolved);
  if (process != 0) return collectives::address_towards(resolved);
  std::map<std::string, std::vector<int>> seen;
  for (int p = 1; p < count; ++p) seen[kv.get(fmt::format("doctor/coordinator/{}", p), timeout)].push_back(p);
  if (seen.size() > 1) {
    std::string text = fmt::format("the coordinator's name, {}, stands for different addresses:", host_of(coordinator));
    for (auto& [address, processes] : seen)
      text += fmt::format(" {} on process {};", address, distributed::process_ranges(processes));
    text.back() = '.';
    problems.push_back(text);
  }
  return seen.empty() ? resolved : seen.begin()->first;
}

json to_json(const PairReport& p) { return {p.a, p.b, p.latency, p.there, p.back, p.error}; }
PairReport pair_of(const json& j) { return {j[0], j[1], j[2], j[3], j[4], j[5]}; }

std::string who(const ClusterReport& report, int process) {
  return fmt::format("process {} ({})", process, report.hosts[static_cast<std::size_t>(process)].host);
}

}  // namespace

std::vector<std::string> diagnose(const ClusterReport& report) {
  std::vector<std::string> problems = report.problems;
  std::vector<double> latencies, rates;
  for (auto& p : report.pairs) {
    if (!p.error.empty()) continue;
    latencies.push_back(p.latency);
    rates.insert(rates.end(), {p.there, p.back});
  }
  double usual_latency = median(latencies), usual_rate = median(rates);
  for (auto& p : report.pairs) {
    std::string pair = fmt::format("{} and {}", who(report, p.a), who(report, p.b));
    if (!p.error.empty()) {
      problems.push_back(fmt::format("{}: {}", pair, p.error));
      continue;
    }
    if (p.latency > slow_latency_floor && p.latency > slow_latency_factor * usual_latency)
      problems.push_back(fmt::format("{}: {} there and back, where {} is usual here", pair, duration(p.latency),
                                     duration(usual_latency)));
    for (auto [from, to, bytes] : {std::tuple{p.a, p.b, p.there}, std::tuple{p.b, p.a, p.back}})
      if (bytes * slow_bandwidth_factor < usual_rate)
        problems.push_back(fmt::format("from {} to {}: {}, where {} is usual here", who(report, from), who(report, to),
                                       rate(bytes), rate(usual_rate)));
  }
  for (std::size_t p = 0; p < report.hosts.size(); ++p) {
    auto& host = report.hosts[p];
    if (std::abs(host.clock_offset) > clocks_differ + host.clock_error)
      problems.push_back(fmt::format("the clock of {} is {} {} process 0's", who(report, static_cast<int>(p)),
                                     duration(std::abs(host.clock_offset)),
                                     host.clock_offset > 0 ? "ahead of" : "behind"));
  }
  return problems;
}

std::string to_text(const ClusterReport& report) {
  std::string text =
      fmt::format("{:<8} {:<24} {:<24} {:>7} {:>6} {:>12}\n", "process", "host", "address", "pid", "cores", "clock");
  for (std::size_t p = 0; p < report.hosts.size(); ++p) {
    auto& h = report.hosts[p];
    std::string clock =
        p == 0 ? "-" : fmt::format("{}{}", h.clock_offset < 0 ? "-" : "+", duration(std::abs(h.clock_offset)));
    text += fmt::format("{:<8} {:<24} {:<24} {:>7} {:>6} {:>12}\n", p, h.host, h.address, h.pid, h.cores, clock);
  }
  auto pairs = report.pairs;
  text += fmt::format("\n{:<12} {:>12} {:>12} {:>12}\n", "pair", "round trip", "there", "back");
  if (pairs.size() > most_pairs_shown) {
    std::sort(pairs.begin(), pairs.end(),
              [](auto& x, auto& y) { return std::min(x.there, x.back) < std::min(y.there, y.back); });
    text += fmt::format("(the slowest {} of {})\n", most_pairs_shown, pairs.size());
    pairs.resize(most_pairs_shown);
  }
  for (auto& p : pairs) {
    text += fmt::format("{:<12} ", fmt::format("{} - {}", p.a, p.b));
    text += p.error.empty() ? fmt::format("{:>12} {:>12} {:>12}\n", duration(p.latency), rate(p.there), rate(p.back))
                            : p.error + "\n";
  }
  auto problems = diagnose(report);
  text += problems.empty() ? "\nnothing is wrong\n" : fmt::format("\n{} wrong:\n", problems.size());
  for (auto& problem : problems) text += "  " + problem + "\n";
  return text;
}

int examine(const DoctorOptions& options) {
  auto place = distributed::find_place({}, [](const char* name) -> const char* { return std::getenv(name); });
  distributed::initialize({.initialization_timeout = options.timeout,
                           .heartbeat_timeout = std::max<milliseconds>(options.timeout, std::chrono::seconds(10)),
                           .shutdown_timeout = options.timeout});
  int me = distributed::process_index(), n = distributed::process_count();
  if (n < 2) {
    fmt::print(
        "this process is alone: nothing to examine. Say --hosts A,B or -n N, or start one `lockstep doctor` in "
        "each place with the cluster's own launcher (srun lockstep doctor).\n");
    return 2;
  }
  auto kv = distributed::kv();
  ClusterReport report;
  std::string address = own_address(place.address, me, n, options.timeout, report.problems);
  if (me == 0)
    kv.set("doctor/secret", distributed::client().members()[0].machine + std::to_string(std::random_device{}()));
  std::string secret = kv.get("doctor/secret", options.timeout);
  ProbeServer server(secret);
  kv.set(fmt::format("doctor/host/{}", me), json{address, server.port(), usable_cores()}.dump());
  std::vector<std::pair<std::string, int>> doors;
  for (int p = 0; p < n; ++p) {
    json j = json::parse(kv.get(fmt::format("doctor/host/{}", p), options.timeout));
    auto& member = distributed::client().members()[static_cast<std::size_t>(p)];
    doors.emplace_back(j[0], j[1]);
    report.hosts.push_back({.host = member.host, .address = j[0], .pid = member.pid, .cores = j[2]});
  }
  int number = 0;
  for (auto& round : tournament(n)) {
    // Rounds do not overlap, so that no pair's figures are spoilt by another's of the same process.
    distributed::barrier(fmt::format("doctor/round {}", number++), options.timeout * 4);
    for (auto [a, b] : round) {
      if (a != me) continue;
      auto& [host, port] = doors[static_cast<std::size_t>(b)];
      LinkReport link = probe_link(host, port, secret, options.transfer,
                                   std::min<milliseconds>(options.timeout, std::chrono::seconds(5)));
      kv.set(fmt::format("doctor/pair/{}-{}", a, b),
             to_json({a, b, link.latency, link.there, link.back, link.error}).dump());
      if (a == 0) {
        report.hosts[static_cast<std::size_t>(b)].clock_offset = link.clock_offset;
        report.hosts[static_cast<std::size_t>(b)].clock_error = link.clock_error;
      }
    }
  }
  distributed::barrier("doctor/measured", options.timeout * 4);
  if (me == 0) {
    for (int a = 0; a < n; ++a)
      for (int b = a + 1; b < n; ++b)
        report.pairs.push_back(pair_of(json::parse(kv.get(fmt::format("doctor/pair/{}-{}", a, b), options.timeout))));
    fmt::print("{}", to_text(report));
    std::fflush(stdout);
    kv.set("doctor/verdict", diagnose(report).empty() ? "0" : "1");
  }
  int verdict = std::atoi(kv.get("doctor/verdict", options.timeout).c_str());
  distributed::shutdown();
  return verdict;
}

}  // namespace lockstep::tools

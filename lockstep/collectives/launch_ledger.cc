#include "lockstep/collectives/launch_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

namespace lockstep::collectives {
namespace {

// What fits into a control frame; a peer can't have come so far ahead, since collectives hold it back.
constexpr std::size_t kMaxRecords = 128;
constexpr std::size_t kMaxClaims = 4096, kMaxName = 200;

bool differ(std::uint64_t a, std::uint64_t b) { return a != 0 && b != 0 && a != b; }
bool differ(LaunchStamp a, LaunchStamp b) { return differ(a.history, b.history) || differ(a.program, b.program); }

std::uint64_t mixed(std::uint64_t digest, std::uint64_t program) {
  std::uint64_t h = (digest ^ program) * 0x9e3779b97f4a7c15ull;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93ull;
  h ^= h >> 32;
  return h == 0 ? 1 : h;
}

struct Line {
  std::uint64_t program;
  std::string_view what;
};
using History = std::map<std::uint64_t, Line>;

// Lines of "launch program what"; those that make no sense are left out.
History parse(std::string_view text) {
  History out;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    std::uint64_t launch, program;
    auto [after, error] = std::from_chars(line.data(), line.data() + line.size(), launch);
    if (error != std::errc() || after == line.data() + line.size()) continue;
    auto [end, wrong] = std::from_chars(after + 1, line.data() + line.size(), program, 16);
    if (wrong != std::errc() || end == line.data() + line.size()) continue;
    out[launch] = {program, line.substr(static_cast<std::size_t>(end + 1 - line.data()))};
  }
  return out;
}

}  // namespace

bool LaunchLedger::intended(std::uint64_t program) const {
  auto same = [&](const LaunchedProgram& p) { return !differ(p.id, program); };
  return intents_.empty() || std::any_of(intents_.begin(), intents_.end(), same);
}

std::optional<int> LaunchLedger::begin(LaunchedProgram program) {
  Record record{{digest_, program.id}, std::move(program)};
  std::optional<int> other;
  std::erase_if(claims_, [&](const Claim& claim) {
    if (claim.launch == next_ && differ(claim.stamp, record.stamp)) other = claim.peer;
    return claim.launch <= next_;
  });
  digest_ = mixed(digest_, record.stamp.program);
  records_.push_back(std::move(record));
  if (records_.size() > kMaxRecords) records_.pop_front();
  ++next_;
  return other;
}

std::optional<int> LaunchLedger::intend(LaunchedProgram program) {
  intents_.push_back(std::move(program));
  for (const Claim& claim : claims_) {
    if (claim.launch == next_ && !intended(claim.stamp.program)) return claim.peer;
  }
  return std::nullopt;
}

void LaunchLedger::end_intent(std::uint64_t program) {
  auto it = std::find_if(intents_.begin(), intents_.end(), [&](const auto& p) { return p.id == program; });
  if (it != intents_.end()) intents_.erase(it);
}

LaunchStamp LaunchLedger::stamp(std::uint64_t launch) const {
  if (launch >= next_ || next_ - launch > records_.size()) return {};
  return records_[records_.size() - static_cast<std::size_t>(next_ - launch)].stamp;
}

bool LaunchLedger::check(int peer, std::uint64_t launch, LaunchStamp stamp) {
  if (launch < next_) return !differ(this->stamp(launch), stamp);
  bool known = std::any_of(claims_.begin(), claims_.end(),
                           [&](const Claim& claim) { return claim.launch == launch && claim.peer == peer; });
  if (!known && claims_.size() < kMaxClaims) claims_.push_back({launch, peer, stamp});
  if (launch > next_) return true;
  return !differ(digest_, stamp.history) && intended(stamp.program);
}

std::string LaunchLedger::text() const {
  std::string out;
  auto add = [&](std::uint64_t launch, const LaunchedProgram& p) {
    std::string_view name = p.name ? std::string_view(*p.name) : "a program";
    fmt::format_to(std::back_inserter(out), "{} {:x} {}", launch, p.id, name.substr(0, kMaxName));
    if (std::string where = to_string(p.where); !where.empty()) out += " (" + where + ")";
    out += '\n';
  };
  std::uint64_t launch = next_ - records_.size();
  for (const Record& r : records_) add(launch++, r.program);
  for (const LaunchedProgram& p : intents_) add(launch, p);
  return out;
}

std::string explain(const std::vector<std::pair<std::string, std::string>>& histories) {
  std::vector<History> parsed;
  std::uint64_t first = 0;  // that all remember, or would
  std::set<std::uint64_t> launches;
  for (const auto& [name, text] : histories) {
    parsed.push_back(parse(text));
    if (parsed.back().empty()) continue;
    first = std::max(first, parsed.back().begin()->first);
    for (const auto& [launch, line] : parsed.back()) launches.insert(launch);
  }
  launches.erase(launches.begin(), launches.lower_bound(first));
  for (std::uint64_t launch : launches) {
    std::map<std::uint64_t, std::vector<std::size_t>> programs;
    std::vector<std::size_t> absent;
    for (std::size_t i = 0; i < parsed.size(); ++i) {
      auto it = parsed[i].find(launch);
      if (it == parsed[i].end()) {
        absent.push_back(i);
      } else if (it->second.program != 0) {
        programs[it->second.program].push_back(i);
      }
    }
    if (programs.size() < 2) continue;
    std::string out = fmt::format("launch {} differs: ", launch), separator;
    std::vector<std::pair<std::uint64_t, std::vector<std::size_t>>> groups(programs.begin(), programs.end());
    std::sort(groups.begin(), groups.end(), [](auto& a, auto& b) { return a.second.front() < b.second.front(); });
    for (const auto& [program, processes] : groups) {
      std::vector<std::string> names;
      for (std::size_t i : processes) names.push_back(histories[i].first);
      out += fmt::format("{}{} launch{} {}", separator, fmt::join(names, ", "), names.size() == 1 ? "es" : "",
                         parsed[processes.front()].at(launch).what);
      separator = "; ";
    }
    for (std::size_t i : absent) out += fmt::format("; {} has not come so far", histories[i].first);
    return out;
  }
  std::string out = "the programs that they launched differ: ", separator;
  for (std::size_t i = 0; i < parsed.size(); ++i) {
    out += fmt::format("{}{} ", separator, histories[i].first);
    if (parsed[i].empty()) {
      out += "has launched nothing";
    } else {
      out += fmt::format("launched {} last, as launch {}", parsed[i].rbegin()->second.what, parsed[i].rbegin()->first);
    }
    separator = "; ";
  }
  return out;
}

}  // namespace lockstep::collectives

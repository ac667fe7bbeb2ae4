#include "lockstep/distributed/phase.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "lockstep/support/location.h"

namespace lockstep::distributed {
namespace {

using Clock = std::chrono::steady_clock;
struct Entry {
  std::uint64_t id;
  std::string text;
  Clock::time_point since;
};
struct Phases {
  std::mutex mutex;
  std::uint64_t next = 1;
  std::vector<Entry> open;
  Clock::time_point outside_since = Clock::now();
};
Phases& phases() {
  static auto* p = new Phases;  // immortal
  return *p;
}

}  // namespace

PhaseScope::PhaseScope(std::string text) {
  if (LocationId where = current_location()) text += " (" + lockstep::to_string(where) + ")";
  Phases& p = phases();
  std::lock_guard lock(p.mutex);
  id_ = p.next++;
  p.open.push_back({id_, std::move(text), Clock::now()});
}

PhaseScope::~PhaseScope() {
  Phases& p = phases();
  std::lock_guard lock(p.mutex);
  std::erase_if(p.open, [&](const Entry& e) { return e.id == id_; });
  if (p.open.empty()) p.outside_since = Clock::now();
}

PhaseNow current_phase() {
  Phases& p = phases();
  std::lock_guard lock(p.mutex);
  auto age = [](Clock::time_point since) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
  };
  if (p.open.empty()) return {"host code", age(p.outside_since)};
  return {p.open.back().text, age(p.open.back().since)};
}

}  // namespace lockstep::distributed

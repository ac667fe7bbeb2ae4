#include "lockstep/runtime/placement.h"

#include <set>

#include "lockstep/runtime/backend.h"
#include "lockstep/support/config.h"

namespace lockstep {

Placement::Placement(const Sharding& s) {
  if (s.mesh() && s.mesh().gang() != config::gang()) throw_gang_left("sharding", to_string(s));
  const runtime::Backend& b = runtime::backend();
  std::set<int> processes;
  auto ids = s.device_ids();
  for (std::size_t p = 0; p < ids.size(); ++p) {
    processes.insert(b.device(ids[p]).process_index);
    if (int device = b.local_index(ids[p]); device >= 0) local_.push_back({static_cast<std::int64_t>(p), device});
  }
  processes_.assign(processes.begin(), processes.end());
  fully_addressable_ = local_.size() == ids.size();
}

const Placement& Placement::of(const Sharding& s) {
  if (const Placement* p = s.placement_.load(std::memory_order_acquire)) return *p;
  auto* made = new Placement(s);
  const Placement* expected = nullptr;
  if (s.placement_.compare_exchange_strong(expected, made, std::memory_order_acq_rel)) return *made;
  delete made;
  return *expected;
}

namespace runtime {

const Sharding& sharding_of(const ConcreteArray& a) {
  if (a.sharding() != nullptr) return *a.sharding();
  return backend().default_sharding();
}
const Sharding* stored_sharding(const Sharding& s) { return &s == &backend().default_sharding() ? nullptr : &s; }
bool is_fully_addressable(const ConcreteArray& a) {
  return a.sharding() == nullptr || Placement::of(*a.sharding()).is_fully_addressable();
}

}  // namespace runtime
}  // namespace lockstep

#include "lockstep/collectives/store.h"

#include "lockstep/support/error.h"

namespace lockstep::collectives {

void MemoryStore::set(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  values_[key] = value;
  changed_.notify_all();
}

std::string MemoryStore::get(const std::string& key, std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, deadline, [&] { return values_.count(key) > 0; })) {
    throw_error(ErrorCode::timeout, "store", "nobody has set the key {}", key);
  }
  return values_[key];
}

}  // namespace lockstep::collectives

#include "lockstep/core/params.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace lockstep {

const Params* intern_params(std::unique_ptr<Params> p) {
  static auto* mutex = new std::mutex;
  static auto* table = new std::unordered_multimap<std::size_t, const Params*>;
  thread_local std::unordered_multimap<std::size_t, const Params*> cache;
  std::size_t h = p->hash();
  auto find = [&](auto& map) -> const Params* {
    auto [begin, end] = map.equal_range(h);
    for (auto it = begin; it != end; ++it)
      if (it->second->equal(*p)) return it->second;
    return nullptr;
  };
  if (auto* hit = find(cache)) return hit;
  std::lock_guard lock(*mutex);
  const Params* found = find(*table);
  if (found == nullptr) {
    p->interned_ = true;
    found = p.release();
    table->emplace(h, found);
  }
  cache.emplace(h, found);
  return found;
}

}  // namespace lockstep

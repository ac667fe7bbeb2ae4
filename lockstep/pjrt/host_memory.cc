#include "lockstep/pjrt/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <set>
#include <string_view>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/imports.h"
#include "lockstep/support/error.h"

namespace lockstep::pjrt {
namespace {

constexpr std::size_t kLargePage = std::size_t{2} << 20;  // of x86 and of ARM with 4 KiB pages
constexpr std::size_t kGranule = std::size_t{64} << 10;   // of smaller blocks

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) / unit * unit; }

// Most addresses are none, so that free() seldom takes the lock.
bool may_be_block(void* address) {
  return address != nullptr && reinterpret_cast<std::uintptr_t>(address) % kGranule == 0;
}

void* map(std::size_t size, std::size_t alignment) {
  void* all = ::mmap(nullptr, size + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<std::uintptr_t>(all), block = round_up(start, alignment);
  if (block > start) ::munmap(all, block - start);
  if (std::size_t after = start + alignment - block; after > 0) ::munmap(reinterpret_cast<void*>(block + size), after);
  if (alignment >= kLargePage) ::madvise(reinterpret_cast<void*>(block), size, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(block);
}

HostMemory* memory = nullptr;  // of all plugins; set before the first of them calls here

int take(void** out, std::size_t alignment, std::size_t size) {
  bool ours = size >= HostMemory::kSmallest && alignment <= HostMemory::alignment_of(size);
  void* block = ours ? memory->allocate(size) : nullptr;
  if (block == nullptr) return ::posix_memalign(out, alignment, size);
  *out = block;
  return 0;
}

void give(void* block) {
  int before = errno;  // which free() leaves alone
  if (!memory->release(block)) ::free(block);
  errno = before;
}

void* resize(void* block, std::size_t size) {
  std::size_t before = memory->size_of(block);
  if (before == 0) return ::realloc(block, size);
  void* moved = size == 0 ? nullptr : ::malloc(size);
  if (moved != nullptr) std::memcpy(moved, block, std::min(size, before));
  if (moved != nullptr || size == 0) memory->release(block);
  return moved;
}

std::size_t limit() {
  if (const char* text = std::getenv("LOCKSTEP_HOST_CACHE"); text != nullptr && *text != '\0') {
    std::string_view all = text;
    std::size_t bytes = 0;
    auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), bytes);
    if (error != std::errc() || end != all.data() + all.size())
      throw_error(ErrorCode::invalid_argument, "LOCKSTEP_HOST_CACHE", "'{}' is no number of bytes", all);
    return bytes;
  }
  return static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 4;
}

}  // namespace

std::size_t HostMemory::alignment_of(std::size_t size) { return size < 2 * kLargePage ? kGranule : kLargePage; }

void* HostMemory::allocate(std::size_t size) {
  std::size_t alignment = alignment_of(size);
  size = round_up(size, alignment);
  std::lock_guard lock(mutex_);
  if (auto kept = fitting_locked(size); kept != by_size_.end()) {
    Block block = remove_locked(kept);
    used_.emplace(block.address, block.size);
    return block.address;
  }
  void* block = map(size, alignment);
  if (block == nullptr) {
    trim_locked(0);
    block = map(size, alignment);
  }
  if (block != nullptr) used_.emplace(block, size);
  return block;
}

// The smallest that is large enough and no more than a quarter too large; of equals the latest, which may be in a
// cache.
HostMemory::BySize::iterator HostMemory::fitting_locked(std::size_t size) {
  auto least = by_size_.lower_bound(size);
  if (least == by_size_.end() || least->first - size > size / 4) return by_size_.end();
  return std::prev(by_size_.upper_bound(least->first));
}

HostMemory::Block HostMemory::remove_locked(BySize::iterator kept) {
  Block block = *kept->second;
  if (block.warm) warm_bytes_ -= block.size;
  kept_bytes_ -= block.size;
  (block.warm ? warm_ : cold_).erase(kept->second);
  by_size_.erase(kept);
  return block;
}

bool HostMemory::release(void* address) {
  if (!may_be_block(address)) return false;
  std::lock_guard lock(mutex_);
  auto it = used_.find(address);
  if (it == used_.end()) return false;
  std::size_t size = it->second;
  used_.erase(it);
  if (size > limit_) {
    ::munmap(address, size);
    return true;
  }
  bool warm = size <= kWarm / 8;
  Blocks& blocks = warm ? warm_ : cold_;
  blocks.push_back({address, size, ++frees_, warm});
  by_size_.emplace(size, std::prev(blocks.end()));
  kept_bytes_ += size;
  if (warm) warm_bytes_ += size;
  if (!warm) ::madvise(address, size, MADV_FREE);
  for (; warm_bytes_ > kWarm; cold_.splice(cold_.end(), warm_, warm_.begin())) {
    Block& oldest = warm_.front();
    ::madvise(oldest.address, oldest.size, MADV_FREE);
    oldest.warm = false;
    warm_bytes_ -= oldest.size;
  }
  trim_locked(limit_);
  return true;
}

std::size_t HostMemory::size_of(void* address) {
  if (!may_be_block(address)) return 0;
  std::lock_guard lock(mutex_);
  auto it = used_.find(address);
  return it == used_.end() ? 0 : it->second;
}

void HostMemory::trim(std::size_t keep) {
  std::lock_guard lock(mutex_);
  trim_locked(keep);
}

void HostMemory::trim_locked(std::size_t keep) {
  while (kept_bytes_ > keep) {
    bool warm = cold_.empty() || (!warm_.empty() && warm_.front().freed < cold_.front().freed);
    std::size_t size = (warm ? warm_ : cold_).front().size;
    Block oldest = remove_locked(by_size_.lower_bound(size));  // of this size too it is the oldest
    ::munmap(oldest.address, oldest.size);
  }
}

std::size_t HostMemory::kept_bytes() {
  std::lock_guard lock(mutex_);
  return kept_bytes_;
}

HostMemory* recycled_host_memory() { return memory; }

bool recycle_host_memory(const Plugin& plugin) {
  if (kSanitized) return false;
  static std::mutex mutex;
  static std::set<const Plugin*> done;
  std::lock_guard lock(mutex);
  std::size_t most = limit();
  if (done.count(&plugin) > 0) return true;
  if (most == 0) return false;
  if (memory == nullptr) memory = new HostMemory(most);
  // free() first: no block may exist that the plugin could not free.
  void* inside = reinterpret_cast<void*>(plugin.api()->PJRT_Client_Create);
  bool changed = redirect_import(inside, "free", reinterpret_cast<void*>(&give)) &&
                 redirect_import(inside, "posix_memalign", reinterpret_cast<void*>(&take));
  redirect_import(inside, "realloc", reinterpret_cast<void*>(&resize));
  if (changed) done.insert(&plugin);
  return changed;
}

}  // namespace lockstep::pjrt

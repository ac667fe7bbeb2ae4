#include "lockstep/pjrt/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/imports.h"
#include "lockstep/support/error.h"

namespace lockstep::pjrt {
namespace {

constexpr std::size_t kPage = std::size_t{2} << 20;  // a large page of x86 and of ARM with 4 KiB pages

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

std::size_t round_up(std::size_t size) { return (size + kPage - 1) / kPage * kPage; }

// Most addresses are none, so that free() seldom takes the lock.
bool may_be_block(void* address) {
  return address != nullptr && reinterpret_cast<std::uintptr_t>(address) % kPage == 0;
}

void* map(std::size_t size) {
  void* all = ::mmap(nullptr, size + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  auto start = reinterpret_cast<std::uintptr_t>(all), block = round_up(start);
  if (block > start) ::munmap(all, block - start);
  if (std::size_t after = start + kPage - block; after > 0) ::munmap(reinterpret_cast<void*>(block + size), after);
  ::madvise(reinterpret_cast<void*>(block), size, MADV_HUGEPAGE);
  return reinterpret_cast<void*>(block);
}

HostMemory* memory = nullptr;  // of all plugins; set before the first of them calls here

int take(void** out, std::size_t alignment, std::size_t size) {
  if (size < HostMemory::kSmallest || alignment > kPage) return ::posix_memalign(out, alignment, size);
  void* block = memory->allocate(size);
  if (block == nullptr) return ENOMEM;
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

void* HostMemory::allocate(std::size_t size) {
  size = round_up(size);
  std::lock_guard lock(mutex_);
  auto best = kept_.end();
  for (auto it = kept_.begin(); it != kept_.end(); ++it)
    if (it->size >= size && it->size - size <= size / 4 && (best == kept_.end() || it->size <= best->size)) best = it;
  Block block{nullptr, size};
  if (best != kept_.end()) {
    block = *best;
    kept_bytes_ -= block.size;
    kept_.erase(best);
  } else {
    block.address = map(size);
    if (block.address == nullptr) {
      trim_locked(0);
      block.address = map(size);
    }
    if (block.address == nullptr) return nullptr;
  }
  used_.push_back(block);
  return block.address;
}

std::vector<HostMemory::Block>::iterator HostMemory::find_locked(void* address) {
  return std::find_if(used_.begin(), used_.end(), [&](const Block& b) { return b.address == address; });
}

bool HostMemory::release(void* address) {
  if (!may_be_block(address)) return false;
  std::lock_guard lock(mutex_);
  auto it = find_locked(address);
  if (it == used_.end()) return false;
  Block block = *it;
  *it = used_.back();
  used_.pop_back();
  if (block.size > limit_) {
    ::munmap(block.address, block.size);
    return true;
  }
  ::madvise(block.address, block.size, MADV_FREE);
  kept_.push_back(block);
  kept_bytes_ += block.size;
  trim_locked(limit_);
  return true;
}

std::size_t HostMemory::size_of(void* address) {
  if (!may_be_block(address)) return 0;
  std::lock_guard lock(mutex_);
  auto it = find_locked(address);
  return it == used_.end() ? 0 : it->size;
}

void HostMemory::trim(std::size_t keep) {
  std::lock_guard lock(mutex_);
  trim_locked(keep);
}

void HostMemory::trim_locked(std::size_t keep) {
  auto end = kept_.begin();
  for (; end != kept_.end() && kept_bytes_ > keep; ++end) {
    ::munmap(end->address, end->size);
    kept_bytes_ -= end->size;
  }
  kept_.erase(kept_.begin(), end);
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

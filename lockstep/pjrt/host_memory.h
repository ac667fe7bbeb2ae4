// Blocks of host memory for the CPU plugin, kept when they are freed and given out again. XLA takes the scratch memory
// and the results of a program at each launch and frees them later; from the C library such a block is often mapped
// anew each time, and the kernel clears all of its pages again, which is an eighth of a training step of several
// hundred megabytes, and most of the time of an element-wise program of a megabyte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

#include "lockstep/pjrt/plugin.h"

namespace lockstep::pjrt {

// Thread-safe.
class HostMemory {
 public:
  static constexpr std::size_t kSmallest = std::size_t{128} << 10;  // smaller blocks are the C library's affair
  // The latest so many bytes of blocks up to an eighth of this stay as they are when they are kept; the rest the kernel
  // may take back when memory is short, which it has to be told.
  static constexpr std::size_t kWarm = std::size_t{64} << 20;

  // Keeps at most `limit` bytes for reuse; the blocks longest unused go first.
  explicit HostMemory(std::size_t limit) : limit_(limit) {}
  ~HostMemory() { trim(0); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Of at least `size` bytes, kSmallest or more, aligned to alignment_of(size); null if there is no memory. Contents
  // are arbitrary.
  void* allocate(std::size_t size);
  // False if `block` is none of these; then nothing has happened.
  bool release(void* block);
  static std::size_t alignment_of(std::size_t size);  // 64 KiB, 2 MiB for 4 MiB and more
  // The size of a block that is given out; 0 if it is none of these.
  std::size_t size_of(void* block);
  // Gives back to the system until at most `keep` bytes are kept.
  void trim(std::size_t keep);
  std::size_t kept_bytes();

 private:
  struct Block {
    void* address;
    std::size_t size;
    std::uint64_t freed;  // rises
    bool warm;
  };
  using Blocks = std::list<Block>;                              // the longest unused first
  using BySize = std::multimap<std::size_t, Blocks::iterator>;  // of equals, the longest unused first

  BySize::iterator fitting_locked(std::size_t size);  // end(): no kept block is of about this size
  Block remove_locked(BySize::iterator kept);
  void trim_locked(std::size_t keep);

  const std::size_t limit_;
  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> used_;
  Blocks warm_, cold_;  // kept
  BySize by_size_;      // all that are kept
  std::size_t warm_bytes_ = 0, kept_bytes_ = 0;
  std::uint64_t frees_ = 0;
};

// Lets the plugin's library, and nothing else in the process, take its blocks from one HostMemory for all. The
// limit is $LOCKSTEP_HOST_CACHE bytes (0: nothing is changed; an Error if it is no number), by default a quarter of the
// machine's memory. Again does nothing. False where it cannot be done, and under a sanitizer, which is to see every
// block.
bool recycle_host_memory(const Plugin& plugin);
// What plugins take from; null before the first does.
HostMemory* recycled_host_memory();

}  // namespace lockstep::pjrt

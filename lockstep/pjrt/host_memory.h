// Large blocks of host memory for the CPU plugin, kept when they are freed and given out again. XLA takes the scratch
// memory of a program at each launch and frees it at the end; from the C library such a block is mapped anew each time,
// and the kernel clears all of its pages again, which is an eighth of a training step of several hundred megabytes.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "lockstep/pjrt/plugin.h"

namespace lockstep::pjrt {

// Thread-safe.
class HostMemory {
 public:
  static constexpr std::size_t kSmallest = std::size_t{4} << 20;  // smaller blocks are the C library's affair

  // Keeps at most `limit` bytes for reuse; the blocks longest unused go first. What is kept the kernel may take back
  // when memory is short.
  explicit HostMemory(std::size_t limit) : limit_(limit) {}
  ~HostMemory() { trim(0); }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  // Of at least `size` bytes, kSmallest or more, aligned to 2 MiB; null if there is no memory. Contents are arbitrary.
  void* allocate(std::size_t size);
  // False if `block` is none of these; then nothing has happened.
  bool release(void* block);
  // The size of a block that is given out; 0 if it is none of these.
  std::size_t size_of(void* block);
  // Gives back to the system until at most `keep` bytes are kept.
  void trim(std::size_t keep);
  std::size_t kept_bytes();

 private:
  struct Block {
    void* address;
    std::size_t size;
  };

  std::vector<Block>::iterator find_locked(void* address);  // among the used
  void trim_locked(std::size_t keep);

  const std::size_t limit_;
  std::mutex mutex_;
  std::vector<Block> used_, kept_;  // kept: the longest unused first. Both are short: blocks are large
  std::size_t kept_bytes_ = 0;
};

// Lets the plugin's library, and nothing else in the process, take its large blocks from one HostMemory for all. The
// limit is $LOCKSTEP_HOST_CACHE bytes (0: nothing is changed; an Error if it is no number), by default a quarter of the
// machine's memory. Again does nothing. False where it cannot be done, and under a sanitizer, which is to see every
// block.
bool recycle_host_memory(const Plugin& plugin);
// What plugins take from; null before the first does.
HostMemory* recycled_host_memory();

}  // namespace lockstep::pjrt

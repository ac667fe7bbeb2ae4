// Memory that two processes of one host share: rings of bytes, one writer and one reader each, and a bell for each
// process, on which its reading thread sleeps. The memory is a memfd: it has no name and goes with its last user.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

// A mapped memfd.
class SharedMemory {
 public:
  SharedMemory() = default;
  static SharedMemory create(std::size_t bytes);       // Error(io) if the system has not as much for us
  static SharedMemory map(int fd, std::size_t bytes);  // takes the descriptor; Error(io) if it is smaller
  SharedMemory(SharedMemory&& o) noexcept { swap(o); }
  SharedMemory& operator=(SharedMemory&& o) noexcept {
    swap(o);
    return *this;
  }
  ~SharedMemory();
  int fd() const { return fd_; }
  std::byte* data() const { return data_; }

 private:
  void swap(SharedMemory& o) noexcept;
  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Where a thread sleeps until others have something for it. Others ring after they have written.
struct Bell {
  std::atomic<std::uint32_t> rings{0}, asleep{0};

  void ring();
  std::uint32_t heard() const { return rings.load(std::memory_order_acquire); }
  // Returns when it has been rung since `heard`, or after a while.
  void sleep(std::uint32_t heard);
};

struct Ring {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
  alignas(64) std::atomic<std::uint32_t> writer_waits{0};
  // `capacity` bytes follow.

  static std::size_t footprint(std::size_t capacity) { return sizeof(Ring) + capacity; }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(this + 1); }

  // Like writev on a non-blocking socket; the reader's bell rings as parts become visible.
  ssize_t write(const iovec* vectors, int count, std::size_t capacity, Bell& reader);
  // What can be read in one piece; empty: nothing now. Error(peer) if the writer has broken the ring.
  Piece front(std::size_t capacity);
  // Gives bytes back; the writer's bell rings if it waits for room.
  void consume(std::size_t count, std::size_t capacity, Bell& writer);
};

// One process's memory: its bell, and a ring for each process that sends to it.
class Inbox {
 public:
  static std::size_t footprint(std::size_t rings, std::size_t capacity);
  Inbox() = default;
  // `fresh`: the memory is new, and gets its contents.
  Inbox(SharedMemory memory, std::size_t rings, std::size_t capacity, bool fresh);

  int fd() const { return memory_.fd(); }
  std::size_t capacity() const { return capacity_; }
  Bell& bell() { return *reinterpret_cast<Bell*>(memory_.data()); }
  Ring& ring(std::size_t index);

 private:
  SharedMemory memory_;
  std::size_t capacity_ = 0;
};

}  // namespace lockstep::collectives

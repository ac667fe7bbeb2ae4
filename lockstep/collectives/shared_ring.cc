#include "lockstep/collectives/shared_ring.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <utility>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kPart = 64 << 10;  // becomes visible to the reader at a time
constexpr std::size_t kLine = 64;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(Bell) <= kLine && sizeof(Ring) % kLine == 0);

[[noreturn]] void fail(const char* what) {
  throw_error(ErrorCode::io, "shared memory", "{}: {}", what, std::strerror(errno));
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

SharedMemory SharedMemory::create(std::size_t bytes) {
  SharedMemory memory;
  memory.fd_ = ::memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory.fd_ < 0) fail("memfd_create");
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    throw_error(ErrorCode::io, "shared memory", "files may have {} bytes here (ulimit -f)", limit.rlim_cur);
  }
  if (::ftruncate(memory.fd_, static_cast<off_t>(bytes)) < 0) fail("ftruncate");
  // Pages that are not there when they are first touched would end the process.
  while (::fallocate(memory.fd_, 0, 0, static_cast<off_t>(bytes)) < 0) {
    if (errno != EINTR) fail("fallocate");
  }
  // Nobody can take away pages that another process uses.
  if (::fcntl(memory.fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) fail("F_ADD_SEALS");
  return map(std::exchange(memory.fd_, -1), bytes);
}

SharedMemory SharedMemory::map(int fd, std::size_t bytes) {
  SharedMemory memory;
  memory.fd_ = fd;
  struct stat status {};
  if (::fstat(fd, &status) < 0) fail("fstat");
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (static_cast<std::size_t>(status.st_size) < bytes || seals < 0 || !(seals & F_SEAL_SHRINK)) {
    throw_error(ErrorCode::io, "shared memory", "a peer's memory is not of {} fixed bytes", bytes);
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) fail("mmap");
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory::~SharedMemory() {
  if (data_) ::munmap(data_, bytes_);
  if (fd_ >= 0) ::close(fd_);
}

void SharedMemory::swap(SharedMemory& o) noexcept {
  std::swap(fd_, o.fd_);
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
}

void Bell::ring() {
  rings.fetch_add(1);
  if (asleep.load() != 0) futex(rings, FUTEX_WAKE, INT_MAX, nullptr);
}

void Bell::sleep(std::uint32_t heard) {
  asleep.store(1);
  timespec timeout{1, 0};
  if (rings.load() == heard) futex(rings, FUTEX_WAIT, heard, &timeout);
  asleep.store(0);
}

ssize_t Ring::write(const iovec* vectors, int count, std::size_t capacity, Bell& reader) {
  std::uint64_t at = written.load(std::memory_order_relaxed);
  auto room = [&] { return capacity - static_cast<std::size_t>(at - read.load()); };
  std::size_t total = 0, fresh = 0, free = room();
  if (free == 0) {
    writer_waits.store(1);
    free = room();
    if (free == 0) {
      errno = EAGAIN;
      return -1;
    }
  }
  auto publish = [&] {
    written.store(at, std::memory_order_release);
    reader.ring();
    fresh = 0;
  };
  for (int i = 0; i < count; ++i) {
    auto* from = static_cast<const std::byte*>(vectors[i].iov_base);
    for (std::size_t left = vectors[i].iov_len; left > 0;) {
      if (free == 0) free = room();
      std::size_t place = at % capacity;
      std::size_t n = std::min({left, free, capacity - place, kPart - fresh});
      if (n == 0) break;
      std::memcpy(bytes() + place, from, n);
      from += n, left -= n, at += n, free -= n, total += n, fresh += n;
      if (fresh == kPart) publish();
    }
    if (free == 0) break;
  }
  if (fresh > 0) publish();
  return static_cast<ssize_t>(total);
}

Piece Ring::front(std::size_t capacity) {
  std::uint64_t at = read.load(std::memory_order_relaxed), end = written.load(std::memory_order_acquire);
  if (end - at > capacity) throw Error(ErrorCode::peer, "transport", "the shared memory is damaged", 0);
  std::size_t place = at % capacity;
  return {bytes() + place, std::min({static_cast<std::size_t>(end - at), capacity - place, kPart})};
}

void Ring::consume(std::size_t count, std::size_t capacity, Bell& writer) {
  std::uint64_t at = read.load(std::memory_order_relaxed) + count;
  read.store(at);
  // Not for every part: the writer then writes several at once.
  bool worth = written.load(std::memory_order_relaxed) - at <= capacity / 2;
  if (worth && writer_waits.load() != 0 && writer_waits.exchange(0) != 0) writer.ring();
}

std::size_t Inbox::footprint(std::size_t rings, std::size_t capacity) {
  return kLine + rings * Ring::footprint(capacity);
}

Inbox::Inbox(SharedMemory memory, std::size_t rings, std::size_t capacity, bool fresh)
    : memory_(std::move(memory)), capacity_(capacity) {
  if (!fresh) return;
  new (memory_.data()) Bell;
  for (std::size_t i = 0; i < rings; ++i) new (&ring(i)) Ring;
}

Ring& Inbox::ring(std::size_t index) {
  return *reinterpret_cast<Ring*>(memory_.data() + kLine + index * Ring::footprint(capacity_));
}

}  // namespace lockstep::collectives

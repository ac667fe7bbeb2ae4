// The shared memory of two processes of a host, of which the other writes what it likes, at any time: this side,
// reading or writing, stays within its rings and finds out.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "lockstep/collectives/shared_ring.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using namespace collectives;  // NOLINT

constexpr std::size_t kCapacity = 1024;

}  // namespace

void ring(Input input) {
  Choices choices(input);
  // Exactly a ring's memory, so that AddressSanitizer sees its ends.
  std::size_t footprint = Ring::footprint(kCapacity);
  std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(alignof(Ring), footprint)), &std::free);
  Ring& ring = *new (memory.get()) Ring;
  Bell bell;
  const std::byte *begin = ring.bytes(), *end = begin + kCapacity;
  bool honest = true;
  std::uint64_t written = 0, read = 0;  // while it is
  for (int i = 0; i < 200 && !choices.empty(); ++i) {
    switch (choices.below(6)) {
      case 0:
        honest = false;
        ring.written = choices.one_in(2) ? choices.bits() : ring.read + static_cast<std::uint64_t>(choices.byte()) * 16;
        break;
      case 1:
        honest = false;
        ring.read = choices.one_in(2) ? choices.bits() : ring.written - static_cast<std::uint64_t>(choices.byte()) * 16;
        break;
      case 2:
      case 3: {
        std::vector<std::byte> bytes(8 * static_cast<std::size_t>(choices.byte()));
        for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<std::byte>(written + k);
        std::size_t first = choices.byte() % (bytes.size() + 1);
        iovec parts[] = {{bytes.data(), first}, {bytes.data() + first, bytes.size() - first}};
        ssize_t n = ring.write(parts, 2, kCapacity, bell);
        check(n < 0 ? errno == EAGAIN : static_cast<std::size_t>(n) <= bytes.size(), "what was written");
        if (honest && n > 0) written += static_cast<std::uint64_t>(n);
        if (honest) check(written - read <= kCapacity, "no more than there is room for");
        break;
      }
      default: {
        try {
          Piece piece = ring.front(kCapacity);
          check(piece.empty() || (piece.data() >= begin && piece.data() + piece.size() <= end), "a piece of the ring");
          std::size_t count = piece.empty() ? 0 : choices.byte() % (piece.size() + 1);
          if (honest) {
            check(piece.size() <= written - read, "what was written before");
            for (std::size_t k = 0; k < count; ++k)
              check(piece[k] == static_cast<std::byte>(read + k), "the bytes that were written");
            read += count;
          }
          ring.consume(count, kCapacity, bell);
        } catch (const Error& e) {
          check(!honest && e.code() == ErrorCode::peer, e.what());
        }
      }
    }
  }
}

}  // namespace lockstep::fuzz

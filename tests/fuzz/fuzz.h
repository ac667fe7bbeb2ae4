// The parsers of what comes from outside, as functions of any bytes. Each holds what it promises or throws Finding;
// sanitizers find the rest. libfuzzer.cc feeds them what libFuzzer thinks of (scripts/fuzz.sh), fuzz_test.cc what
// libFuzzer has found before (corpus/NAME/) and random bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace lockstep::fuzz {

using Input = std::span<const std::uint8_t>;

struct Target {
  const char* name;
  void (*run)(Input);
};

void coordinator(Input input);  // distributed/coordinator.h: requests in any order, from anybody
void exchange(Input input);     // collectives/frame_stream.h, exchange.h: streams of frames
void ring(Input input);         // collectives/shared_ring.h: a peer that writes anything into the shared memory
void rendezvous(Input input);   // collectives/tcp_rendezvous.h: strangers who connect
void ledger(Input input);       // collectives/launch_ledger.h, answer.h: texts of peers
void places(Input input);       // distributed/address.h, cluster.h, invitation.h: addresses, what launchers leave

inline constexpr Target targets[] = {{"coordinator", coordinator}, {"exchange", exchange}, {"ring", ring},
                                     {"rendezvous", rendezvous},   {"ledger", ledger},     {"places", places}};

struct Finding : std::logic_error {
  using std::logic_error::logic_error;
};
inline void check(bool holds, const std::string& what) {
  if (!holds) throw Finding(what);
}

// Decisions read from the input; when it is used up, each is the first one. Not two in one call's arguments: compilers
// evaluate those in different orders, and a corpus means the same to all.
class Choices {
 public:
  explicit Choices(Input input) : left_(input) {}
  bool empty() const { return left_.empty(); }
  std::uint8_t byte() {
    if (left_.empty()) return 0;
    std::uint8_t value = left_.front();
    left_ = left_.subspan(1);
    return value;
  }
  int below(int n) { return byte() % n; }  // n <= 256
  bool one_in(int n) { return below(n) == n - 1; }
  std::uint64_t bits() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }
  std::int64_t edge() {
    constexpr std::int64_t edges[] = {0, 1, -1, 1LL << 31, -(1LL << 31), INT64_MAX, INT64_MIN, 1000};
    return edges[below(8)];
  }
  std::string bytes(int most) {  // most < 256
    auto size = static_cast<std::size_t>(below(most + 1));
    size = std::min(size, left_.size());
    std::string text(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(size));
    left_ = left_.subspan(size);
    return text;
  }
  Input rest() { return std::exchange(left_, {}); }

 private:
  Input left_;
};

}  // namespace lockstep::fuzz

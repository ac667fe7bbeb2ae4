// Two peers who send anything: streams of frames, taken apart by FrameReader, meet an Exchange with sends and receives
// under way. Each of those ends once; its memory, which is freed then, is not touched afterwards; a connection whose
// stream makes no sense ends.
#include <sys/uio.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lockstep/collectives/exchange.h"
#include "lockstep/collectives/frame_stream.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using namespace collectives;  // NOLINT

constexpr int kPeers = 3, kSteps = 300;  // this process is 0
constexpr Exchange::Options kSmall{.eager_bytes = 64, .fragment_bytes = 32, .window = 512};

// A transport that keeps what is sent until the session lets it go.
class Wire final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return kPeers; }
  std::string peer_name(int peer) const override { return "process " + std::to_string(peer); }
  bool reaches(int peer) const override { return peer != rank(); }
  void start(Receiver* receiver) override {
    receiver_ = receiver;
    for (int p = 1; p < kPeers; ++p) {
      readers_[p] = std::make_unique<FrameReader>(p);
      readers_[p]->start(receiver);
    }
  }
  void send(int peer, OutgoingFrame frame) override {
    check(peer > 0 && peer < kPeers, "a frame to a peer");
    check(frame.header.length == total_bytes(frame.pieces), "a frame of the length that its header says");
    if (!readers_[peer]) {
      if (frame.sent) frame.sent(false);
      return;
    }
    writers_[peer].push(std::move(frame));
  }
  void revoke(std::uint64_t lease) override {
    Notices dropped;
    for (int p = 1; p < kPeers; ++p) {
      writers_[p].revoke(lease, dropped);
      if (readers_[p]) readers_[p]->revoke(lease);
    }
    notify(dropped, false);
  }
  void abort(const Error& reason) override {
    for (int p = 1; p < kPeers; ++p) end(p, &reason);
  }
  void close(TimePoint) override {
    for (int p = 1; p < kPeers; ++p) end(p, nullptr);
  }

  void end(int peer, const Error* reason) {
    if (!readers_[peer]) return;
    readers_[peer]->reset();
    readers_[peer].reset();
    Notices dropped;
    writers_[peer].clear(dropped);
    if (reason != nullptr) receiver_->lost(peer, *reason);
    notify(dropped, false);
  }
  // Bytes that the peer has sent. False: his connection has ended.
  bool feed(int peer, Piece bytes, bool directly) {
    if (!readers_[peer]) return false;
    try {
      FrameReader& reader = *readers_[peer];
      if (directly && reader.direct() > 0) {
        std::size_t most = reader.direct(), taken = 0;
        ssize_t n = reader.read_direct([&](const iovec* to, int count) {
          for (int i = 0; i < count && taken < bytes.size(); ++i) {
            std::size_t part = std::min(to[i].iov_len, bytes.size() - taken);
            std::memcpy(to[i].iov_base, bytes.data() + taken, part);
            taken += part;
          }
          return static_cast<ssize_t>(taken);
        });
        check(n < 0 || static_cast<std::size_t>(n) <= most, "no more than the frame has");
        bytes = bytes.subspan(taken);
      }
      reader.feed(bytes);
    } catch (const Error& error) {
      end(peer, &error);
    }
    return true;
  }
  // Some of what is queued for the peer goes out.
  void write(int peer, std::size_t budget, bool urgent_only) {
    Notices written;
    writers_[peer].write_some(
        [](const iovec* from, int count) {
          ssize_t n = 0;
          for (int i = 0; i < count; ++i) {
            volatile unsigned sum = 0;  // reads it all, so that it has to be there
            for (std::size_t k = 0; k < from[i].iov_len; ++k)
              sum = sum + static_cast<unsigned char*>(from[i].iov_base)[k];
            n += static_cast<ssize_t>(from[i].iov_len);
          }
          return n;
        },
        budget, urgent_only, written);
    notify(written, true);
  }

 private:
  Receiver* receiver_ = nullptr;
  std::array<std::unique_ptr<FrameReader>, kPeers> readers_;
  std::array<FrameWriter, kPeers> writers_;
};

class Session final : public Exchange::Events {
 public:
  explicit Session(Input input) : choices_(input) {
    auto wire = std::make_unique<Wire>();
    wire_ = wire.get();
    exchange_ = std::make_unique<Exchange>(std::move(wire), kSmall, this);
    exchange_->start();
  }
  void run() {
    for (int i = 0; i < kSteps && !choices_.empty(); ++i) step();
    exchange_->abort(Error(ErrorCode::cancelled, "fuzz", "the end", 0));
    check(open_ == 0, "every send and receive has ended");
    exchange_->close(TimePoint::max());
    exchange_.reset();
  }

  void on_control(int peer, const FrameHeader&, const std::string& payload) override {
    check(peer > 0 && peer < kPeers && payload.size() <= (64u << 10), "a control frame");
  }
  void on_lost(int peer, const Error&) override { check(lost_.insert(peer).second, "a peer is lost once"); }
  void on_diverged(int, std::uint64_t) override {}

 private:
  int peer() { return 1 + choices_.below(kPeers - 1); }
  Tag tag() {
    Tag tag;
    tag.communicator = static_cast<std::uint64_t>(choices_.below(2));
    tag.launch = static_cast<std::uint64_t>(choices_.below(3));
    tag.op = static_cast<std::uint64_t>(choices_.below(3));
    return tag;
  }
  std::uint64_t number() {
    constexpr std::uint64_t edges[] = {0, 1, 4, sizeof(FrameHeader), 1 << 16, 1ull << 32, 1ull << 63, ~0ull};
    return edges[choices_.below(8)];
  }
  static std::uint64_t number_of(int peer, const Tag& t) {
    return static_cast<std::uint64_t>(peer) | t.communicator << 4 | t.launch << 8 | t.op << 12;
  }

  // A send or receive, with memory that goes when it ends.
  struct Operation {
    std::vector<std::byte> memory;
    bool ended = false;
  };
  Exchange::Outcome outcome_of(std::shared_ptr<Operation> operation, bool receives, std::uint64_t id) {
    ++open_;
    return [this, operation, receives, id](const Error* error) {
      check(!operation->ended, "an operation ends once");
      check(error == nullptr || *error->what() != 0, "an error with a text");
      operation->ended = true;
      std::vector<std::byte>().swap(operation->memory);
      (receives ? receiving_ : sending_).erase(id);
      --open_;
    };
  }
  static std::vector<MutablePiece> cut(std::vector<std::byte>& memory, int parts) {
    std::vector<MutablePiece> pieces;
    std::size_t each = memory.size() / static_cast<std::size_t>(parts), at = 0;
    for (int i = 0; i < parts; ++i, at += each)
      pieces.push_back(MutablePiece(memory).subspan(at, i + 1 == parts ? memory.size() - at : each));
    return pieces;
  }

  void operate() {
    bool receives = choices_.one_in(2), sink = choices_.one_in(3);
    int with = peer();
    Tag t = tag();
    std::uint64_t id = number_of(with, t), lease = static_cast<std::uint64_t>(1 + choices_.below(3));
    if (!(receives ? receiving_ : sending_).insert(id).second) return;
    auto operation = std::make_shared<Operation>();
    operation->memory.resize(static_cast<std::size_t>(choices_.below(200)));
    auto fingerprint = static_cast<std::uint32_t>(choices_.one_in(8));
    auto outcome = outcome_of(operation, receives, id);
    int parts = 1 + choices_.below(3);
    if (!receives) {
      auto pieces = cut(operation->memory, parts);
      exchange_->send(with, t, fingerprint, {pieces.begin(), pieces.end()}, lease, std::move(outcome));
    } else if (sink) {
      std::size_t bytes = operation->memory.size();
      auto at = std::make_shared<std::size_t>(0);
      exchange_->receive(
          with, t, fingerprint, bytes,
          [operation, at, bytes](Piece part) {
            check(!operation->ended, "nothing comes after the end");
            check(*at + part.size() <= bytes, "no more than the message has");
            if (!part.empty()) std::memcpy(operation->memory.data() + *at, part.data(), part.size());
            *at += part.size();
          },
          lease, std::move(outcome));
    } else {
      exchange_->receive(with, t, fingerprint, cut(operation->memory, parts), lease, std::move(outcome));
    }
  }

  void frame() {
    int from = peer();
    FrameHeader h;
    h.kind = static_cast<FrameKind>(choices_.one_in(16) ? choices_.byte() : choices_.below(12));
    h.tag = tag();
    std::size_t payload = static_cast<std::size_t>(choices_.below(80));
    int shape = choices_.below(4);
    h.length = shape == 3 ? number() : payload;
    h.total = shape == 1 ? static_cast<std::uint64_t>(choices_.below(200)) : shape == 2 ? number() : h.length;
    h.offset = shape == 1 ? 32u * static_cast<std::uint64_t>(choices_.below(8)) : shape == 2 ? number() : 0;
    h.fingerprint = static_cast<std::uint32_t>(choices_.one_in(8));
    if (choices_.one_in(4)) h.credit = number();
    if (choices_.one_in(4)) h.launched = number(), h.program = number();
    std::vector<std::byte> bytes(sizeof h + payload);
    std::memcpy(bytes.data(), &h, sizeof h);
    for (std::size_t i = sizeof h; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
    std::size_t first = choices_.one_in(3) ? choices_.byte() % (bytes.size() + 1) : sizeof h;
    wire_->feed(from, Piece(bytes).first(first), false);
    wire_->feed(from, Piece(bytes).subspan(first), choices_.one_in(2));
  }

  void step() {
    switch (choices_.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return operate();
      case 4: {
        int from = peer();
        std::string bytes = choices_.bytes(120);
        wire_->feed(from, std::as_bytes(std::span(bytes)), choices_.one_in(2));
        return;
      }
      case 5: {
        int to = peer();
        auto budget = static_cast<std::size_t>(choices_.byte());
        return wire_->write(to, budget, choices_.one_in(2));
      }
      case 6:
        return exchange_->revoke(static_cast<std::uint64_t>(1 + choices_.below(3)));
      case 7: {
        Tag t = tag();
        return exchange_->forget(t.communicator, t.launch);
      }
      case 8: {
        auto id = static_cast<std::uint64_t>(choices_.below(3));
        auto communicator = static_cast<std::uint64_t>(choices_.below(2));
        switch (choices_.below(3)) {
          case 0:
            return exchange_->begin_launch(communicator, {.id = id});
          case 1:
            return exchange_->intend_launch(communicator, {.id = id});
          default:
            return exchange_->end_intent(communicator, id);
        }
      }
      case 9: {
        int to = peer();
        Tag about = tag();
        return exchange_->control(to, FrameKind::query, about, choices_.bytes(20));
      }
      case 10:
        if (choices_.one_in(8)) {
          int whose = peer();
          Error error(ErrorCode::peer, "fuzz", "the connection ended", 0);
          return wire_->end(whose, &error);
        }
        if (choices_.one_in(16)) exchange_->leave();
        return;
      default:
        return frame();
    }
  }

  Choices choices_;
  Wire* wire_ = nullptr;
  std::unique_ptr<Exchange> exchange_;
  std::set<int> lost_;
  std::set<std::uint64_t> sending_, receiving_;
  int open_ = 0;
};

}  // namespace

void exchange(Input input) { Session(input).run(); }

}  // namespace lockstep::fuzz

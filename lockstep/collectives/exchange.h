// Tagged messages between processes, matched by (peer, tag) in whatever order the two sides arrive.
//
// Small messages (up to Options::eager_bytes) go out at once. If the receiver has not asked yet, he keeps them; what
// one peer may leave with another that way is bounded by a credit (Options::window bytes), after which small messages
// too are only offered and wait. Larger messages wait at the sender until the receiver has posted his memory and
// accepted them, then land there directly, in fragments, so that small messages never queue behind whole big ones.
//
// Every send and receive ends with exactly one call of its Outcome, on any thread, also inside the call that began it;
// no lock of the Exchange is held then. After it the memory is not touched any more.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lockstep/collectives/launch_ledger.h"
#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

class Exchange final : private Receiver {
 public:
  struct Options {
    std::size_t eager_bytes = 64 << 10;  // the same in every process
    std::size_t fragment_bytes = 1 << 20;
    std::size_t window = 8 << 20;
  };
  // Called from the progress thread with no lock held.
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_control(int peer, const FrameHeader& header, const std::string& payload) = 0;
    virtual void on_lost(int peer, const Error& error) = 0;
    // The peer has launched something else on the communicator; may be called several times.
    virtual void on_diverged(int peer, std::uint64_t communicator) = 0;
  };
  using Outcome = std::function<void(const Error*)>;  // null: success

  Exchange(std::unique_ptr<Transport> transport, Options options, Events* events);
  ~Exchange() override;
  void start() { transport_->start(this); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string peer_name(int peer) const { return transport_->peer_name(peer); }
  bool reaches(int peer) const { return transport_->reaches(peer); }

  // `peer` may be this process: the two sides then meet here. A receive whose size or fingerprint is not the sender's
  // ends with Error(diverged) naming the peer.
  void send(int peer, const Tag& tag, std::uint32_t fingerprint, std::vector<Piece> pieces, std::uint64_t lease,
            Outcome outcome);
  void receive(int peer, const Tag& tag, std::uint32_t fingerprint, std::vector<MutablePiece> pieces,
               std::uint64_t lease, Outcome outcome);
  // The same, with a sink that takes the message's bytes in order; it must not call the exchange.
  void receive(int peer, const Tag& tag, std::uint32_t fingerprint, std::size_t bytes, Sink sink, std::uint64_t lease,
               Outcome outcome);
  // Ends all sends and receives of the lease with Error(cancelled), those that have already ended excepted.
  void revoke(std::uint64_t lease);
  // Drops what has come for a launch and what will still come.
  void forget(std::uint64_t communicator, std::uint64_t launch);

  // The communicator's next launch, and a program that is about to be it (LaunchLedger).
  void begin_launch(std::uint64_t communicator, LaunchedProgram program);
  void intend_launch(std::uint64_t communicator, LaunchedProgram program);
  void end_intent(std::uint64_t communicator, std::uint64_t program);
  std::string launches(std::uint64_t communicator) const;  // LaunchLedger::text
  void forget_launches(std::uint64_t communicator);        // the communicator is given up

  // Sends a control frame with a text. Nothing happens if the peer is gone.
  void control(int peer, FrameKind kind, const Tag& tag, std::string payload);
  // Null while the peer is there.
  std::shared_ptr<const Error> peer_error(int peer) const;

  // Takes the peer for gone though its connection stands: nothing is sent to it any more, what it sends is not listened
  // to, and on_lost is called. What is under way with it has to be revoked.
  void lose(int peer, const Error& error);

  void abort(const Error& reason) { transport_->abort(reason); }
  // Says goodbye to everybody, behind all that has been sent: nothing will follow. Messages from the others still come.
  void leave();
  // Leaves and closes.
  void close(TimePoint deadline);

 private:
  struct Key {
    int peer;
    Tag tag;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  struct Posted {  // a receive that waits
    std::vector<MutablePiece> pieces;
    Sink sink;  // instead of pieces
    std::size_t total;
    std::uint32_t fingerprint;
    std::uint64_t lease;
    Outcome outcome;
    std::uint64_t token = 0;
    std::size_t received = 0;

    void take(std::span<const Piece> message) const;
  };
  struct Waiting {  // a send that waits to be accepted
    std::vector<Piece> pieces;
    std::size_t total;
    std::uint32_t fingerprint;
    std::uint64_t lease;
    Outcome outcome;
  };
  struct Kept {  // a small message, or the offer of one, that came before its receive
    std::unique_ptr<std::byte[]> data;
    std::size_t total = 0;
    std::uint32_t fingerprint = 0;
    bool offered = false, complete = false;
  };
  struct Accepted {  // an accept that came before its send
    std::size_t total;
    std::uint32_t fingerprint;
  };
  struct Peer {
    std::uint64_t sent = 0, returned = 0;       // eager bytes sent, and those the peer has consumed
    std::uint64_t consumed = 0, announced = 0;  // eager bytes of the peer's we have consumed, and told him of
    std::string control;                        // payload of the control frame that is arriving
    std::shared_ptr<const Error> gone;
    bool left = false;  // in good order
  };
  using Calls = std::vector<std::pair<Outcome, std::shared_ptr<const Error>>>;

  Landing landing(int peer, const FrameHeader& header) override;
  void landed(int peer, const FrameHeader& header, std::uint64_t token) override;
  void lost(int peer, const Error& error) override;

  void post(int peer, const Tag& tag, Posted posted);
  void landed_eager(int peer, const FrameHeader& header, std::uint64_t token);
  void landed_bulk(int peer, const FrameHeader& header, std::uint64_t token);
  void landed_offer(int peer, const FrameHeader& header);
  void landed_accept(int peer, const FrameHeader& header);
  void meet_at_home(Posted posted, Waiting waiting);
  void send_bulk(int peer, const Tag& tag, Waiting waiting);
  void send_header(int peer, FrameKind kind, const Tag& tag, std::uint64_t total, std::uint32_t fingerprint);
  FrameHeader header_locked(int peer, FrameKind kind, const Tag& tag);
  bool consume_locked(int peer, std::size_t bytes);  // true: a credit frame is due
  bool forgotten_locked(const Tag& tag) const;
  void peer_gone_locked(int peer, std::shared_ptr<const Error> error, Calls& calls);
  std::shared_ptr<const Error> mismatch(int peer, std::size_t their_total, std::uint32_t their_fingerprint,
                                        std::size_t total, std::uint32_t fingerprint) const;

  const Options options_;
  Events* const events_;
  std::unique_ptr<Transport> transport_;
  const int rank_, size_;

  mutable std::mutex mutex_;
  std::vector<Peer> peers_;
  struct Ledger {
    LaunchLedger launches;
    bool own = false;  // this process launches there too
  };
  Ledger& own_ledger_locked(std::uint64_t communicator);
  // Null for one too many of those that only peers have spoken of.
  Ledger* ledger_for_peer_locked(std::uint64_t communicator);
  std::map<std::uint64_t, Ledger> ledgers_;  // by communicator
  std::size_t foreign_ledgers_ = 0;          // those that are not own
  std::unordered_map<Key, Posted, KeyHash> posted_;
  std::unordered_map<Key, Waiting, KeyHash> waiting_;
  std::unordered_map<Key, Kept, KeyHash> kept_;
  std::unordered_map<Key, Accepted, KeyHash> accepted_;
  std::uint64_t next_token_ = 1;
  bool left_ = false;
  std::deque<std::pair<std::uint64_t, std::uint64_t>> forgotten_;  // the last ones, oldest first
};

}  // namespace lockstep::collectives

// Frames between the processes of a gang. A Transport moves them and knows nothing of collectives; the Exchange above
// it matches messages by tag. Every transport gives the same guarantees:
//
// - Frames to one peer arrive whole; urgent frames arrive in order among themselves and so do bulk ones, but an urgent
//   frame may overtake bulk ones.
// - `sent` is called exactly once per frame, from any thread, also from inside send(): true when the pieces may be
//   reused, false when the frame was revoked or the connection ended.
// - The Receiver's functions are called from the transport's progress thread, one at a time per peer.
// - A connection that ends is reported by `lost`, once per peer, after the transport has let go of all landings.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/support/error.h"

namespace lockstep::collectives {

using Piece = std::span<const std::byte>;
using MutablePiece = std::span<std::byte>;
using TimePoint = std::chrono::steady_clock::time_point;
using Duration = std::chrono::steady_clock::duration;

// What a message is about: one message of one call of one operation in one launch.
struct Tag {
  std::uint64_t communicator = 0, launch = 0, op = 0;
  std::uint32_t occurrence = 0, group = 0;  // the how-manieth call of the op in the launch; the group's first position
  std::uint32_t item = 0, chunk = 0;        // which message of that call
  bool operator==(const Tag&) const = default;
};

enum class FrameKind : std::uint32_t {
  eager,    // a whole message, sent without being asked for
  bulk,     // a part of a message that the receiver has accepted
  offer,    // a small message waits at the sender, who has used up his credit for eager ones
  accept,   // the receiver is ready for the message
  credit,   // carries nothing but the header's `credit`
  cancel,   // the launch in the tag has failed; the payload is the error
  abort,    // the sender's engine has failed; the payload is the error
  query,    // who has arrived at the tag's operation?
  reply,    // the answer
  recall,   // what have you launched on the tag's communicator?
  history,  // the answer (launch_ledger.h)
  goodbye,  // the sender leaves in good order: nothing follows
};

struct FrameHeader {
  FrameKind kind = FrameKind::credit;
  std::uint32_t fingerprint = 0;  // of the operation: unequal ones mean that the programs differ
  std::uint64_t length = 0;       // payload bytes in this frame
  std::uint64_t total = 0;        // bytes of the whole message
  std::uint64_t offset = 0;       // of this frame's payload in it
  std::uint64_t credit = 0;       // eager bytes consumed so far by the frame's sender
  std::uint64_t launched = 0;     // what the sender launched before the tag's launch, and in it (launch_ledger.h);
  std::uint64_t program = 0;      // 0: unknown
  Tag tag;
};
static_assert(sizeof(FrameHeader) == 96);

// Takes a payload in the order of its bytes, part after part of any size.
using Sink = std::function<void(Piece)>;

// Where a frame's payload goes: to the sink, if there is one, else to the pieces; if there are none it is thrown away.
// `lease` names the memory's owner for revoke(), after which neither is used.
struct Landing {
  std::vector<MutablePiece> pieces;
  Sink sink;
  std::uint64_t lease = 0;
  std::uint64_t token = 0;  // handed back in landed()
};

class Receiver {
 public:
  virtual ~Receiver() = default;
  // A frame's header has come. Must be quick and must not call the transport. May throw Error: the connection ends with
  // it.
  virtual Landing landing(int peer, const FrameHeader& header) = 0;
  // Its payload is in place. May call the transport.
  virtual void landed(int peer, const FrameHeader& header, std::uint64_t token) = 0;
  virtual void lost(int peer, const Error& error) = 0;
};

struct OutgoingFrame {
  FrameHeader header;
  std::vector<Piece> pieces;  // header.length bytes in all, which live until `sent`
  std::uint64_t lease = 0;
  bool urgent = true;
  std::function<void(bool)> sent;  // may be empty
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string peer_name(int peer) const = 0;  // "process 3 (10.0.0.7:41231)"
  // There is, or was, a connection to the peer; a transport may leave out some.
  virtual bool reaches(int peer) const = 0;

  // Begins to deliver. Called once, before any send; the receiver outlives the transport.
  virtual void start(Receiver* receiver) = 0;
  // Never blocks for the peer; from any thread; peer != rank().
  virtual void send(int peer, OutgoingFrame frame) = 0;
  // When it returns, no memory of the lease is touched any more: its queued frames are dropped, the rest of a frame
  // half written is copied, the rest of a frame half read is thrown away.
  virtual void revoke(std::uint64_t lease) = 0;
  // Ends every connection at once: queued frames are dropped, `lost` follows for every peer, with this reason.
  virtual void abort(const Error& reason) = 0;
  // Lets queued frames go out, then ends every connection, at the deadline in any case. No `lost` is called for it, and
  // when it returns no function of the Receiver and no `sent` is being called any more, nor will be.
  virtual void close(TimePoint deadline) = 0;
};

// 0 ... size - 1
std::vector<int> everybody(int size);

// Helpers for lists of pieces.
std::size_t total_bytes(std::span<const Piece> pieces);
std::size_t total_bytes(std::span<const MutablePiece> pieces);
std::vector<Piece> slice(std::span<const Piece> pieces, std::size_t offset, std::size_t length);
std::vector<MutablePiece> slice(std::span<const MutablePiece> pieces, std::size_t offset, std::size_t length);
// Copies between lists of equal total size.
void copy_pieces(std::span<const MutablePiece> to, std::span<const Piece> from);

}  // namespace lockstep::collectives

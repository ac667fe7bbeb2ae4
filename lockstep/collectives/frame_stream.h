// Frames as a stream of bytes: what every transport over a stream (a socket, a ring in shared memory) does alike.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

using Notices = std::vector<std::function<void(bool)>>;  // of frames; to be called without locks
void notify(Notices& notices, bool sent);

// The queue of one peer's outgoing frames. The owner's lock protects it.
class FrameWriter {
 public:
  // Like writev on a non-blocking socket: bytes taken, or -1 with errno, EAGAIN if there is no room now.
  using Write = std::function<ssize_t(const iovec*, int)>;
  enum class Progress {
    done,     // nothing is left, or nothing urgent if only that was asked for
    waiting,  // there was no room, or the budget is spent
    broken,   // any other errno
  };

  void push(OutgoingFrame frame);
  bool empty() const { return !writing_ && urgent_.empty() && bulk_.empty(); }
  // Writes at most about `budget` bytes. A bulk frame that was begun is ended even if only urgent ones are asked for.
  Progress write_some(const Write& write, std::size_t budget, bool urgent_only, Notices& written);
  // Drops the frames of a lease; the rest of one that was begun is copied.
  void revoke(std::uint64_t lease, Notices& dropped);
  void clear(Notices& dropped);

 private:
  struct Writing {
    explicit Writing(OutgoingFrame f) : frame(std::move(f)) {}
    OutgoingFrame frame;
    std::size_t written = 0;      // of header and payload
    std::vector<std::byte> copy;  // the payload of a revoked frame
  };
  std::deque<OutgoingFrame> urgent_, bulk_;
  std::optional<Writing> writing_;
};

// Takes one peer's stream apart and hands the frames to the Receiver. One thread reads; any may revoke.
class FrameReader {
 public:
  explicit FrameReader(int peer) : peer_(peer) {}
  void start(Receiver* receiver) { receiver_ = receiver; }

  // Consumes all bytes. Throws the Receiver's Error for a frame that it refuses.
  void feed(Piece bytes);
  // Payload bytes that can be read straight to where they go; 0: use feed().
  std::size_t direct() const;
  // Reads some of them with `read` (like readv), whose result it returns. Afterwards feed({}) ends a complete frame.
  ssize_t read_direct(const std::function<ssize_t(const iovec*, int)>& read);
  void revoke(std::uint64_t lease);
  // The stream has ended: lets go of the landing.
  void reset();

 private:
  void place(Piece& bytes);

  const int peer_;
  Receiver* receiver_ = nullptr;
  FrameHeader header_;
  std::size_t header_bytes_ = 0;

  mutable std::mutex mutex_;  // of what follows; held while memory is written or a sink runs
  bool in_payload_ = false;
  Landing landing_;
  std::size_t landed_ = 0;            // payload bytes
  std::size_t piece_ = 0, used_ = 0;  // where the next ones go
};

}  // namespace lockstep::collectives

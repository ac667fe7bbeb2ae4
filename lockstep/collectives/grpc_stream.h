// gRPC as the transport needs it, behind a wall: streams of bytes to and from a peer. No gRPC header here. Internal.
//
// grpc_stream.cc is compiled without ThreadSanitizer, which can't see how gRPC's own threads synchronise; it holds no
// logic, and what is around it is checked.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/collectives/transport.h"
#include "lockstep/support/tls.h"

namespace lockstep::collectives {

inline constexpr std::size_t kChunkBytes = 512 << 10;  // the most that one write() takes

struct StreamChunk {
  std::unique_ptr<std::byte[]> data;
  std::size_t size = 0;  // 0: the last one
};

// Called on threads of gRPC's, received() and finished() one at a time.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  virtual bool received(Piece bytes) = 0;  // empty: the peer's last chunk. False: read no more
  virtual void finished() = 0;             // the stream has ended, and received() is called no more
  virtual void written(bool ok) = 0;       // the chunk has gone; false: the stream ends
};

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual std::string peer() const = 0;          // "10.0.0.7:41231"
  virtual void start(StreamEvents& events) = 0;  // begins to read
  virtual void write(StreamChunk chunk) = 0;     // one at a time: until written()
  virtual void cancel() = 0;                     // ends it soon, both ways; at any time
  // Nothing is read or written any more, nor will be; once.
  virtual void release() = 0;
  // After release(): waits until gRPC is done with it, so that `events` may go.
  virtual void wait() = 0;
};

// The two halves of the gang's secret: what who calls shows, and what who answers shows.
struct StreamSecret {
  std::string call, answer;
};

// Calls the server at "10.0.0.7:41231". `done` is called once, from a thread of gRPC's, with "" or why the peer does
// not accept the call; then it has to be released all the same.
std::shared_ptr<ByteStream> call_stream(const std::string& address, const std::optional<Tls>& tls,
                                        const std::string& hello, const StreamSecret& secret,
                                        std::function<void(const std::string& refusal)> done);

class StreamServer {
 public:
  // Decides about a caller who has shown the secret: "" or why it is refused.
  using Accept = std::function<std::string(const std::string& hello)>;
  using Arrived = std::function<void(const std::string& hello, std::shared_ptr<ByteStream> stream)>;
  // Error(distributed) if it can't listen. "10.0.0.7:0" takes any port.
  StreamServer(const std::string& address, const std::optional<Tls>& tls, StreamSecret secret, Accept accept,
               Arrived arrived);
  ~StreamServer();  // ends all streams, and waits until gRPC is done with them
  StreamServer(const StreamServer&) = delete;
  StreamServer& operator=(const StreamServer&) = delete;
  int port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::collectives

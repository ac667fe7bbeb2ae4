#include "lockstep/collectives/grpc_transport.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "lockstep/collectives/connection_table.h"
#include "lockstep/collectives/frame_stream.h"
#include "lockstep/collectives/grpc_stream.h"
#include "lockstep/collectives/tcp_rendezvous.h"

namespace lockstep::collectives {
namespace {

constexpr std::chrono::seconds kLinger{1};  // for the peers to take what is on its way

class GrpcTransport;

// One peer's stream. Threads of gRPC's read; frames are copied into chunks, of which one is on its way at a time.
class Connection final : public StreamEvents {
 public:
  Connection(GrpcTransport& transport, int peer, std::shared_ptr<ByteStream> stream)
      : transport_(transport), peer_(peer), stream_(std::move(stream)), address_(stream_->peer()), reader_(peer) {}

  const std::string& address() const { return address_; }
  void start(Receiver* receiver);
  void send(OutgoingFrame frame);
  void revoke(std::uint64_t lease);
  void break_off(const Error& reason);
  void finish_writing();  // tells the peer that nothing follows what still waits
  bool idle();            // nothing waits to be written
  bool ended();
  void await_end();  // after break_off()

  bool received(Piece bytes) override;
  void finished() override { end(lost_error("closed the connection")); }
  void written(bool ok) override;

 private:
  // With the lock held: the next chunk to write, when that is possible; it is written without the lock.
  std::optional<StreamChunk> next_chunk(Notices& written);
  void end(const Error& error);
  bool may_release();  // with the lock held; then release() follows without it
  Error lost_error(const std::string& how) const {
    return Error(ErrorCode::peer, "transport", fmt::format("process {} ({}) {}", peer_, address_, how), 0);
  }

  GrpcTransport& transport_;
  const int peer_;
  const std::shared_ptr<ByteStream> stream_;
  const std::string address_;
  Receiver* receiver_ = nullptr;
  FrameReader reader_;

  std::mutex mutex_;
  FrameWriter writer_;
  bool started_ = false;
  bool writing_ = false, broken_ = false;           // a chunk is on its way; the stream takes no more
  bool finishing_ = false, said_finished_ = false;  // no more frames; the last chunk has been written
  bool closed_ = false;                             // nothing is read or written any more
  bool ended_ = false;                              // and everybody has been told
  bool released_ = false;
  std::optional<Error> reason_;
};

class GrpcTransport final : public ConnectionTable<Connection> {
 public:
  GrpcTransport(int rank, std::unique_ptr<StreamServer> server, std::vector<std::shared_ptr<ByteStream>> streams)
      : ConnectionTable(rank, streams.size()), server_(std::move(server)) {
    for (std::size_t peer = 0; peer < streams.size(); ++peer)
      if (streams[peer])
        put(peer, std::make_unique<Connection>(*this, static_cast<int>(peer), std::move(streams[peer])));
  }
  ~GrpcTransport() override { close({}); }

  void close(TimePoint deadline) override {
    if (!end_connections(deadline, kLinger)) return;
    each([](Connection& c) { c.await_end(); });
    server_.reset();
  }

 private:
  std::unique_ptr<StreamServer> server_;
};

void Connection::start(Receiver* receiver) {
  receiver_ = receiver;
  reader_.start(receiver);
  std::lock_guard lock(mutex_);
  if (released_) return;
  started_ = true;
  stream_->start(*this);
}

std::optional<StreamChunk> Connection::next_chunk(Notices& written) {
  if (!started_ || writing_ || broken_ || closed_) return std::nullopt;
  StreamChunk chunk;
  std::size_t capacity = 0;
  writer_.write_some(
      [&](const iovec* vectors, int count) -> ssize_t {
        std::size_t more = 0;
        for (int i = 0; i < count; ++i) more += vectors[i].iov_len;
        if (chunk.size + more > capacity) {  // the budget bounds the sum
          capacity = chunk.size == 0 ? more : std::min(kChunkBytes, 2 * (chunk.size + more));
          std::unique_ptr<std::byte[]> larger(new std::byte[capacity]);
          if (chunk.size > 0) std::memcpy(larger.get(), chunk.data.get(), chunk.size);
          chunk.data = std::move(larger);
        }
        for (int i = 0; i < count; ++i) {
          std::memcpy(chunk.data.get() + chunk.size, vectors[i].iov_base, vectors[i].iov_len);
          chunk.size += vectors[i].iov_len;
        }
        return static_cast<ssize_t>(more);
      },
      kChunkBytes, false, written);
  if (chunk.size == 0) {
    if (!finishing_ || said_finished_) return std::nullopt;
    said_finished_ = true;
  }
  writing_ = true;
  return chunk;
}

void Connection::send(OutgoingFrame frame) {
  Notices written, dropped;
  std::optional<StreamChunk> chunk;
  {
    std::lock_guard lock(mutex_);
    if (closed_ || finishing_) {
      dropped.push_back(std::move(frame.sent));
    } else {
      writer_.push(std::move(frame));
      chunk = next_chunk(written);
    }
  }
  if (chunk) stream_->write(std::move(*chunk));
  notify(written, true);
  notify(dropped, false);
}

void Connection::written(bool ok) {
  Notices written;
  std::optional<StreamChunk> chunk;
  bool release;
  {
    std::lock_guard lock(mutex_);
    writing_ = false;
    broken_ = broken_ || !ok;  // the reading side finds it ended
    chunk = next_chunk(written);
    release = may_release();
  }
  if (chunk) stream_->write(std::move(*chunk));
  notify(written, true);
  transport_.changed();
  if (release) stream_->release();
}

void Connection::revoke(std::uint64_t lease) {
  reader_.revoke(lease);
  Notices dropped;
  {
    std::lock_guard lock(mutex_);
    writer_.revoke(lease, dropped);
  }
  notify(dropped, false);
}

bool Connection::idle() {
  std::lock_guard lock(mutex_);
  return closed_ || broken_ || !started_ || (writer_.empty() && !writing_);
}

bool Connection::ended() {
  std::lock_guard lock(mutex_);
  return ended_ || !started_;
}

void Connection::break_off(const Error& reason) {
  {
    std::lock_guard lock(mutex_);
    if (!closed_ && !reason_) reason_ = reason;
  }
  stream_->cancel();
}

void Connection::finish_writing() {
  Notices written;
  std::optional<StreamChunk> chunk;
  {
    std::lock_guard lock(mutex_);
    finishing_ = true;
    chunk = next_chunk(written);
  }
  if (chunk) stream_->write(std::move(*chunk));
  notify(written, true);
}

void Connection::await_end() {
  bool release = false;
  {
    std::lock_guard lock(mutex_);
    if (!started_ && !released_) release = released_ = closed_ = ended_ = true;
  }
  if (release) stream_->release();
  stream_->wait();
}

bool Connection::received(Piece bytes) {
  if (bytes.empty()) {
    finished();
    return false;
  }
  try {
    reader_.feed(bytes);
  } catch (const Error& error) {
    end(lost_error(error.message()));
    return false;
  }
  return true;
}

void Connection::end(const Error& error) {
  reader_.reset();
  Notices dropped;
  Error reported = error;
  {
    std::lock_guard lock(mutex_);
    if (reason_) reported = *reason_;
    closed_ = true;
    writer_.clear(dropped);
  }
  if (!transport_.closing()) receiver_->lost(peer_, reported);
  notify(dropped, false);
  bool release;
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
    release = may_release();
  }
  transport_.changed();
  if (release) stream_->release();
}

bool Connection::may_release() { return ended_ && !writing_ && !std::exchange(released_, true); }

// ---- finding each other ---------------------------------------------------------------------------------------------

// Who has come. Calls that end late refer to it, so it is shared.
struct Arrivals {
  struct Hello {
    int from = -1, to = -1, size = 0;
    std::size_t frame_header = sizeof(FrameHeader);
    std::string text() const { return fmt::format("{} {} {} {}", from, to, size, frame_header); }
  };

  Arrivals(int rank, int size, const std::vector<int>& members)
      : rank(rank), size(size), streams(size), present(size, true), taken(size, true) {
    for (int member : members) present[member] = taken[member] = false;
    present[rank] = true;
  }

  std::string accept(const std::string& hello) {
    int from = -1;
    bool known = std::sscanf(hello.c_str(), "%d", &from) == 1 && from > rank && from < size &&
                 hello == Hello{from, rank, size}.text();
    if (!known) return "it is meant for another process";
    std::lock_guard lock(mutex);
    if (closed) return "this process has given up";
    return taken[from] ? fmt::format("process {} is connected already", from) : (taken[from] = true, "");
  }
  void arrived(const std::string& hello, std::shared_ptr<ByteStream> stream) {
    int from = std::atoi(hello.c_str());
    {
      std::lock_guard lock(mutex);
      if (!closed) {
        streams[from] = std::move(stream);
        present[from] = true;
        changed.notify_all();
        return;
      }
    }
    stream->cancel();
    stream->release();
  }
  void answered(int peer, const std::string& refusal) {
    std::lock_guard lock(mutex);
    present[peer] = refusal.empty();
    if (!refusal.empty() && failure.empty())
      failure = fmt::format("process {} does not accept the connection: {}", peer, refusal);
    changed.notify_all();
  }
  // Waits until all are there.
  void await(TimePoint deadline, Store& store) {
    std::unique_lock lock(mutex);
    std::vector<int> missing;
    auto settled = [&] {
      missing.clear();
      for (int peer = 0; peer < size; ++peer) {
        if (!present[peer]) missing.push_back(peer);
      }
      return missing.empty() || !failure.empty();
    };
    for (auto now = std::chrono::steady_clock::now();
         !changed.wait_until(lock, std::min(deadline, now + kCheckInterval), settled) && now < deadline;
         now = std::chrono::steady_clock::now()) {
      lock.unlock();
      store.check();
      lock.lock();
    }
    if (missing.empty()) return;
    if (!failure.empty()) throw_error(ErrorCode::peer, "connect", "{}", failure);
    lock.unlock();
    std::vector<std::string> described;
    for (int peer : missing) described.push_back(store.describe(peer));
    throw_error(ErrorCode::timeout, "connect", "no connection in time with {}", fmt::join(described, "; "));
  }
  void give_up() {
    std::vector<std::shared_ptr<ByteStream>> all;
    {
      std::lock_guard lock(mutex);
      closed = true;
      all.swap(streams);
    }
    for (auto& stream : all) {
      if (!stream) continue;
      stream->cancel();
      stream->release();
      stream->wait();
    }
  }

  const int rank, size;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<ByteStream>> streams;  // that are open, by the peer's rank
  std::vector<bool> present, taken;
  std::string failure;
  bool closed = false;
};

}  // namespace

std::unique_ptr<Transport> connect_grpc(Store& store, int rank, int size, TimePoint deadline, GrpcOptions options) {
  SocketAddress address = listen_address(options.address, options.interface, options.towards);
  const std::vector<int> members = options.members.empty() ? everybody(size) : options.members;
  if (rank == members.front()) store.set(options.prefix + "/token", random_token() + random_token());
  std::string token = get_from(store, options.prefix + "/token", deadline, members.front());
  StreamSecret secret{token.substr(0, token.size() / 2), token.substr(token.size() / 2)};
  auto arrivals = std::make_shared<Arrivals>(rank, size, members);
  std::unique_ptr<StreamServer> server;
  if (rank < members.back()) {
    server = std::make_unique<StreamServer>(
        address.text(), options.tls, secret, [arrivals](const std::string& hello) { return arrivals->accept(hello); },
        [arrivals](const std::string& hello, std::shared_ptr<ByteStream> stream) {
          arrivals->arrived(hello, std::move(stream));
        });
    address.set_port(server->port());
    store.set(fmt::format("{}/address/{}", options.prefix, rank), publish(address));
  }
  try {
    for (int peer : members) {
      if (peer >= rank) break;
      SocketAddress there =
          parse_published(get_from(store, fmt::format("{}/address/{}", options.prefix, peer), deadline, peer));
      auto stream = call_stream(there.text(), options.tls, Arrivals::Hello{rank, peer, size}.text(), secret,
                                [arrivals, peer](const std::string& refusal) { arrivals->answered(peer, refusal); });
      std::lock_guard lock(arrivals->mutex);
      arrivals->streams[peer] = std::move(stream);
    }
    arrivals->await(deadline, store);
  } catch (...) {
    arrivals->give_up();
    throw;
  }
  return std::make_unique<GrpcTransport>(rank, std::move(server), std::move(arrivals->streams));
}

}  // namespace lockstep::collectives

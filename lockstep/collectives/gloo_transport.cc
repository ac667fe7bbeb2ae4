#include "lockstep/collectives/gloo_transport.h"

#include <fmt/format.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/loop.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>

#include "lockstep/collectives/tcp_rendezvous.h"

namespace lockstep::collectives {
namespace {

namespace tcp = gloo::transport::tcp;

constexpr std::size_t kInputBytes = 128 << 10;  // small frames are read many at a time
constexpr std::size_t kTurnBytes = 2 << 20;     // per connection and direction before others have their turn
constexpr std::size_t kMaxVectors = 64;
constexpr std::chrono::milliseconds kLinger{200};  // for the peers to close as well

using Notices = std::vector<std::function<void(bool)>>;

class GlooTransport;

// One peer's socket. Everything that reads happens on the device's event loop; writing happens there too, except that
// an urgent frame is tried at once by the thread that sends it.
class Connection final : public tcp::Handler {
 public:
  Connection(GlooTransport& transport, int peer, int fd)
      : transport_(transport), peer_(peer), fd_(fd), address_(peer_address(fd).text()), input_(kInputBytes) {}
  ~Connection() override {
    if (fd_ >= 0) ::close(fd_);
  }

  const std::string& address() const { return address_; }
  void start(Receiver* receiver);
  void send(OutgoingFrame frame);
  void revoke(std::uint64_t lease);
  // Shuts the socket down; the event loop does the rest.
  void break_off(const Error& reason);
  void finish_writing();  // tells the peer that no more will come
  bool idle();            // nothing waits to be written
  bool closed();

  void handleEvents(int events) override;

 private:
  struct Writing {
    OutgoingFrame frame;
    std::size_t written = 0;
    std::vector<std::byte> rest;  // the copied payload of a revoked frame
  };
  enum class Progress { done, blocked, broken };

  Progress write_some_locked(std::size_t budget, bool urgent_only, Notices& written, Notices& dropped);
  void arm_locked();
  bool read();  // false: the connection has ended
  bool consume_input();
  bool begin_payload();
  bool end_payload();
  ssize_t read_payload();
  void end(const Error& error);
  Error lost_error(const std::string& how) const;

  GlooTransport& transport_;
  const int peer_;
  int fd_;
  const std::string address_;
  Receiver* receiver_ = nullptr;

  std::mutex send_mutex_;
  std::deque<OutgoingFrame> urgent_, bulk_;
  std::optional<Writing> writing_;
  bool armed_ = false;  // the event loop waits for the socket to take more
  bool started_ = false, closed_ = false;
  std::optional<Error> reason_;

  // Of the event loop; landing_ is shared with revoke().
  std::vector<std::byte> input_;
  std::size_t input_begin_ = 0, input_end_ = 0;
  FrameHeader header_;
  std::size_t header_bytes_ = 0;
  bool in_payload_ = false;
  std::mutex landing_mutex_;
  Landing landing_;
  std::size_t landed_ = 0;  // payload bytes in place
  std::size_t landing_piece_ = 0, landing_used_ = 0;
};

class GlooTransport final : public Transport {
 public:
  GlooTransport(std::shared_ptr<tcp::Device> device, int rank, std::vector<int> fds)
      : device_(std::move(device)), rank_(rank), connections_(fds.size()) {
    for (std::size_t peer = 0; peer < fds.size(); ++peer) {
      if (fds[peer] >= 0) connections_[peer] = std::make_unique<Connection>(*this, static_cast<int>(peer), fds[peer]);
    }
  }
  ~GlooTransport() override {
    close({});
    device_.reset();  // ends the event loop before the connections go
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(connections_.size()); }
  std::string peer_name(int peer) const override {
    if (!connections_[peer]) return fmt::format("process {}", peer);
    return fmt::format("process {} ({})", peer, connections_[peer]->address());
  }

  void start(Receiver* receiver) override {
    each([&](Connection& c) { c.start(receiver); });
  }
  void send(int peer, OutgoingFrame frame) override { connections_[peer]->send(std::move(frame)); }
  void revoke(std::uint64_t lease) override {
    each([&](Connection& c) { c.revoke(lease); });
  }
  void abort(const Error& reason) override {
    each([&](Connection& c) { c.break_off(reason); });
  }

  void close(TimePoint deadline) override {
    if (closing_.exchange(true)) return;
    wait_until(deadline, [](Connection& c) { return c.idle(); });
    each([](Connection& c) { c.finish_writing(); });
    wait_until(std::min(deadline, std::chrono::steady_clock::now() + kLinger),
               [](Connection& c) { return c.closed(); });
    each([](Connection& c) { c.break_off(Error(ErrorCode::cancelled, "transport", "closed", 0)); });
    wait_until(std::chrono::steady_clock::now() + kLinger, [](Connection& c) { return c.closed(); });
  }

  tcp::Device& device() { return *device_; }
  bool closing() const { return closing_; }
  // A connection has become idle or closed.
  void changed() {
    if (!closing_) return;
    std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  template <class F>
  void each(F f) {
    for (auto& connection : connections_) {
      if (connection) f(*connection);
    }
  }
  template <class Predicate>
  void wait_until(TimePoint deadline, Predicate predicate) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] {
      return std::all_of(connections_.begin(), connections_.end(), [&](auto& c) { return !c || predicate(*c); });
    });
  }

  std::shared_ptr<tcp::Device> device_;
  const int rank_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

Error Connection::lost_error(const std::string& how) const {
  return Error(ErrorCode::peer, "transport", fmt::format("process {} ({}) {}", peer_, address_, how), 0);
}

void Connection::start(Receiver* receiver) {
  receiver_ = receiver;
  std::lock_guard lock(send_mutex_);
  started_ = true;
  transport_.device().registerDescriptor(fd_, EPOLLIN, this);
}

// ---- writing --------------------------------------------------------------------------------------------------------

void Connection::send(OutgoingFrame frame) {
  Notices written, dropped;
  {
    std::lock_guard lock(send_mutex_);
    if (closed_) {
      dropped.push_back(std::move(frame.sent));
    } else {
      bool urgent = frame.urgent;
      (urgent ? urgent_ : bulk_).push_back(std::move(frame));
      if (urgent && !armed_) write_some_locked(kTurnBytes, true, written, dropped);
      if (writing_ || !urgent_.empty() || !bulk_.empty()) arm_locked();
    }
  }
  for (auto& sent : written) sent(true);
  for (auto& sent : dropped) {
    if (sent) sent(false);
  }
}

void Connection::arm_locked() {
  if (armed_ || closed_) return;
  armed_ = true;
  transport_.device().registerDescriptor(fd_, EPOLLIN | EPOLLOUT, this);
}

Connection::Progress Connection::write_some_locked(std::size_t budget, bool urgent_only, Notices& written,
                                                   Notices& dropped) {
  while (budget > 0) {
    if (!writing_) {
      auto& queue = !urgent_.empty() ? urgent_ : bulk_;
      if (queue.empty() || (urgent_only && &queue == &bulk_)) return Progress::done;
      writing_.emplace();
      writing_->frame = std::move(queue.front());
      queue.pop_front();
    }
    Writing& w = *writing_;
    std::size_t whole = sizeof(FrameHeader) + w.frame.header.length, skip = w.written;
    iovec vectors[kMaxVectors];
    std::size_t count = 0, offered = 0;
    auto add = [&](const std::byte* data, std::size_t size) {
      std::size_t skipped = std::min(skip, size);
      skip -= skipped;
      size = std::min(size - skipped, budget - offered);
      if (size == 0) return;
      vectors[count++] = {const_cast<std::byte*>(data + skipped), size};
      offered += size;
    };
    add(reinterpret_cast<const std::byte*>(&w.frame.header), sizeof(FrameHeader));
    for (Piece piece : w.frame.pieces) {
      if (count == kMaxVectors) break;
      add(piece.data(), piece.size());
    }
    msghdr message{};
    message.msg_iov = vectors;
    message.msg_iovlen = count;
    ssize_t n = ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Progress::blocked;
      if (!reason_) reason_ = lost_error(fmt::format("closed the connection: {}", std::strerror(errno)));
      ::shutdown(fd_, SHUT_RDWR);  // the event loop finds it ended
      return Progress::broken;
    }
    w.written += static_cast<std::size_t>(n);
    budget -= std::min(budget, static_cast<std::size_t>(n));
    if (w.written == whole) {
      if (w.frame.sent) written.push_back(std::move(w.frame.sent));
      writing_.reset();
    }
  }
  return Progress::blocked;
}

void Connection::revoke(std::uint64_t lease) {
  {
    std::lock_guard lock(landing_mutex_);
    if (in_payload_ && landing_.lease == lease) landing_.pieces.clear();
  }
  Notices dropped;
  {
    std::lock_guard lock(send_mutex_);
    for (auto* queue : {&urgent_, &bulk_}) {
      for (auto& frame : *queue) {
        if (frame.lease == lease) dropped.push_back(std::move(frame.sent));
      }
      std::erase_if(*queue, [&](const OutgoingFrame& frame) { return frame.lease == lease; });
    }
    if (writing_ && writing_->frame.lease == lease) {
      dropped.push_back(std::move(writing_->frame.sent));
      writing_->frame.sent = nullptr;
      if (writing_->written == 0) {
        writing_.reset();
      } else {
        Writing& w = *writing_;
        w.rest.resize(w.frame.header.length);
        MutablePiece rest(w.rest);
        copy_pieces(std::span(&rest, 1), w.frame.pieces);
        w.frame.pieces = {Piece(w.rest)};
        w.frame.lease = 0;
      }
    }
  }
  for (auto& sent : dropped) {
    if (sent) sent(false);
  }
}

bool Connection::idle() {
  std::lock_guard lock(send_mutex_);
  return closed_ || !started_ || (!writing_ && urgent_.empty() && bulk_.empty());
}

bool Connection::closed() {
  std::lock_guard lock(send_mutex_);
  return closed_ || !started_;
}

void Connection::break_off(const Error& reason) {
  std::lock_guard lock(send_mutex_);
  if (closed_) return;
  if (!reason_) reason_ = reason;
  ::shutdown(fd_, SHUT_RDWR);
}

void Connection::finish_writing() {
  std::lock_guard lock(send_mutex_);
  if (!closed_) ::shutdown(fd_, SHUT_WR);
}

// ---- the event loop -------------------------------------------------------------------------------------------------

void Connection::handleEvents(int events) {
  if (events & EPOLLOUT) {
    Notices written, dropped;
    {
      std::lock_guard lock(send_mutex_);
      write_some_locked(kTurnBytes, false, written, dropped);
      if (!writing_ && urgent_.empty() && bulk_.empty()) {
        armed_ = false;
        transport_.device().registerDescriptor(fd_, EPOLLIN, this);
      }
    }
    for (auto& sent : written) sent(true);
    transport_.changed();
  }
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read();
}

bool Connection::read() {
  for (std::size_t turn = 0; turn < kTurnBytes;) {
    ssize_t n;
    if (in_payload_ && input_begin_ == input_end_ && header_.length - landed_ > kInputBytes / 2) {
      n = read_payload();
    } else {
      n = ::recv(fd_, input_.data(), input_.size(), MSG_DONTWAIT);
      if (n > 0) {
        input_begin_ = 0;
        input_end_ = static_cast<std::size_t>(n);
      }
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (n <= 0) {
      end(lost_error(n == 0 ? std::string("closed the connection")
                            : fmt::format("closed the connection: {}", std::strerror(errno))));
      return false;
    }
    turn += static_cast<std::size_t>(n);
    if (!consume_input()) return false;
  }
  return true;
}

// Takes what has been read apart into frames, and ends the payload that has been read directly.
bool Connection::consume_input() {
  for (;;) {
    if (!in_payload_) {
      std::size_t n = std::min(sizeof(FrameHeader) - header_bytes_, input_end_ - input_begin_);
      std::memcpy(reinterpret_cast<std::byte*>(&header_) + header_bytes_, input_.data() + input_begin_, n);
      header_bytes_ += n;
      input_begin_ += n;
      if (header_bytes_ < sizeof(FrameHeader)) return true;
      if (!begin_payload()) return false;
    }
    {
      std::lock_guard lock(landing_mutex_);
      std::size_t n = std::min<std::size_t>(header_.length - landed_, input_end_ - input_begin_);
      landed_ += n;
      while (n > 0 && landing_piece_ < landing_.pieces.size()) {
        MutablePiece to = landing_.pieces[landing_piece_].subspan(landing_used_);
        std::size_t part = std::min(n, to.size());
        std::memcpy(to.data(), input_.data() + input_begin_, part);
        input_begin_ += part;
        landing_used_ += part;
        n -= part;
        if (part == to.size()) ++landing_piece_, landing_used_ = 0;
      }
      input_begin_ += n;  // what is thrown away
      if (landed_ < header_.length) return true;
    }
    if (!end_payload()) return false;
  }
}

bool Connection::begin_payload() {
  try {
    std::lock_guard lock(landing_mutex_);
    landing_ = receiver_->landing(peer_, header_);
    landed_ = landing_piece_ = landing_used_ = 0;
    in_payload_ = true;
    return true;
  } catch (const Error& error) {
    end(lost_error(error.message()));
    return false;
  }
}

bool Connection::end_payload() {
  std::uint64_t token;
  {
    std::lock_guard lock(landing_mutex_);
    in_payload_ = false;
    header_bytes_ = 0;
    token = landing_.token;
    landing_ = {};
  }
  FrameHeader header = header_;
  receiver_->landed(peer_, header, token);
  return true;
}

ssize_t Connection::read_payload() {
  std::lock_guard lock(landing_mutex_);
  std::size_t left = header_.length - landed_;
  if (landing_.pieces.empty()) {  // thrown away
    ssize_t n = ::recv(fd_, input_.data(), std::min(left, input_.size()), MSG_DONTWAIT);
    if (n > 0) landed_ += static_cast<std::size_t>(n);
    return n;
  }
  iovec vectors[kMaxVectors];
  std::size_t count = 0, used = landing_used_;
  for (std::size_t i = landing_piece_; i < landing_.pieces.size() && count < kMaxVectors; ++i, used = 0) {
    MutablePiece to = landing_.pieces[i].subspan(used);
    if (!to.empty()) vectors[count++] = {to.data(), to.size()};
  }
  ssize_t n = ::readv(fd_, vectors, static_cast<int>(count));
  for (std::size_t done = n > 0 ? static_cast<std::size_t>(n) : 0; done > 0;) {
    std::size_t part = std::min(done, landing_.pieces[landing_piece_].size() - landing_used_);
    landing_used_ += part;
    landed_ += part;
    done -= part;
    if (landing_used_ == landing_.pieces[landing_piece_].size()) ++landing_piece_, landing_used_ = 0;
  }
  return n;
}

void Connection::end(const Error& error) {
  {
    std::lock_guard lock(landing_mutex_);
    in_payload_ = false;
    landing_ = {};
  }
  Notices dropped;
  Error reported = error;
  {
    std::lock_guard lock(send_mutex_);
    transport_.device().unregisterDescriptor(fd_, this);
    if (reason_) reported = *reason_;
    closed_ = true;
    ::close(fd_);
    fd_ = -1;
    if (writing_) dropped.push_back(std::move(writing_->frame.sent));
    for (auto* queue : {&urgent_, &bulk_}) {
      for (auto& frame : *queue) dropped.push_back(std::move(frame.sent));
      queue->clear();
    }
    writing_.reset();
  }
  if (!transport_.closing()) receiver_->lost(peer_, reported);
  for (auto& sent : dropped) {
    if (sent) sent(false);
  }
  transport_.changed();
}

}  // namespace

std::unique_ptr<Transport> connect_gloo(Store& store, int rank, int size, TimePoint deadline, GlooOptions options) {
  tcp::attr attr;
  attr.hostname = options.address;
  attr.iface = options.interface;
  if (attr.hostname.empty() && attr.iface.empty()) {
    attr.hostname = options.towards.empty() ? "127.0.0.1" : address_towards(options.towards);
  }
  std::shared_ptr<tcp::Device> device;
  SocketAddress bind;
  try {
    attr = tcp::CreateDeviceAttr(attr);
    device = std::make_shared<tcp::Device>(attr);
  } catch (const std::exception& error) {
    throw_error(ErrorCode::distributed, "connect", "cannot listen on {}: {}",
                attr.iface.empty() ? attr.hostname : attr.iface, error.what());
  }
  bind.storage = attr.ai_addr;
  bind.length = static_cast<socklen_t>(attr.ai_addrlen);
  return std::make_unique<GlooTransport>(std::move(device), rank,
                                         connect_all(store, rank, size, deadline, bind, options.prefix));
}

}  // namespace lockstep::collectives

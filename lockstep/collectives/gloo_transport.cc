#include "lockstep/collectives/gloo_transport.h"

#include <fmt/format.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/loop.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>

#include "lockstep/collectives/connection_table.h"
#include "lockstep/collectives/frame_stream.h"
#include "lockstep/collectives/tcp_rendezvous.h"

namespace lockstep::collectives {
namespace {

namespace tcp = gloo::transport::tcp;

constexpr std::size_t kInputBytes = 128 << 10;     // small frames are read many at a time
constexpr std::size_t kTurnBytes = 2 << 20;        // per connection and direction before others have their turn
constexpr std::chrono::milliseconds kLinger{200};  // for the peers to close as well

class GlooTransport;

// One peer's socket. Everything that reads happens on the device's event loop; writing happens there too, except that
// an urgent frame is tried at once by the thread that sends it.
class Connection final : public tcp::Handler {
 public:
  Connection(GlooTransport& transport, int peer, int fd)
      : transport_(transport),
        peer_(peer),
        fd_(fd),
        address_(peer_address(fd).text()),
        input_(kInputBytes),
        reader_(peer) {}
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
  bool ended();

  void handleEvents(int events) override;

 private:
  void write_locked(bool urgent_only, Notices& written);
  void read();
  void end(const Error& error);
  Error lost_error(const std::string& how) const;

  GlooTransport& transport_;
  const int peer_;
  int fd_;
  const std::string address_;
  Receiver* receiver_ = nullptr;
  std::vector<std::byte> input_;
  FrameReader reader_;

  std::mutex mutex_;
  FrameWriter writer_;
  bool armed_ = false;  // the event loop waits for the socket to take more
  bool started_ = false, closed_ = false;
  bool ended_ = false;  // closed, and the event loop has told everybody
  std::optional<Error> reason_;
};

class GlooTransport final : public ConnectionTable<Connection> {
 public:
  GlooTransport(std::shared_ptr<tcp::Device> device, int rank, std::vector<int> fds)
      : ConnectionTable(rank, fds.size()), device_(std::move(device)) {
    for (std::size_t peer = 0; peer < fds.size(); ++peer)
      if (fds[peer] >= 0) put(peer, std::make_unique<Connection>(*this, static_cast<int>(peer), fds[peer]));
  }
  ~GlooTransport() override {
    close({});
    device_.reset();  // ends the event loop before the connections go
  }

  void close(TimePoint deadline) override {
    if (!end_connections(deadline, kLinger)) return;
    // Ends the event loop's thread, unless a connection still hangs in it.
    if (await(std::chrono::steady_clock::now() + kLinger, [](Connection& c) { return c.ended(); })) device_.reset();
  }

  tcp::Device& device() { return *device_; }

 private:
  std::shared_ptr<tcp::Device> device_;
};

Error Connection::lost_error(const std::string& how) const {
  return Error(ErrorCode::peer, "transport", fmt::format("process {} ({}) {}", peer_, address_, how), 0);
}

void Connection::start(Receiver* receiver) {
  receiver_ = receiver;
  reader_.start(receiver);
  std::lock_guard lock(mutex_);
  started_ = true;
  transport_.device().registerDescriptor(fd_, EPOLLIN, this);
}

void Connection::send(OutgoingFrame frame) {
  Notices written, dropped;
  {
    std::lock_guard lock(mutex_);
    if (closed_) {
      dropped.push_back(std::move(frame.sent));
    } else {
      bool urgent = frame.urgent;
      writer_.push(std::move(frame));
      if (urgent && !armed_) write_locked(true, written);
      if (!writer_.empty() && !armed_) {
        armed_ = true;
        transport_.device().registerDescriptor(fd_, EPOLLIN | EPOLLOUT, this);
      }
    }
  }
  notify(written, true);
  notify(dropped, false);
}

void Connection::write_locked(bool urgent_only, Notices& written) {
  auto write = [this](const iovec* vectors, int count) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(vectors);
    message.msg_iovlen = static_cast<std::size_t>(count);
    return ::sendmsg(fd_, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  };
  if (writer_.write_some(write, kTurnBytes, urgent_only, written) != FrameWriter::Progress::broken) return;
  if (!reason_) reason_ = lost_error(fmt::format("closed the connection: {}", std::strerror(errno)));
  ::shutdown(fd_, SHUT_RDWR);  // the event loop finds it ended
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
  return closed_ || !started_ || writer_.empty();
}

bool Connection::ended() {
  std::lock_guard lock(mutex_);
  return ended_ || !started_;
}

void Connection::break_off(const Error& reason) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  if (!reason_) reason_ = reason;
  ::shutdown(fd_, SHUT_RDWR);
}

void Connection::finish_writing() {
  std::lock_guard lock(mutex_);
  if (!closed_) ::shutdown(fd_, SHUT_WR);
}

void Connection::handleEvents(int events) {
  if (events & EPOLLOUT) {
    Notices written;
    {
      std::lock_guard lock(mutex_);
      write_locked(false, written);
      if (writer_.empty()) {
        armed_ = false;
        transport_.device().registerDescriptor(fd_, EPOLLIN, this);
      }
    }
    notify(written, true);
    transport_.changed();
  }
  if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read();
}

void Connection::read() {
  for (std::size_t turn = 0; turn < kTurnBytes;) {
    bool direct = reader_.direct() > kInputBytes / 2;
    ssize_t n = direct ? reader_.read_direct([this](const iovec* v, int count) { return ::readv(fd_, v, count); })
                       : ::recv(fd_, input_.data(), input_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) {
      end(lost_error(n == 0 ? std::string("closed the connection")
                            : fmt::format("closed the connection: {}", std::strerror(errno))));
      return;
    }
    turn += static_cast<std::size_t>(n);
    try {
      reader_.feed(direct ? Piece() : Piece(input_.data(), static_cast<std::size_t>(n)));
    } catch (const Error& error) {
      end(lost_error(error.message()));
      return;
    }
  }
}

void Connection::end(const Error& error) {
  reader_.reset();
  Notices dropped;
  Error reported = error;
  {
    std::lock_guard lock(mutex_);
    transport_.device().unregisterDescriptor(fd_, this);
    if (reason_) reported = *reason_;
    closed_ = true;
    ::close(fd_);
    fd_ = -1;
    writer_.clear(dropped);
  }
  if (!transport_.closing()) receiver_->lost(peer_, reported);
  notify(dropped, false);
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  transport_.changed();
}

}  // namespace

std::unique_ptr<Transport> connect_gloo(Store& store, int rank, int size, TimePoint deadline, GlooOptions options) {
  SocketAddress bind = listen_address(options.address, options.interface, options.towards);
  tcp::attr attr;
  attr.ai_addr = bind.storage;
  attr.ai_addrlen = bind.length;
  attr.ai_family = bind.storage.ss_family;
  attr.ai_socktype = SOCK_STREAM;
  std::shared_ptr<tcp::Device> device;
  try {
    device = std::make_shared<tcp::Device>(attr);
  } catch (const std::exception& error) {
    throw_error(ErrorCode::distributed, "connect", "cannot listen on {}: {}", bind.text(), error.what());
  }
  if (options.members.empty()) options.members = everybody(size);
  return std::make_unique<GlooTransport>(
      std::move(device), rank, connect_all(store, rank, size, options.members, deadline, bind, options.prefix));
}

}  // namespace lockstep::collectives

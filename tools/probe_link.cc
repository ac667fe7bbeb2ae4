#include "tools/probe_link.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "lockstep/support/error.h"

namespace lockstep::tools {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// A probe is the secret and then requests: 'p', answered by the time (8 bytes); 's' and a length, then so many bytes,
// answered by one; 'r' and a duration in ms, answered by blocks, each of a byte that says whether there is one more.
constexpr std::size_t block = 256 << 10;
constexpr int pings = 60;
constexpr milliseconds patience{10000};

struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
};

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

void set_timeouts(int fd, milliseconds time) {
  timeval t{.tv_sec = time.count() / 1000, .tv_usec = (time.count() % 1000) * 1000};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
  int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool send_all(int fd, const void* data, std::size_t size) {
  auto* at = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t n = ::send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}
bool receive_all(int fd, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    ssize_t n = ::recv(fd, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) return false;
    at += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// Blocks until the time is up, each with a first byte of 1, then a byte 0. Bytes sent, or 0 if the connection broke.
double pour(int fd, milliseconds time) {
  std::vector<char> data(block, 1);
  double sent = 0;
  for (auto end = Clock::now() + time; Clock::now() < end; sent += static_cast<double>(block))
    if (!send_all(fd, data.data(), data.size())) return 0;
  char last = 0;
  return send_all(fd, &last, 1) ? sent : 0;
}
bool drink(int fd, double* received = nullptr) {
  std::vector<char> data(block);
  for (;;) {
    if (!receive_all(fd, data.data(), 1)) return false;
    if (data[0] == 0) return true;
    if (!receive_all(fd, data.data() + 1, block - 1)) return false;
    if (received != nullptr) *received += static_cast<double>(block);
  }
}

bool equal(const std::string& a, const std::string& b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

// 0 or errno.
int connect_within(int fd, const addrinfo& to, milliseconds timeout) {
  if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd waits{.fd = fd, .events = POLLOUT};
  if (::poll(&waits, 1, static_cast<int>(timeout.count())) <= 0) return ETIMEDOUT;
  int status = 0;
  socklen_t size = sizeof status;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &status, &size);
  return status;
}

}  // namespace

ProbeServer::ProbeServer(std::string secret) : secret_(std::move(secret)) {
  listener_ = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  int off = 0, status;
  if (listener_ >= 0) {
    ::setsockopt(listener_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    status = ::bind(listener_, reinterpret_cast<sockaddr*>(&any), sizeof any);
  } else {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    status = ::bind(listener_, reinterpret_cast<sockaddr*>(&any4), sizeof any4);
  }
  if (status != 0 || ::listen(listener_, SOMAXCONN) != 0)
    throw_error(ErrorCode::io, "lockstep doctor", "can't listen: {}", std::strerror(errno));
  sockaddr_storage name{};
  socklen_t size = sizeof name;
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&name), &size);
  port_ = ntohs(reinterpret_cast<sockaddr_in*>(&name)->sin_port);  // at the same place for IPv6
  thread_ = std::thread([this] { serve(); });
}

ProbeServer::~ProbeServer() {
  stopping_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
}

void ProbeServer::serve() {
  std::vector<std::thread> answering;
  while (!stopping_) {
    int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0 && errno != EINTR && errno != ECONNABORTED) break;
    if (fd >= 0) answering.emplace_back([this, fd] { answer(fd); });
  }
  for (auto& thread : answering) thread.join();
}

void ProbeServer::answer(int fd) const {
  Socket socket{fd};
  set_timeouts(fd, patience);
  std::string secret(secret_.size(), 0);
  if (!receive_all(fd, secret.data(), secret.size()) || !equal(secret, secret_)) return;
  for (char request; receive_all(fd, &request, 1);) {
    double now = wall_clock();
    std::int64_t time = 0;
    switch (request) {
      case 'p':
        if (!send_all(fd, &now, sizeof now)) return;
        break;
      case 's':
        if (!drink(fd) || !send_all(fd, &request, 1)) return;
        break;
      case 'r':
        if (!receive_all(fd, &time, sizeof time) ||
            pour(fd, std::clamp(milliseconds(time), milliseconds(1), patience)) == 0)
          return;
        break;
      default:
        return;
    }
  }
}

LinkReport probe_link(const std::string& host, int port, const std::string& secret, milliseconds transfer,
                      milliseconds timeout) {
  LinkReport report;
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (status != 0) {
    report.error = fmt::format("{} can't be resolved: {}", host, ::gai_strerror(status));
    return report;
  }
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(list, ::freeaddrinfo);
  Socket socket{::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (int error = connect_within(socket.fd, *list, timeout)) {
    report.error = fmt::format("no connection to {}:{}: {}", host, port,
                               error == ETIMEDOUT ? "no answer (a firewall?)" : std::strerror(error));
    return report;
  }
  int fd = socket.fd;
  int flags = 0;
  ::ioctl(fd, FIONBIO, &flags);
  set_timeouts(fd, std::max(timeout, 4 * transfer));
  auto broke = [&](const char* when) {
    report.error = fmt::format("the connection to {}:{} broke {}: {}", host, port, when, std::strerror(errno));
    return report;
  };
  if (!send_all(fd, secret.data(), secret.size())) return broke("at once");
  std::vector<double> round_trips;
  for (int i = 0; i < pings; ++i) {
    char request = 'p';
    double theirs = 0, wall = wall_clock();
    auto begin = Clock::now();
    if (!send_all(fd, &request, 1) || !receive_all(fd, &theirs, sizeof theirs)) return broke("during round trips");
    double trip = std::chrono::duration<double>(Clock::now() - begin).count();
    if (round_trips.empty() || trip < *std::min_element(round_trips.begin(), round_trips.end())) {
      report.clock_offset = theirs - (wall + trip / 2);
      report.clock_error = trip / 2;
    }
    round_trips.push_back(trip);
  }
  std::nth_element(round_trips.begin(), round_trips.begin() + pings / 2, round_trips.end());
  report.latency = round_trips[pings / 2];
  auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  // The best of a few, since a busy machine is no slow link.
  constexpr int slices = 3;
  for (int i = 0; i < slices; ++i) {
    char request = 's', done = 0;
    auto begin = Clock::now();
    double sent = send_all(fd, &request, 1) ? pour(fd, transfer / slices) : 0;
    if (sent == 0 || !receive_all(fd, &done, 1)) return broke("while sending");
    report.there = std::max(report.there, sent / seconds_since(begin));
    request = 'r';
    std::int64_t time = transfer.count() / slices;
    double received = 0;
    begin = Clock::now();
    if (!send_all(fd, &request, 1) || !send_all(fd, &time, sizeof time) || !drink(fd, &received))
      return broke("while receiving");
    report.back = std::max(report.back, received / seconds_since(begin));
  }
  return report;
}

}  // namespace lockstep::tools

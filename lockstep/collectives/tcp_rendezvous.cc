#include "lockstep/collectives/tcp_rendezvous.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lockstep/support/log.h"

namespace lockstep::collectives {
namespace {

constexpr std::chrono::seconds kHelloDeadline{10};  // for a stranger to prove that he is none
constexpr std::size_t kMaxStrangers = 256;

struct Hello {
  std::array<char, 8> magic{'l', 'o', 'c', 'k', 's', 't', 'e', 'p'};
  std::uint32_t frame_header = sizeof(FrameHeader);
  std::int32_t from = 0, to = 0, size = 0;
  std::array<char, 64> token{};  // hexadecimal
};

struct Socket {
  int fd = -1;
  Socket() = default;
  explicit Socket(int fd) : fd(fd) {}
  Socket(Socket&& o) noexcept : fd(o.release()) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd, o.fd);
    return *this;
  }
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  int release() { return std::exchange(fd, -1); }
};

struct Pending {
  Socket socket;
  int peer = -1;  // -1: a stranger
  bool connecting = false;
  Hello theirs, mine;
  std::size_t received = 0, sent = 0;
  TimePoint until;
};

[[noreturn]] void fail(const char* what, const SocketAddress& address) {
  throw_error(ErrorCode::distributed, "connect", "{} {}: {}", what, address.text(), std::strerror(errno));
}

Socket listen_on(SocketAddress& address) {
  Socket listener(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (listener.fd < 0) fail("socket", address);
  if (::bind(listener.fd, reinterpret_cast<sockaddr*>(&address.storage), address.length) < 0) fail("bind", address);
  if (::listen(listener.fd, SOMAXCONN) < 0) fail("listen on", address);
  address.length = sizeof(address.storage);
  if (::getsockname(listener.fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) < 0) {
    fail("getsockname", address);
  }
  return listener;
}

Socket connect_to(const SocketAddress& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (socket.fd < 0) fail("socket", address);
  if (::connect(socket.fd, reinterpret_cast<const sockaddr*>(&address.storage), address.length) < 0 &&
      errno != EINPROGRESS) {
    fail("connect to", address);
  }
  return socket;
}

// One step of the handshake on a socket that is ready. True: it is complete. Throws nothing: a broken socket is closed.
bool advance(Pending& p) {
  if (p.connecting) {
    int error = 0;
    socklen_t length = sizeof(error);
    ::getsockopt(p.socket.fd, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error) {
      errno = error;
      p.socket = Socket();
      return false;
    }
    p.connecting = false;
  }
  bool initiator = p.peer >= 0;
  auto transfer = [&](std::size_t& at, Hello& hello, bool out) {
    while (p.socket.fd >= 0 && at < sizeof(Hello)) {
      char* from = reinterpret_cast<char*>(&hello) + at;
      ssize_t n = out ? ::send(p.socket.fd, from, sizeof(Hello) - at, MSG_NOSIGNAL)
                      : ::recv(p.socket.fd, from, sizeof(Hello) - at, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      if (n <= 0) {
        if (n == 0) errno = ECONNRESET;
        p.socket = Socket();
        return false;
      }
      at += static_cast<std::size_t>(n);
    }
    return p.socket.fd >= 0;
  };
  if (initiator) return transfer(p.sent, p.mine, true) && transfer(p.received, p.theirs, false);
  return transfer(p.received, p.theirs, false);
}

class Rendezvous {
 public:
  Rendezvous(int rank, int size, const std::vector<int>& members, std::string token, Store& store)
      : rank_(rank), size_(size), members_(members), token_(std::move(token)), store_(store), fds_(size) {}

  void await(Socket listener, std::vector<Pending> connecting, TimePoint deadline) {
    pending_ = std::move(connecting);
    missing_ = static_cast<int>(members_.size()) - 1;
    while (missing_ > 0) {
      auto now = std::chrono::steady_clock::now();
      if (now >= deadline) give_up();
      store_.check();
      std::erase_if(pending_, [&](const Pending& p) { return p.peer < 0 && p.until <= now; });
      std::vector<pollfd> polls{{listener.fd, POLLIN, 0}};
      for (const Pending& p : pending_) {
        bool writes = p.connecting || (p.peer >= 0 && p.sent < sizeof(Hello));
        polls.push_back({p.socket.fd, static_cast<short>(writes ? POLLOUT : POLLIN), 0});
      }
      auto wait = std::min<TimePoint::duration>(deadline - now, kCheckInterval);
      int ms = static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(wait).count()) + 1;
      if (::poll(polls.data(), polls.size(), ms) < 0 && errno != EINTR) {
        throw_error(ErrorCode::distributed, "connect", "poll: {}", std::strerror(errno));
      }
      for (std::size_t i = 0; i < pending_.size(); ++i) {
        if (polls[i + 1].revents) step(pending_[i]);
      }
      std::erase_if(pending_, [](const Pending& p) { return p.socket.fd < 0; });
      if (polls[0].revents) accept_from(listener.fd);
    }
  }

  std::vector<int> take() {
    std::vector<int> fds;
    for (Socket& socket : fds_) fds.push_back(socket.release());
    return fds;
  }

  Hello hello(int peer) const {
    Hello hello;
    hello.from = rank_;
    hello.to = peer;
    hello.size = size_;
    std::copy_n(token_.begin(), std::min(token_.size(), hello.token.size()), hello.token.begin());
    return hello;
  }

 private:
  void step(Pending& p) {
    bool initiator = p.peer >= 0;
    bool complete = advance(p);
    if (p.socket.fd < 0) {
      if (initiator) {
        throw_error(ErrorCode::peer, "connect", "process {} does not accept the connection: {}", p.peer,
                    std::strerror(errno));
      }
      return;
    }
    if (!complete) return;
    Hello expected = hello(p.theirs.from);
    std::swap(expected.from, expected.to);
    bool known = std::memcmp(&expected, &p.theirs, sizeof(Hello)) == 0 &&
                 std::binary_search(members_.begin(), members_.end(), p.theirs.from) &&
                 (initiator ? p.theirs.from == p.peer : p.theirs.from > rank_ && fds_[p.theirs.from].fd < 0);
    if (!known) {
      if (initiator) {
        throw_error(ErrorCode::peer, "connect", "{} is not process {} of this gang", peer_address(p.socket.fd).text(),
                    p.peer);
      }
      log::debug("a connection from {} is none of this gang's: dropped", peer_address(p.socket.fd).text());
      p.socket = Socket();
      return;
    }
    if (!initiator) {  // a socket that has just been opened takes so few bytes at once
      Hello mine = hello(p.theirs.from);
      if (::send(p.socket.fd, &mine, sizeof(mine), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(mine))) {
        p.socket = Socket();
        return;
      }
    }
    fds_[p.theirs.from] = std::move(p.socket);
    --missing_;
  }

  void accept_from(int listener) {
    for (;;) {
      int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      Socket socket(fd);
      std::size_t strangers =
          std::count_if(pending_.begin(), pending_.end(), [](const Pending& p) { return p.peer < 0; });
      if (strangers >= kMaxStrangers + static_cast<std::size_t>(size_)) continue;
      Pending p;
      p.socket = std::move(socket);
      p.until = std::chrono::steady_clock::now() + kHelloDeadline;
      pending_.push_back(std::move(p));
    }
  }

  [[noreturn]] void give_up() const {
    std::vector<std::string> missing;
    for (int peer : members_) {
      if (peer != rank_ && fds_[peer].fd < 0) missing.push_back(store_.describe(peer));
    }
    throw_error(ErrorCode::timeout, "connect", "no connection in time with {}", fmt::join(missing, "; "));
  }

  int rank_, size_, missing_ = 0;
  const std::vector<int>& members_;
  std::string token_;
  Store& store_;
  std::vector<Socket> fds_;
  std::vector<Pending> pending_;
};

}  // namespace

std::string random_token() {
  std::array<unsigned char, 32> bytes;
  LS_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string publish(const SocketAddress& address) {
  char host[NI_MAXHOST], service[NI_MAXSERV];
  int code = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address.storage), address.length, host, sizeof(host),
                           service, sizeof(service), NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) throw_error(ErrorCode::distributed, "connect", "getnameinfo: {}", ::gai_strerror(code));
  return fmt::format("{} {}", host, service);
}

SocketAddress parse_published(const std::string& text) {
  auto space = text.find(' ');
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (space == std::string::npos ||
      ::getaddrinfo(text.substr(0, space).c_str(), text.c_str() + space + 1, &hints, &found) != 0) {
    throw_error(ErrorCode::distributed, "connect", "a peer has published the address '{}', which is none", text);
  }
  SocketAddress address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

std::string get_from(Store& store, const std::string& key, TimePoint deadline, int process) {
  try {
    return store.get(key, deadline);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) throw;
    throw_error(ErrorCode::timeout, "connect", "{} has not published its address in time", store.describe(process));
  }
}

std::string SocketAddress::text() const {
  char host[NI_MAXHOST], service[NI_MAXSERV];
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, host, sizeof(host), service, sizeof(service),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown address";
  }
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, service) : fmt::format("{}:{}", host, service);
}

void SocketAddress::set_port(int port) {
  auto in_network_order = htons(static_cast<std::uint16_t>(port));
  if (storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = in_network_order;
  } else {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = in_network_order;
  }
}

SocketAddress peer_address(int fd) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) < 0) address.length = 0;
  return address;
}

std::string address_towards(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  int code = ::getaddrinfo(host.c_str(), "9", &hints, &found);
  if (code != 0) throw_error(ErrorCode::distributed, "connect", "cannot resolve {}: {}", host, ::gai_strerror(code));
  std::string result;
  for (addrinfo* a = found; a && result.empty(); a = a->ai_next) {
    Socket socket(::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket.fd < 0 || ::connect(socket.fd, a->ai_addr, a->ai_addrlen) < 0) continue;
    SocketAddress local;
    local.length = sizeof(local.storage);
    char text[NI_MAXHOST];
    if (::getsockname(socket.fd, reinterpret_cast<sockaddr*>(&local.storage), &local.length) == 0 &&
        ::getnameinfo(reinterpret_cast<sockaddr*>(&local.storage), local.length, text, sizeof(text), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      result = text;
    }
  }
  ::freeaddrinfo(found);
  if (result.empty()) throw_error(ErrorCode::distributed, "connect", "no route to {}", host);
  return result;
}

std::vector<int> connect_all(Store& store, int rank, int size, const std::vector<int>& members, TimePoint deadline,
                             SocketAddress bind, const std::string& prefix) {
  Socket listener = listen_on(bind);
  if (rank == members.front()) store.set(prefix + "/token", random_token());
  store.set(fmt::format("{}/address/{}", prefix, rank), publish(bind));
  Rendezvous rendezvous(rank, size, members, get_from(store, prefix + "/token", deadline, members.front()), store);
  std::vector<Pending> connecting;
  for (int peer : members) {
    if (peer >= rank) break;
    Pending p;
    p.peer = peer;
    p.mine = rendezvous.hello(peer);
    std::string key = fmt::format("{}/address/{}", prefix, peer);
    p.socket = connect_to(parse_published(get_from(store, key, deadline, peer)));
    p.connecting = true;
    connecting.push_back(std::move(p));
  }
  rendezvous.await(std::move(listener), std::move(connecting), deadline);
  std::vector<int> fds = rendezvous.take();
  for (int fd : fds) {
    int on = 1;
    if (fd >= 0) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return fds;
}

}  // namespace lockstep::collectives

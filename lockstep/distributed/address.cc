#include "lockstep/distributed/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>

#include "lockstep/support/error.h"

namespace lockstep::distributed {
namespace {

class Socket {
 public:
  explicit Socket(int family) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

Addresses lookup(const Address& address, int flags, std::string& error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  int status = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                             std::to_string(address.port).c_str(), &hints, &list);
  if (status != 0) error = status == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(status);
  return Addresses(list);
}

Endpoint endpoint_of(const addrinfo& info) {
  char text[INET6_ADDRSTRLEN] = "";
  if (info.ai_family == AF_INET) {
    auto* in = reinterpret_cast<const sockaddr_in*>(info.ai_addr);
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
    return {fmt::format("{}:{}", text, ntohs(in->sin_port)), false, (ntohl(in->sin_addr.s_addr) >> 24) == 127};
  }
  auto* in = reinterpret_cast<const sockaddr_in6*>(info.ai_addr);
  ::inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
  return {fmt::format("[{}]:{}", text, ntohs(in->sin6_port)), true, IN6_IS_ADDR_LOOPBACK(&in->sin6_addr) != 0};
}

std::vector<Endpoint> endpoints(const Address& address, int flags, std::string& error) {
  std::vector<Endpoint> result;
  Addresses list = lookup(address, flags, error);
  for (addrinfo* a = list.get(); a != nullptr; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6) result.push_back(endpoint_of(*a));
  return result;
}

// 0 or errno.
int try_bind(int family, const sockaddr* where, socklen_t length) {
  Socket socket(family);
  if (socket.fd() < 0) return errno;
  int on = 1;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) {
    int off = 0;
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.fd(), where, length) != 0 || ::listen(socket.fd(), 1) != 0) return errno;
  return 0;
}

}  // namespace

std::string Address::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Address parse_address(const std::string& text, const std::string& operation) {
  std::size_t colon = text.rfind(':');
  Address address{.port = -1};
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    auto parsed = std::from_chars(text.data() + colon + 1, end, address.port);
    if (parsed.ec != std::errc() || parsed.ptr != end) address.port = -1;
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']'))
      address.host = address.host.substr(1, address.host.size() - 2);
    else if (address.host.find(':') != std::string::npos)
      address.port = -1;
  }
  if (address.port < 0 || address.port > 65535 || address.host.empty())
    throw_error(ErrorCode::invalid_argument, operation,
                "'{}' is no address; it has to be HOST:PORT, for example 10.0.0.1:1234, node1:1234 or [::1]:1234",
                text);
  return address;
}

std::vector<Address> parse_addresses(const std::string& text, const std::string& operation) {
  std::vector<Address> result;
  for (std::size_t begin = 0; begin <= text.size();) {
    std::size_t end = std::min(text.find(',', begin), text.size());
    result.push_back(parse_address(text.substr(begin, end - begin), operation));
    begin = end + 1;
  }
  return result;
}

std::vector<Endpoint> resolve(const Address& address, std::string& error) { return endpoints(address, 0, error); }

std::optional<Endpoint> numeric_endpoint(const Address& address) {
  std::string error;
  auto found = endpoints(address, AI_NUMERICHOST, error);
  return found.empty() ? std::nullopt : std::optional(found.front());
}

std::string probe(const Endpoint& endpoint, std::chrono::milliseconds timeout) {
  std::string error;
  Addresses list = lookup(parse_address(endpoint.numeric, "connect"), AI_NUMERICHOST, error);
  if (!list) return error;
  Socket socket(list->ai_family);
  if (socket.fd() < 0) return std::strerror(errno);
  if (::connect(socket.fd(), list->ai_addr, list->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return std::strerror(errno);
    pollfd waits{.fd = socket.fd(), .events = POLLOUT};
    if (::poll(&waits, 1, static_cast<int>(timeout.count())) <= 0) return "no answer";
    int status = 0;
    socklen_t size = sizeof status;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &status, &size);
    if (status != 0) return std::strerror(status);
  }
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  if (::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
      ::getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&there), &there_size) == 0 && here_size == there_size &&
      std::memcmp(&here, &there, here_size) == 0)
    return "connection refused";  // connected to itself
  return "";
}

void check_bindable(const Address& address, const std::string& operation) {
  std::string error;
  Addresses list = lookup(address, AI_PASSIVE, error);
  if (!list)
    throw_error(ErrorCode::distributed, operation,
                "the coordinator can't listen on {}: {}. Give an address of this machine as the coordinator's, or as "
                "JAX_COORDINATOR_BIND_ADDRESS.",
                address.text(), error);
  int status = try_bind(list->ai_family, list->ai_addr, list->ai_addrlen);
  if (status == EAFNOSUPPORT && address.host == "::") return;  // no IPv6 here; gRPC then takes 0.0.0.0
  if (status == EADDRINUSE)
    throw_error(ErrorCode::distributed, operation,
                "address already in use: another process listens on {}, where the coordinator should. Choose another "
                "port (JAX_COORDINATOR_ADDRESS or coordinator_address, the same on every process; "
                "JAX_COORDINATOR_BIND_ADDRESS), or end that process: `ss -ltnp 'sport = :{}'` shows it.",
                address.text(), address.port);
  if (status != 0)
    throw_error(ErrorCode::distributed, operation,
                "the coordinator can't listen on {}: {}. Process 0 has to run on the machine that the coordinator's "
                "address names; if that address is not one of its own (a forwarded one), give the one to listen on as "
                "JAX_COORDINATOR_BIND_ADDRESS or coordinator_bind_address.",
                address.text(), std::strerror(status));
}

std::string why_foreign(const Address& address) {
  std::string error;
  Addresses list = lookup({address.host, 0}, 0, error);
  if (!list) return "it can't be resolved: " + error;
  int status = EADDRNOTAVAIL;
  for (addrinfo* a = list.get(); a != nullptr && status != 0; a = a->ai_next)
    if (a->ai_family == AF_INET || a->ai_family == AF_INET6) status = try_bind(a->ai_family, a->ai_addr, a->ai_addrlen);
  return status == 0 ? "" : std::strerror(status);
}

int free_port() {
  int first = 32768, last = 60999;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  std::random_device random;
  constexpr int lowest = 10240;
  std::uniform_int_distribution<int> below(lowest, first > lowest ? first - 1 : 65535);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    int port = below(random);
    any.sin6_port = any4.sin_port = htons(static_cast<std::uint16_t>(port));
    int status = try_bind(AF_INET6, reinterpret_cast<sockaddr*>(&any), sizeof any);
    if (status == EAFNOSUPPORT) status = try_bind(AF_INET, reinterpret_cast<sockaddr*>(&any4), sizeof any4);
    if (status == 0) return port;
  }
  throw_error(ErrorCode::distributed, "free_port", "no free port between {} and {}", lowest, first - 1);
}

}  // namespace lockstep::distributed

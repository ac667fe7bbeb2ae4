#include "lockstep/collectives/shared_rendezvous.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "lockstep/support/log.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kMaxRing = 1 << 20, kMinRing = 64 << 10, kInboxBudget = 16 << 20;

struct Hello {
  std::array<char, 32> token{};
  std::int32_t rank = 0;
};

struct Socket {
  int fd = -1;
  Socket() = default;
  explicit Socket(int fd) : fd(fd) {}
  Socket(Socket&& o) noexcept : fd(std::exchange(o.fd, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd, o.fd);
    return *this;
  }
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
};

std::string random_name() {
  std::array<unsigned char, 16> bytes;
  LS_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// Equal for processes that run on the same kernel, see the same Unix sockets, and are the same user's.
std::string host_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id") >> std::ws, boot);
  struct stat network {
  }, users{};
  if (boot.empty() || ::stat("/proc/self/ns/net", &network) < 0 || ::stat("/proc/self/ns/user", &users) < 0) return "";
  return fmt::format("{}.{}.{}.{}", boot, network.st_ino, users.st_ino, ::geteuid());
}

sockaddr_un abstract_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Socket listen_as(const std::string& name) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length;
  sockaddr_un address = abstract_address(name, length);
  if (socket.fd < 0 || ::bind(socket.fd, reinterpret_cast<sockaddr*>(&address), length) < 0 ||
      ::listen(socket.fd, SOMAXCONN) < 0) {
    return Socket();
  }
  return socket;
}

Socket connect_to(const std::string& name, int rank) {
  Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t length;
  sockaddr_un address = abstract_address(name, length);
  if (socket.fd < 0 || ::connect(socket.fd, reinterpret_cast<sockaddr*>(&address), length) < 0) {
    throw_error(ErrorCode::peer, "connect", "process {} on this host does not answer: {}", rank, std::strerror(errno));
  }
  return socket;
}

void send_memory(const Socket& socket, const Hello& hello, int fd) {
  iovec data{const_cast<Hello*>(&hello), sizeof(hello)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof(int));
  // If this fails, the other side has gone, and waiting for its answer will tell.
  (void)!::sendmsg(socket.fd, &message, MSG_NOSIGNAL);
}

bool await(int fd, Store& store, TimePoint deadline) {
  for (;;) {
    using std::chrono::milliseconds;
    auto left = std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll{fd, POLLIN, 0};
    auto time = std::clamp<milliseconds>(left, milliseconds(0), kCheckInterval);
    if (::poll(&poll, 1, static_cast<int>(time.count())) > 0) return true;
    if (left.count() <= 0) return false;
    store.check();
  }
}

// The peer's memory, and who it says it is; -1: it is a stranger, or gone.
int receive_memory(const Socket& socket, const Hello& mine, Hello& theirs, Store& store, TimePoint deadline) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  bool same_user =
      ::getsockopt(socket.fd, SOL_SOCKET, SO_PEERCRED, &credentials, &length) == 0 && credentials.uid == ::geteuid();
  if (!same_user || !await(socket.fd, store, deadline)) return -1;
  iovec data{&theirs, sizeof(theirs)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t n = ::recvmsg(socket.fd, &message, MSG_CMSG_CLOEXEC);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  int fd = -1;
  if (n >= 0 && header && header->cmsg_type == SCM_RIGHTS) std::memcpy(&fd, CMSG_DATA(header), sizeof(int));
  if (n != sizeof(theirs) || theirs.token != mine.token) {
    if (fd >= 0) ::close(fd);
    return -1;
  }
  return fd;
}

}  // namespace

Neighbourhood meet_neighbours(Store& store, int rank, const std::vector<int>& members, TimePoint deadline,
                              const std::string& prefix) {
  std::string name = "lockstep-" + random_name(), host = host_identity();
  Socket listener = host.empty() ? Socket() : listen_as(name);
  if (rank == members.front()) store.set(prefix + "/token", random_name());
  store.set(fmt::format("{}/host/{}", prefix, rank), listener.fd < 0 ? "-" : host + " " + name);
  Hello mine;
  mine.rank = rank;
  std::string token = store.get(prefix + "/token", deadline);
  std::copy_n(token.begin(), std::min(token.size(), mine.token.size()), mine.token.begin());

  std::map<int, std::string> local;  // socket names by rank, this process included
  for (int peer : members) {
    if (listener.fd < 0) break;
    std::string where = peer == rank ? host + " " + name : store.get(fmt::format("{}/host/{}", prefix, peer), deadline);
    if (where.starts_with(host + " ")) local[peer] = where.substr(host.size() + 1);
  }
  Neighbourhood result;
  if (local.size() < 2) return result;
  std::size_t others = local.size() - 1;
  std::size_t capacity = std::clamp(std::bit_floor(kInboxBudget / others), kMinRing, kMaxRing);
  std::size_t bytes = Inbox::footprint(others, capacity);
  std::string trouble;
  try {
    result.inbox = Inbox(SharedMemory::create(bytes), others, capacity, true);
  } catch (const Error& error) {
    trouble = error.message();
    log::warning(
        "{} bytes to share with the {} other processes of this host can't be had ({}): they talk over the "
        "network's transport",
        bytes, others, trouble);
  }
  store.set(fmt::format("{}/memory/{}", prefix, rank), trouble.empty() ? "yes" : "no");
  if (!trouble.empty()) return result;
  std::map<int, std::string> willing;
  for (const auto& [peer, socket_name] : local) {
    if (peer == rank || store.get(fmt::format("{}/memory/{}", prefix, peer), deadline) == "yes")
      willing[peer] = socket_name;
  }

  auto index_of = [&](int sender, int receiver) {  // of the sender's ring in the receiver's inbox
    auto place = static_cast<std::size_t>(std::distance(local.begin(), local.find(sender)));
    return place - (receiver < sender ? 1 : 0);
  };
  auto meet = [&](int peer, int fd) {
    result.neighbours[peer] = {Inbox(SharedMemory::map(fd, bytes), others, capacity, false), index_of(rank, peer),
                               index_of(peer, rank)};
  };
  // Connecting and sending never wait; then the higher ranks' memory comes, and the lower ranks' answers.
  std::map<int, Socket> lower;
  for (const auto& [peer, socket_name] : willing) {
    if (peer >= rank) break;
    lower[peer] = connect_to(socket_name, peer);
    send_memory(lower[peer], mine, result.inbox.fd());
  }
  auto higher = static_cast<std::size_t>(std::distance(willing.upper_bound(rank), willing.end()));
  while (result.neighbours.size() < higher) {
    if (!await(listener.fd, store, deadline)) {
      throw_error(ErrorCode::timeout, "connect", "{} processes on this host have not sent their memory in time",
                  higher - result.neighbours.size());
    }
    Socket socket(::accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
    Hello theirs;
    int fd = socket.fd < 0 ? -1 : receive_memory(socket, mine, theirs, store, deadline);
    if (fd < 0) {
      log::debug("a connection to the shared memory's socket is none of this gang's: dropped");
      continue;
    }
    if (theirs.rank <= rank || !willing.count(theirs.rank) || result.neighbours.count(theirs.rank)) {
      ::close(fd);
      throw_error(ErrorCode::peer, "connect", "a process on this host says it is process {}", theirs.rank);
    }
    meet(theirs.rank, fd);
    send_memory(socket, mine, result.inbox.fd());
  }
  for (auto& [peer, socket] : lower) {
    Hello theirs;
    int fd = receive_memory(socket, mine, theirs, store, deadline);
    if (fd < 0 || theirs.rank != peer) {
      throw_error(ErrorCode::peer, "connect", "process {} on this host has not sent its memory", peer);
    }
    meet(peer, fd);
  }
  return result;
}

}  // namespace lockstep::collectives

// Strangers connect to a process that waits for its peer, and say what they like. Whoever shows the gang's token and
// the right numbers is the peer; nobody else is taken for it, and none keeps it out.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "lockstep/collectives/tcp_rendezvous.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using namespace collectives;  // NOLINT

constexpr std::chrono::seconds kPatience{20};

// What tcp_rendezvous.cc sends, written down once more: a change of it that is not a change here is found.
struct Hello {
  std::array<char, 8> magic{'l', 'o', 'c', 'k', 's', 't', 'e', 'p'};
  std::uint32_t frame_header = sizeof(FrameHeader);
  std::int32_t from = 1, to = 0, size = 2;
  std::array<char, 64> token{};
};

SocketAddress loopback() {
  SocketAddress address;
  auto* in = reinterpret_cast<sockaddr_in*>(&address.storage);
  in->sin_family = AF_INET;
  in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.length = sizeof(sockaddr_in);
  return address;
}

int connect_to(int port) {
  SocketAddress address = loopback();
  reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port = htons(static_cast<std::uint16_t>(port));
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool connected = ::connect(fd, reinterpret_cast<sockaddr*>(&address.storage), address.length) == 0;
  check(connected, std::string("it accepts connections: ") + std::strerror(errno));
  linger reset{.l_onoff = 1, .l_linger = 0};  // so that thousands a second leave nothing behind
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  return fd;
}

int local_port(int fd) {
  SocketAddress address;
  address.length = sizeof address.storage;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return ntohs(reinterpret_cast<sockaddr_in*>(&address.storage)->sin_port);
}

}  // namespace

void rendezvous(Input input) {
  Choices choices(input);
  MemoryStore store;
  TimePoint deadline = std::chrono::steady_clock::now() + kPatience;
  std::vector<int> result;
  std::string error;
  std::thread waits([&] {
    try {
      result = connect_all(store, 0, 2, everybody(2), deadline, loopback(), "fuzz");
    } catch (const std::exception& e) {
      error = e.what();
    }
  });
  struct Joined {
    std::thread& thread;
    ~Joined() {
      if (thread.joinable()) thread.join();
    }
  } joined{waits};
  // libFuzzer's alarm is for the thread that is tested: it interrupts connect() and send().
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  struct Restored {
    const sigset_t& mask;
    ~Restored() { pthread_sigmask(SIG_SETMASK, &mask, nullptr); }
  } restored{before};
  std::string address = store.get("fuzz/address/0", deadline), token = store.get("fuzz/token", deadline);
  int port = std::stoi(address.substr(address.find(' ') + 1));
  Hello right;
  std::memcpy(right.token.data(), token.data(), std::min(token.size(), right.token.size()));
  std::vector<int> open;
  for (int i = 0; i < 4 && !choices.empty(); ++i) {
    std::string said = choices.bytes(120);
    if (choices.one_in(2)) {  // nearly right
      Hello hello = right;
      auto* bytes = reinterpret_cast<char*>(&hello);
      std::size_t at = choices.byte() % sizeof hello;
      bytes[at] = static_cast<char>(bytes[at] ^ (1 + choices.below(255)));
      said = std::string(bytes, sizeof hello) + said;
    }
    // A whole hello of the right peer's would be the right peer.
    if (said.size() >= sizeof right && std::memcmp(said.data(), &right, sizeof right) == 0) continue;
    int fd = connect_to(port);
    (void)!::send(fd, said.data(), said.size(), MSG_NOSIGNAL);
    if (choices.one_in(2))
      ::close(fd);
    else
      open.push_back(fd);
  }
  int peer = connect_to(port), peer_port = local_port(peer);
  std::size_t first = choices.byte() % sizeof right;
  (void)!::send(peer, &right, first, MSG_NOSIGNAL);
  (void)!::send(peer, reinterpret_cast<char*>(&right) + first, sizeof right - first, MSG_NOSIGNAL);
  waits.join();
  open.push_back(peer);
  int accepted = -1;
  if (result.size() == 2) {
    SocketAddress other = peer_address(result[1]);
    accepted = ntohs(reinterpret_cast<sockaddr_in*>(&other.storage)->sin_port);
    open.push_back(result[1]);
  }
  for (int fd : open) ::close(fd);
  check(error.empty(), "the peer is let in: " + error);
  check(result.size() == 2 && result[0] == -1, "a socket for each peer");
  check(accepted == peer_port, "the peer is the one that has the token");
}

}  // namespace lockstep::fuzz

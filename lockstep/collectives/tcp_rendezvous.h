// Connects every process of a gang with every other over TCP.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "lockstep/collectives/store.h"
#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  std::string text() const;  // "10.0.0.7:41231"
  void set_port(int port);
};

// A connected, non-blocking socket per process, in rank order; -1 for `rank` itself and for who is not among the
// members (sorted, `rank` included). Each member calls it: it listens on `bind` (whose port is chosen by the system),
// publishes that under `prefix`, and connects to those of lower rank. Connections that do not show the members' token
// are dropped.
std::vector<int> connect_all(Store& store, int rank, int size, const std::vector<int>& members, TimePoint deadline,
                             SocketAddress bind, const std::string& prefix);
SocketAddress peer_address(int fd);
// "10.0.0.7 41231", as it stands in the store. Throws Error(distributed) for a text that is no address.
std::string publish(const SocketAddress& address);
SocketAddress parse_published(const std::string& text);
// What `process` has published; Error(timeout) that names it.
std::string get_from(Store& store, const std::string& key, TimePoint deadline, int process);
// 32 random bytes, hexadecimal.
std::string random_token();
// The address that this machine listens on for an address or host name, an interface (either may be empty), or with
// neither the one from which `towards` is reached; the loopback address without that. Its port is 0. Throws
// Error(distributed).
SocketAddress listen_address(const std::string& address, const std::string& interface, const std::string& towards);
// The local address from which `host` is reached. Throws Error(distributed).
std::string address_towards(const std::string& host);

}  // namespace lockstep::collectives

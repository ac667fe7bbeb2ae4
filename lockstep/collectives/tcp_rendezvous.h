// Connects every process of a gang with every other over TCP.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/collectives/store.h"
#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  std::string text() const;  // "10.0.0.7:41231"
};

// A connected, non-blocking socket per process, in rank order; -1 for `rank` itself. Each process listens on `bind`
// (whose port is chosen by the system), publishes that under `prefix`, and connects to those of lower rank. Connections
// that do not show the gang's token are dropped. `describe`: GlooOptions.
using Describe = std::function<std::string(int process)>;
std::vector<int> connect_all(Store& store, int rank, int size, TimePoint deadline, SocketAddress bind,
                             const std::string& prefix, const Describe& describe = {});
SocketAddress peer_address(int fd);
// The local address from which `host` is reached. Throws Error(distributed).
std::string address_towards(const std::string& host);

}  // namespace lockstep::collectives

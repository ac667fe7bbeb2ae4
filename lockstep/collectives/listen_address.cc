#include <gloo/transport/tcp/device.h>
#include <netdb.h>

#include "lockstep/collectives/tcp_rendezvous.h"

namespace lockstep::collectives {

SocketAddress listen_address(const std::string& address, const std::string& interface, const std::string& towards) {
  gloo::transport::tcp::attr attr;
  attr.hostname = address;
  attr.iface = interface;
  if (address.empty() && interface.empty()) attr.hostname = towards.empty() ? "127.0.0.1" : address_towards(towards);
  if (interface.empty()) {  // Gloo falls over a name that there is not
    addrinfo* found = nullptr;
    if (int code = ::getaddrinfo(attr.hostname.c_str(), nullptr, nullptr, &found); code != 0) {
      throw_error(ErrorCode::distributed, "connect",
                  "cannot listen on {}, which is neither an interface nor an address: {}", attr.hostname,
                  ::gai_strerror(code));
    }
    ::freeaddrinfo(found);
  }
  try {
    attr = gloo::transport::tcp::CreateDeviceAttr(attr);  // looks interfaces and names up, and tries to bind
  } catch (const std::exception& error) {
    throw_error(ErrorCode::distributed, "connect", "cannot listen on {}: {}",
                interface.empty() ? attr.hostname : interface, error.what());
  }
  SocketAddress result;
  result.storage = attr.ai_addr;
  result.length = static_cast<socklen_t>(attr.ai_addrlen);
  return result;
}

}  // namespace lockstep::collectives

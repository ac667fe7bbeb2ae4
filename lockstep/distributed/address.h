// Addresses of the control channel: "host:port", "10.0.0.1:1234", "[::1]:1234".
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::distributed {

struct Address {
  std::string host;  // without brackets
  int port;          // 0: any, where something is bound

  std::string text() const;
};

// Throws Error(invalid_argument) on behalf of `operation` unless the text is host:port.
Address parse_address(const std::string& text, const std::string& operation);

// One or several, separated by commas. Error(invalid_argument).
std::vector<Address> parse_addresses(const std::string& text, const std::string& operation);

struct Endpoint {
  std::string numeric;  // "127.0.0.1:1234", "[::1]:1234"
  bool ipv6;
  bool loopback;
};
// What the name stands for now, in the resolver's order; empty, with the reason in `error`, if it can't be resolved.
std::vector<Endpoint> resolve(const Address& address, std::string& error);

// The same for an address that is no name, so that nobody has to be asked.
std::optional<Endpoint> numeric_endpoint(const Address& address);

// Whether something listens there: "" or the reason why not ("connection refused").
std::string probe(const Endpoint& endpoint, std::chrono::milliseconds timeout);

// "" if the host is this machine's, whether its port is free or not; else the reason to think that it is not.
std::string why_foreign(const Address& address);

// Whether this process can listen there. Throws Error(distributed) that says what to do: the address is in use, isn't
// one of this machine's, may not be bound. `operation` names who asks.
void check_bindable(const Address& address, const std::string& operation);

// A port of this machine that nothing listens on, outside the range from which connections take theirs (a client
// that retries a port in that range may connect to itself).
int free_port();

}  // namespace lockstep::distributed

#include "lockstep/distributed/invitation.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/identity.h"

namespace lockstep::distributed {
namespace {

// The address from which this machine would send to a far network; nothing is sent. "" if there is no way out.
std::string outward_address() {
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_in far{}, here{};
  far.sin_family = AF_INET;
  far.sin_port = htons(9);
  ::inet_pton(AF_INET, "192.0.2.1", &far.sin_addr);  // kept for documentation: nobody's
  socklen_t size = sizeof here;
  char text[INET_ADDRSTRLEN] = "";
  if (::connect(fd, reinterpret_cast<sockaddr*>(&far), sizeof far) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&here), &size) == 0)
    ::inet_ntop(AF_INET, &here.sin_addr, text, sizeof text);
  ::close(fd);
  return text;
}

std::vector<std::string> own_hosts() {
  std::vector<std::string> hosts;
  auto add = [&](const std::string& host) {
    if (!host.empty() && std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  };
  add(outward_address());
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) == 0) {
    for (ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK)) continue;
      char text[INET6_ADDRSTRLEN] = "";
      if (i->ifa_addr->sa_family == AF_INET) {
        ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof text);
      } else if (i->ifa_addr->sa_family == AF_INET6) {
        const in6_addr& address = reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr;
        if (!IN6_IS_ADDR_LINKLOCAL(&address)) ::inet_ntop(AF_INET6, &address, text, sizeof text);
      }
      add(text);
    }
    ::freeifaddrs(list);
  }
  add(local_identity().host);
  return hosts;
}

}  // namespace

std::string Invitation::text() const { return fmt::format("{}\n{}\n{}", address, bind_address, token); }

Invitation Invitation::parse(const std::string& text) {
  std::size_t first = text.find('\n'), second = text.find('\n', first == std::string::npos ? first : first + 1);
  if (second == std::string::npos || text.find('\n', second + 1) != std::string::npos)
    throw_error(ErrorCode::invalid_argument, "initialize", "process 0 has sent what is no invitation");
  return {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
}

Invitation make_invitation(bool one_machine, const std::string& host) {
  int port = free_port();
  std::vector<std::string> hosts = one_machine ? std::vector<std::string>{"127.0.0.1"} : own_hosts();
  if (!host.empty()) hosts = {host};
  Invitation invitation{.token = new_token()};
  for (const std::string& h : hosts)
    invitation.address += (invitation.address.empty() ? "" : ",") + Address{h, port}.text();
  invitation.bind_address = Address{one_machine && host.empty() ? "127.0.0.1" : "::", port}.text();
  return invitation;
}

std::string new_token() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw_error(ErrorCode::io, "token", "no random numbers: {}", std::strerror(errno));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

Error combined_error(const std::string& operation, const std::vector<Outcome>& outcomes) {
  std::vector<std::pair<std::string, std::vector<int>>> texts;
  std::optional<ErrorCode> cause, first;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Outcome& o = outcomes[i];
    if (!o.failed) continue;
    auto it = std::ranges::find(texts, o.message, [](auto& t) { return t.first; });
    if (it == texts.end()) it = texts.emplace(it, o.message, std::vector<int>());
    it->second.push_back(static_cast<int>(i));
    if (!first) first = o.code;
    // Those who wait for one that has failed are no cause.
    bool follows = o.code == ErrorCode::timeout || o.code == ErrorCode::peer || o.code == ErrorCode::cancelled;
    if (!cause && !follows) cause = o.code;
  }
  LS_CHECK(first.has_value());
  std::string message;
  if (texts.size() == 1 && texts.front().second.size() == outcomes.size()) {
    message = texts.front().first;
  } else {
    for (auto& [text, processes] : texts)
      message += fmt::format("{}process{} {}: {}", message.empty() ? "" : "\n  ", processes.size() == 1 ? "" : "es",
                             process_ranges(processes), text);
  }
  return Error(cause.value_or(*first), operation, message);
}

}  // namespace lockstep::distributed

#include "tests/distributed/proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace lockstep::distributed {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

// False once the connection has ended.
bool move(int from, int to) {
  char buffer[1 << 16];
  ssize_t n = ::recv(from, buffer, sizeof buffer, 0);
  if (n <= 0) return false;
  for (ssize_t done = 0; done < n;) {
    ssize_t m = ::send(to, buffer + done, static_cast<std::size_t>(n - done), MSG_NOSIGNAL);
    if (m <= 0) return false;
    done += m;
  }
  return true;
}

}  // namespace

Proxy::Proxy(int target_port) : target_port_(target_port) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no listener");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  stop_ = true;
  thread_.join();
}

void Proxy::cut() {
  cut_ = true;
  while (cut_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}
void Proxy::refuse() {
  refuse_ = true;
  cut();
}

void Proxy::close_links() {
  for (auto& link : links_) {
    ::close(link.a);
    ::close(link.b);
  }
  links_.clear();
}

void Proxy::run() {
  while (!stop_) {
    if (cut_) {
      close_links();
      if (refuse_ && listener_ >= 0) {
        ::close(listener_);
        listener_ = -1;
      }
      cut_ = false;
    }
    std::vector<pollfd> waits{{.fd = listener_, .events = POLLIN}};
    if (!frozen_) {
      for (auto& link : links_) {
        waits.push_back({.fd = link.a, .events = POLLIN});
        waits.push_back({.fd = link.b, .events = POLLIN});
      }
    }
    ::poll(waits.data(), waits.size(), 5);
    for (std::size_t i = 0; 2 * i + 2 < waits.size(); ++i) {
      Link& link = links_[i];
      if ((!waits[2 * i + 1].revents || move(link.a, link.b)) && (!waits[2 * i + 2].revents || move(link.b, link.a)))
        continue;
      ::close(link.a);
      ::close(link.b);
      link.a = -1;
    }
    std::erase_if(links_, [](const Link& link) { return link.a < 0; });
    if (!waits[0].revents) continue;
    int a = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    int b = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in target = loopback(target_port_);
    if (::connect(b, reinterpret_cast<sockaddr*>(&target), sizeof target) == 0) {
      links_.push_back({a, b});
    } else {
      ::close(a);
      ::close(b);
    }
  }
  close_links();
  if (listener_ >= 0) ::close(listener_);
}

}  // namespace lockstep::distributed

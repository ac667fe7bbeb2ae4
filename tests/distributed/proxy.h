// A TCP relay that tests put between a client and its coordinator, to freeze and to cut the connection.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace lockstep::distributed {

class Proxy {
 public:
  explicit Proxy(int target_port);
  ~Proxy();
  int port() const { return port_; }
  void freeze() { frozen_ = true; }  // keeps connections, moves nothing
  void thaw() { frozen_ = false; }
  void cut();     // closes all connections; new ones work
  void refuse();  // closes all connections and the listener

 private:
  struct Link {
    int a, b;
  };
  void run();
  void close_links();

  int listener_, port_, target_port_;
  std::atomic<bool> stop_{false}, frozen_{false}, cut_{false}, refuse_{false};
  std::vector<Link> links_;
  std::thread thread_;
};

}  // namespace lockstep::distributed

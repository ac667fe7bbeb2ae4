// One connection between two processes of a cluster, measured: round trips, clocks, throughput. For doctor.cc.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace lockstep::tools {

// Answers probes that know the secret, until it goes. Listens on all interfaces at a port of the system's choice.
class ProbeServer {
 public:
  explicit ProbeServer(std::string secret);
  ~ProbeServer();
  ProbeServer(const ProbeServer&) = delete;
  int port() const { return port_; }

 private:
  void serve();
  void answer(int fd) const;

  std::string secret_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

struct LinkReport {
  double latency = 0;       // seconds, the median round trip
  double clock_offset = 0;  // seconds that the other's clock is ahead
  double clock_error = 0;   // half the shortest round trip
  double there = 0, back = 0;
  std::string error;  // anything that went wrong; then the rest means nothing
};
LinkReport probe_link(const std::string& host, int port, const std::string& secret, std::chrono::milliseconds transfer,
                      std::chrono::milliseconds timeout);

}  // namespace lockstep::tools

// The coordination service: what process 0 runs for its gang. Ordinary programs don't touch it; initialize() does.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/support/tls.h"

namespace lockstep::distributed {

struct ServiceOptions {
  std::string bind_address;  // HOST:PORT; port 0 takes any
  int num_processes = 1;
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(100);
  bool recoverable = false;  // goes on without processes that die, except process 0
  std::string token;         // if set, every call has to carry it
  std::optional<Tls> tls;    // if set, only who has a certificate of the gang is let in, and all is encrypted
};

// Thread-safe. Blocked calls hold no thread. Throws Error(distributed) if it can't listen.
class Service {
 public:
  explicit Service(const ServiceOptions& options);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  int port() const;
  // Ends every open call with the reason; waits (two seconds at most) until the answers have left. Idempotent.
  void stop(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::distributed

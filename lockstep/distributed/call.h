// Calls being answered, as the coordinator's parts see them: no gRPC here, so that the parts can be tested alone.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::distributed::coordinator {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// A number of milliseconds that stood in a message, cut to what can be reckoned with: none to ten years.
inline std::chrono::milliseconds sensible(std::int64_t milliseconds) {
  constexpr std::int64_t most = std::int64_t{1000} * 60 * 60 * 24 * 3650;
  return std::chrono::milliseconds(std::clamp<std::int64_t>(milliseconds, 0, most));
}

// A part either fills `response` and hands the call to the outbox, or keeps the pointer until it does or is told to
// forget it. Owned by whoever received it; gone after finish().
struct Call {
  int process = -1;
  bool answered = false;  // it is in an outbox, or has been forgotten: no part holds it
  std::string what;       // while it is held, what the process waits for: "barrier 'save'"
  virtual void finish() = 0;

 protected:
  ~Call() = default;
};
template <class Response>
struct CallFor : Call {
  Response* response = nullptr;
};

// What has to happen after the coordinator's lock is released.
class Outbox {
 public:
  void finish(Call* call) {
    call->answered = true;
    actions_.push_back([call] { call->finish(); });
  }
  void add(std::function<void()> action) { actions_.push_back(std::move(action)); }
  bool empty() const { return actions_.empty(); }
  void run() {
    for (auto& action : actions_) action();
    actions_.clear();
  }

 private:
  std::vector<std::function<void()>> actions_;
};

}  // namespace lockstep::distributed::coordinator

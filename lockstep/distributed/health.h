// Whether the gang is in order, for every part of the library and of the program.
//
// A gang fails once. Then, on a thread of its own: the failure is logged, the subscribers are called (the runtime
// completes outstanding futures with the error, collectives close their connections), and, unless initialize() was
// told otherwise, the process is given a short time (2 s) in which waiting calls throw the error to the program, and
// is ended with the failure's exit code (failure.h). shutdown() in that time keeps the process alive: the program has
// taken over. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/distributed/failure.h"

namespace lockstep::distributed {

std::optional<Failure> health();  // nullopt: in order
// The same, after waiting for a failure that may be about to be known.
std::optional<Failure> health_within(std::chrono::milliseconds time);
// Throws the failure as an Error(peer, diverged or timeout) of the operation.
void throw_if_failed(const std::string& operation);
// The first failure counts, later ones are dropped. Returns at once.
void fail(Failure failure);
// Processes have died and the gang goes on without them (InitializeOptions::recoverable). Logged, told to subscribers;
// waiting calls that need them end.
void lose(const Failure& failure);
std::vector<Failure> losses();  // so far

// Ends the subscription when it goes, waiting for a call in progress (except on the thread that makes it).
class [[nodiscard]] Subscription {
 public:
  Subscription() = default;
  explicit Subscription(std::function<void()> end);
  ~Subscription();
  Subscription(Subscription&&) noexcept;
  Subscription& operator=(Subscription&&) noexcept;

 private:
  std::function<void()> end_;
};
// Called once per failure; at once, on the calling thread, if the gang has failed already.
Subscription on_failure(std::function<void(const Failure&)> callback);
// This process leaves in good order (shutdown() has been called, main has returned): called before the others are told,
// on the leaving thread, which waits for it.
Subscription on_leaving(std::function<void()> callback);
Subscription on_loss(std::function<void(const Failure&)> callback);
// A process has called shutdown() or returned from main: nothing that needs it can complete any more.
Subscription on_departure(std::function<void(int process)> callback);

// For initialize() and shutdown().
struct HealthPolicy {
  bool exit_on_failure = true;
  std::chrono::milliseconds grace = std::chrono::seconds(2);
};
void begin_health(const HealthPolicy& policy);  // in order again
void end_health();                              // the process is not ended any more
void announce_departure(int process);
void announce_leaving();
// Ends the process with the status after flushing stdio, if that can be done in half a second. Runs no exit handlers.
[[noreturn]] void end_process(int status);

}  // namespace lockstep::distributed

// A PJRT event: something that becomes ready, or fails.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "lockstep/support/error.h"

struct PJRT_Api;
struct PJRT_Event;

namespace lockstep::pjrt {

using Deadline = std::chrono::steady_clock::time_point;

class Event {
 public:
  Event() = default;  // ready at once, without an error
  // Takes ownership of `event`; null is ready at once. Failures are reported as `operation`.
  Event(const PJRT_Api* api, PJRT_Event* event, const char* operation);
  Event(Event&& other) noexcept { swap(other); }
  Event& operator=(Event&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Event();

  bool is_ready() const;
  // Waits; throws the event's error, or an Error of code `timeout` when the deadline passes first. The event may be
  // awaited again.
  void await(Deadline deadline) const;
  void await_for(std::chrono::nanoseconds timeout) const { await(std::chrono::steady_clock::now() + timeout); }
  // Calls `done` once, with null or the error, on the thread that makes the event ready, or on this one if it is
  // ready already. `done` must not throw. The Event may be destroyed before it is called.
  void on_ready(std::function<void(const Error*)> done) const;

 private:
  void swap(Event& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(event_, other.event_);
    std::swap(operation_, other.operation_);
  }

  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
  const char* operation_ = "";
};

}  // namespace lockstep::pjrt

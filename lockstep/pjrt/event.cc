#include "lockstep/pjrt/event.h"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {
namespace {

struct Callback {
  const PJRT_Api* api;
  const char* operation;
  std::function<void(const Error*)> done;
};

void run_callback(PJRT_Error* error, void* argument) {
  out_of_plugin();
  std::unique_ptr<Callback> callback(static_cast<Callback*>(argument));
  if (error == nullptr) return callback->done(nullptr);
  Error ours = take_error(callback->api, error, callback->operation, ErrorCode::execution);
  callback->done(&ours);
}

}  // namespace

Event::Event(const PJRT_Api* api, PJRT_Event* event, const char* operation)
    : api_(api), event_(event), operation_(operation) {}

Event::~Event() {
  if (event_ == nullptr) return;
  LS_PJRT(PJRT_Event_Destroy) destroy;
  destroy->event = event_;
  destroy.no_throw(api_);
}

bool Event::is_ready() const {
  if (event_ == nullptr) return true;
  LS_PJRT(PJRT_Event_IsReady) query;
  query->event = event_;
  query(api_);
  return query->is_ready;
}

void Event::await(Deadline deadline) const {
  if (event_ == nullptr) return;
  if (is_ready()) {
    LS_PJRT(PJRT_Event_Error) status;
    status->event = event_;
    status(api_, ErrorCode::execution, operation_);
    return;
  }
  // PJRT's own wait has no deadline.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool ready = false;
    std::optional<Error> error;
  };
  auto state = std::make_shared<State>();
  on_ready([state](const Error* error) {
    std::lock_guard lock(state->mutex);
    if (error != nullptr) state->error = *error;
    state->ready = true;
    state->changed.notify_all();
  });
  std::unique_lock lock(state->mutex);
  if (!state->changed.wait_until(lock, deadline, [&] { return state->ready; }))
    throw_error(ErrorCode::timeout, operation_, "the device had not finished when the deadline passed");
  if (state->error) throw *state->error;
}

void Event::on_ready(std::function<void(const Error*)> done) const {
  if (event_ == nullptr) return done(nullptr);
  auto callback = std::make_unique<Callback>(Callback{api_, operation_, std::move(done)});
  LS_PJRT(PJRT_Event_OnReady) on_ready;
  on_ready->event = event_;
  on_ready->callback = run_callback;
  on_ready->user_arg = callback.get();
  on_ready(api_);
  callback.release();
}

}  // namespace lockstep::pjrt

#include "lockstep/distributed/health.h"

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "lockstep/support/log.h"

namespace lockstep::distributed {
namespace {

constexpr std::chrono::milliseconds flush_time{500};

// Callbacks that can be taken back while they run.
template <class... Args>
class Callbacks {
 public:
  using Callback = std::function<void(Args...)>;

  int add(Callback callback) {
    std::lock_guard lock(mutex_);
    callbacks_[next_] = std::move(callback);
    return next_++;
  }
  void remove(int id) {
    std::unique_lock lock(mutex_);
    callbacks_.erase(id);
    idle_.wait(lock, [&] { return running_ != id || runner_ == std::this_thread::get_id(); });
  }
  int next() {
    std::lock_guard lock(mutex_);
    return next_;
  }
  // Those with ids below the end.
  void call(int end, Args... args) {
    std::unique_lock lock(mutex_);
    for (int id = 0; id < end; ++id) {
      auto it = callbacks_.find(id);
      if (it == callbacks_.end()) continue;
      Callback callback = it->second;
      running_ = id;
      runner_ = std::this_thread::get_id();
      lock.unlock();
      callback(args...);
      lock.lock();
      running_ = -1;
      idle_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<int, Callback> callbacks_;
  int next_ = 0, running_ = -1;
  std::thread::id runner_;
};

struct Health {
  std::mutex mutex;
  std::condition_variable changed;
  HealthPolicy policy{.exit_on_failure = false};
  std::optional<Failure> failure;
  std::vector<Failure> losses;
  std::uint64_t generation = 0;  // of gangs; a failure ends the process only while its gang lasts
  Callbacks<const Failure&> on_failure, on_loss;
  Callbacks<int> on_departure;
  Callbacks<> on_leaving;
};
Health& state() {
  static auto* h = new Health;  // immortal
  return *h;
}

void handle_failure(const Failure& failure, const HealthPolicy& policy, std::uint64_t generation, int subscribers) {
  Health& h = state();
  if (policy.exit_on_failure)
    log::error("{}\n  This process ends in {:.1f} s with exit code {} ({}).", failure.message,
               std::chrono::duration<double>(policy.grace).count(), exit_code(failure.kind), to_string(failure.kind));
  else
    log::error("{} ({})", failure.message, to_string(failure.kind));
  h.on_failure.call(subscribers, failure);
  if (!policy.exit_on_failure) return;
  std::unique_lock lock(h.mutex);
  if (!h.changed.wait_for(lock, policy.grace, [&] { return h.generation != generation; }))
    end_process(exit_code(failure.kind));
}

}  // namespace

std::optional<Failure> health() {
  std::lock_guard lock(state().mutex);
  return state().failure;
}

std::optional<Failure> health_within(std::chrono::milliseconds time) {
  Health& h = state();
  std::unique_lock lock(h.mutex);
  h.changed.wait_for(lock, time, [&] { return h.failure.has_value(); });
  return h.failure;
}

void throw_if_failed(const std::string& operation) {
  if (auto failure = health()) throw to_error(*failure, operation);
}

void fail(Failure failure) {
  Health& h = state();
  std::lock_guard lock(h.mutex);
  if (h.failure) return;
  h.failure = std::move(failure);
  h.changed.notify_all();
  std::thread(handle_failure, *h.failure, h.policy, h.generation, h.on_failure.next()).detach();
}

void lose(const Failure& failure) {
  Health& h = state();
  {
    std::lock_guard lock(h.mutex);
    if (h.failure) return;
    h.losses.push_back(failure);
  }
  log::error("{} ({})\n  The gang goes on without.", failure.message, to_string(failure.kind));
  h.on_loss.call(h.on_loss.next(), failure);
}

std::vector<Failure> losses() {
  std::lock_guard lock(state().mutex);
  return state().losses;
}

Subscription::Subscription(std::function<void()> end) : end_(std::move(end)) {}
Subscription::~Subscription() {
  if (end_) end_();
}
Subscription::Subscription(Subscription&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
Subscription& Subscription::operator=(Subscription&& other) noexcept {
  std::swap(end_, other.end_);
  return *this;
}

Subscription on_failure(std::function<void(const Failure&)> callback) {
  Health& h = state();
  std::unique_lock lock(h.mutex);
  int id = h.on_failure.add(callback);
  std::optional<Failure> failure = h.failure;
  lock.unlock();
  Subscription subscription([id] { state().on_failure.remove(id); });
  if (failure) callback(*failure);
  return subscription;
}

Subscription on_loss(std::function<void(const Failure&)> callback) {
  int id = state().on_loss.add(std::move(callback));
  return Subscription([id] { state().on_loss.remove(id); });
}

Subscription on_departure(std::function<void(int)> callback) {
  int id = state().on_departure.add(std::move(callback));
  return Subscription([id] { state().on_departure.remove(id); });
}

Subscription on_leaving(std::function<void()> callback) {
  int id = state().on_leaving.add(std::move(callback));
  return Subscription([id] { state().on_leaving.remove(id); });
}

void begin_health(const HealthPolicy& policy) {
  Health& h = state();
  std::lock_guard lock(h.mutex);
  h.policy = policy;
  h.failure.reset();
  h.losses.clear();
  ++h.generation;
}

void end_health() {
  Health& h = state();
  std::lock_guard lock(h.mutex);
  ++h.generation;
  h.changed.notify_all();
}

void announce_departure(int process) { state().on_departure.call(state().on_departure.next(), process); }

void announce_leaving() { state().on_leaving.call(state().on_leaving.next()); }

void end_process(int status) {
  struct Flush {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };
  auto* flush = new Flush;  // the thread may outlive this wait
  std::thread([flush] {
    std::fflush(nullptr);
    std::lock_guard lock(flush->mutex);
    flush->done = true;
    flush->changed.notify_all();
  }).detach();
  {
    std::unique_lock lock(flush->mutex);
    flush->changed.wait_for(lock, flush_time, [&] { return flush->done; });
  }
  ::_exit(status);
}

}  // namespace lockstep::distributed

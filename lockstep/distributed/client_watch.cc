#include <algorithm>

#include "lockstep/distributed/client_impl.h"
#include "lockstep/distributed/phase.h"

namespace lockstep::distributed {

namespace {

constexpr Milliseconds relisten_time{500};  // a lost connection may come back this long
constexpr Milliseconds relisten_pause{50};
constexpr Milliseconds longest_heartbeat_interval{10000};
constexpr Milliseconds own_pause{1000};  // waking later than planned by this means that this process stood still

}  // namespace

void Client::Impl::open_session(const coordination::Ask& first) {
  welcome_ = session_over_ = false;
  session_ = std::make_shared<Session>(
      *rpc_, first,
      [this](coordination::Event& event) {
        std::lock_guard lock(mutex_);
        if (event.has_welcome() || event.has_registered()) welcome_ = true;
        if (event.has_registered())
          registered_ = std::move(*event.mutable_registered());
        else
          events_.push_back(std::move(event));
        changed_.notify_all();
      },
      [this](RpcResult result) {
        std::lock_guard lock(mutex_);
        session_over_ = true;
        session_end_ = std::move(result);
        changed_.notify_all();
      });
}

void Client::Impl::end_session() {
  std::unique_lock lock(mutex_);
  if (!session_) return;
  session_->cancel();
  changed_.wait(lock, [&] { return session_over_; });
  session_.reset();
  events_.clear();
}

void Client::Impl::beat() {
  heartbeat_ = std::make_unique<Heartbeat>();
  heartbeat_done_ = tell_phase_ = false;
  *heartbeat_->request.mutable_caller() = caller_;
  PhaseNow phase = current_phase();
  heartbeat_->request.mutable_phase()->set_text(phase.text);
  heartbeat_->request.mutable_phase()->set_age_ms(phase.age.count());
  rpc_->start(heartbeat_->context, Clock::now() + heartbeat_timeout_, heartbeat_->request, &heartbeat_->response,
              [this](RpcResult result) {
                std::lock_guard lock(mutex_);
                heartbeat_done_ = true;
                heartbeat_ok_ = result.code == RpcResult::ok;
                changed_.notify_all();
              });
}

void Client::Impl::end_heartbeat(std::unique_lock<std::mutex>& lock) {
  auto heartbeat = std::move(heartbeat_);
  heartbeat_done_ = false;
  if (!heartbeat_ok_) return;
  last_answer_ = Clock::now();
  if (heartbeat->response.has_failure()) return fail(from_proto(heartbeat->response.failure()), lock);
  if (heartbeat->response.has_problem()) coordinator_lost(heartbeat->response.problem().message(), lock);
}

void Client::Impl::handle(const coordination::Event& event, std::unique_lock<std::mutex>& lock) {
  last_answer_ = Clock::now();
  switch (event.what_case()) {
    case coordination::Event::kWelcome:
      break;
    case coordination::Event::kRefused:
      coordinator_lost(event.refused().problem().message(), lock);
      break;
    case coordination::Event::kFailure:
      fail(from_proto(event.failure()), lock);
      break;
    case coordination::Event::kTellPhase:
      tell_phase_ = true;
      break;
    case coordination::Event::kLeaving:
      if (options_.on_leaving) {
        lock.unlock();
        options_.on_leaving(event.leaving().process_id());
        lock.lock();
      }
      break;
    case coordination::Event::kLost:
      if (options_.on_lost) {
        Failure failure = from_proto(event.lost().failure());
        lock.unlock();
        options_.on_lost(failure);
        lock.lock();
      }
      break;
    case coordination::Event::kRegistered:
    case coordination::Event::kAnswer:
    case coordination::Event::WHAT_NOT_SET:
      break;
  }
}

void Client::Impl::fail(Failure failure, std::unique_lock<std::mutex>& lock) {
  if (failure_ || closing_) return;
  failure_ = std::move(failure);
  for (auto* context : contexts_) context->cancel();
  changed_.notify_all();
  if (!options_.on_failure) return;
  Failure copy = *failure_;
  lock.unlock();
  options_.on_failure(copy);
  lock.lock();
}

void Client::Impl::coordinator_lost(const std::string& how, std::unique_lock<std::mutex>& lock) {
  const Identity& host = members().at(0);
  std::string who = fmt::format("process 0 ({}, pid {})", host.host, host.pid);
  fail({FailureKind::coordinator_lost,
        {0},
        fmt::format("the coordinator at {}, run by {}, is lost: {}", address_, who, how)},
       lock);
}

void Client::Impl::run() {
  Milliseconds interval = std::clamp(heartbeat_timeout_ / 4, Milliseconds(1), longest_heartbeat_interval);
  Time next_beat = Clock::now() + interval, lost_at = Time::max();
  std::unique_lock lock(mutex_);
  Time wake = last_answer_;  // a pause before this thread's first step counts too
  while (!closing_) {
    Time now = Clock::now();
    if (now - wake > own_pause) last_answer_ += now - wake;
    wake = now;
    if (!events_.empty()) {
      coordination::Event event = std::move(events_.front());
      events_.pop_front();
      handle(event, lock);
      continue;
    }
    if (failure_ || ended_) {
      changed_.wait(lock, [&] { return closing_; });
      break;
    }
    if (welcome_ && !session_over_) lost_at = Time::max();
    if (session_over_ && session_end_.code == RpcResult::ok) {
      ended_ = true;
      changed_.notify_all();
      continue;
    }
    if (session_over_ && lost_at == Time::max()) lost_at = now + relisten_time;
    if (now >= lost_at) {
      coordinator_lost(fmt::format("its connection closed ({})", session_end_.message), lock);
      continue;
    }
    if (heartbeat_ && heartbeat_done_) {
      end_heartbeat(lock);
      continue;
    }
    if (now - last_answer_ > heartbeat_timeout_) {
      coordinator_lost(fmt::format("no answer for {:.1f} s (stopped, frozen, or cut off by the network)",
                                   std::chrono::duration<double>(heartbeat_timeout_).count()),
                       lock);
      continue;
    }
    if (!heartbeat_ && (tell_phase_ || now >= next_beat)) {
      next_beat = now + interval;
      beat();
    }
    wake = std::min(lost_at, last_answer_ + heartbeat_timeout_);
    if (!heartbeat_) wake = std::min(wake, next_beat);
    if (session_over_) {
      wake = now + relisten_pause;
      changed_.wait_until(lock, wake, [&] { return closing_; });
      if (!closing_) {
        coordination::Ask first;
        *first.mutable_listen()->mutable_caller() = caller_;
        open_session(first);
      }
    } else {
      changed_.wait_until(lock, wake);
    }
  }
}

void Client::Impl::close() {
  {
    std::unique_lock lock(mutex_);
    closing_ = true;
    for (auto* context : contexts_) context->cancel();
    if (session_) session_->cancel();
    if (heartbeat_) heartbeat_->context.cancel();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  end_session();
  std::unique_lock lock(mutex_);
  if (heartbeat_) heartbeat_->context.cancel();
  changed_.wait(lock, [&] { return (!heartbeat_ || heartbeat_done_) && contexts_.empty(); });
  heartbeat_.reset();
}

}  // namespace lockstep::distributed

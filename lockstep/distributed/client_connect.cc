#include <random>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/client_impl.h"
#include "lockstep/distributed/coordinator.h"
#include "lockstep/distributed/tls.h"
#include "lockstep/support/log.h"

namespace lockstep::distributed {

namespace {

constexpr Milliseconds first_pause{20};
constexpr Milliseconds longest_pause{1000};
constexpr Milliseconds probe_time{2000};
constexpr Milliseconds tls_time{1000};  // for an answer that tells what is wrong
constexpr Milliseconds inquiry_time{2000};
constexpr Milliseconds welcome_time{10000};
constexpr std::size_t most_named = 16;

std::string target_of(const Endpoint& endpoint) { return (endpoint.ipv6 ? "ipv6:" : "ipv4:") + endpoint.numeric; }

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

// Whoever answers at an address of the coordinator's is not this gang's coordinator.
class Stranger final : public Error {
 public:
  explicit Stranger(std::string message) : Error(ErrorCode::distributed, "initialize", std::move(message)) {}
};

}  // namespace

Client::Impl::Impl(ClientOptions options) : options_(std::move(options)) {
  std::random_device random;
  caller_.set_process_id(options_.process_id);
  caller_.set_incarnation(std::uint64_t{random()} << 32 | random());
  if (auto endpoint = numeric_endpoint(addresses_.front())) {
    first_target_ = target_of(*endpoint);
    first_rpc_ = std::make_unique<Rpc>(first_target_, options_.token, options_.tls);
  }
}

void Client::Impl::progress(const std::string& text) const {
  if (options_.progress)
    options_.progress(text);
  else if (log::enabled(log::Level::warning))
    log::write(log::Level::info, text);
}

std::string Client::Impl::reach_coordinator(const Address& address, bool probing, std::string& reason) const {
  std::string error;
  auto endpoints = resolve(address, error);
  if (endpoints.empty()) reason = "its name can't be resolved: " + error;
  for (auto& endpoint : endpoints) {
    reason = probing ? probe(endpoint, probe_time) : "";
    if (reason.empty()) return target_of(endpoint);
    reason = fmt::format("{}: {}", endpoint.numeric, reason);
  }
  return "";
}

std::string Client::Impl::joined_and_missing(RpcResult& result) {
  coordination::WatchTasksRequest request;
  request.set_version(-1);
  coordination::WatchTasksResponse response;
  RpcContext context;
  result = rpc_->call(context, Clock::now() + inquiry_time, request, &response);
  if (result.code != RpcResult::ok) return "the coordinator does not answer: " + result.message;
  std::vector<int> joined, missing;
  std::string names;
  for (auto& task : response.tasks()) {
    if (task.state() == coordination::Task::ABSENT) {
      missing.push_back(task.process_id());
      continue;
    }
    joined.push_back(task.process_id());
    if (joined.size() <= most_named)
      names += fmt::format("{}{} ({}, pid {})", names.empty() ? "" : ", ", task.process_id(), task.identity().host(),
                           task.identity().pid());
  }
  if (joined.size() > most_named) names = process_ranges(joined);
  return fmt::format("{} of {} processes have joined: {}; missing: {}", joined.size(), response.tasks_size(),
                     names.empty() ? "none" : names, process_ranges(missing));
}

void Client::Impl::check_tls() const {
  std::string error;
  for (auto& endpoint : resolve(parse_address(address_, "initialize"), error))
    if (std::string why = tls_trouble(endpoint, options_.tls, tls_time); !why.empty())
      throw_error(ErrorCode::distributed, "initialize", "no TLS with the coordinator at {}: {}.", address_, why);
}

bool Client::Impl::try_register(const std::string& target, Time began, Time deadline, Time& next_progress,
                                std::string& reason) {
  rpc_ = target == first_target_ ? std::move(first_rpc_) : nullptr;
  if (rpc_ == nullptr) rpc_ = std::make_unique<Rpc>(target, options_.token, options_.tls);
  coordination::Ask first;
  coordination::RegisterRequest& request = *first.mutable_registration();
  request.set_protocol(coordinator::protocol_version);
  request.set_process_id(options_.process_id);
  request.set_num_processes(options_.num_processes);
  request.set_incarnation(caller_.incarnation());
  to_proto(options_.identity, request.mutable_identity());
  registered_.reset();
  open_session(first);
  struct Retreat {
    Impl& client;
    bool needed = true;
    ~Retreat() {
      if (needed) client.end_session();
    }
  } retreat{*this};
  std::unique_lock lock(mutex_);
  std::string timed_out;
  auto done = [&] { return registered_.has_value() || session_over_; };
  while (!changed_.wait_until(lock, std::min(deadline, next_progress), done)) {
    lock.unlock();
    bool late = Clock::now() >= deadline;
    RpcResult asked;
    std::string state = joined_and_missing(asked);
    if (late) {
      timed_out = std::move(state);
      session_->cancel();
      lock.lock();
      changed_.wait(lock, done);
      if (asked.code == RpcResult::denied || asked.code == RpcResult::unimplemented) {
        session_end_ = asked;
        timed_out.clear();
      }
      break;
    }
    progress(fmt::format("waiting for the other processes for {:.0f} s: {}", seconds(Clock::now() - began), state));
    next_progress += options_.progress_interval;
    lock.lock();
  }
  RpcResult result = registered_ ? RpcResult{} : session_end_;
  if (!registered_ && result.code == RpcResult::ok)
    result = {.code = RpcResult::unavailable, .message = "it has closed the connection"};
  if (result.code == RpcResult::cancelled && !timed_out.empty())
    throw_error(ErrorCode::timeout, "initialize",
                "timed out after {:.1f} s; {}. Every process has to be started with the same coordinator address ({}) "
                "and its own process id.",
                seconds(Clock::now() - began), timed_out, options_.address);
  switch (result.code) {
    case RpcResult::ok:
      break;
    case RpcResult::unimplemented:
      throw Stranger(
          fmt::format("the server at {} is not a lockstep coordinator; another program listens there", address_));
    case RpcResult::denied:
      throw Stranger(fmt::format("the coordinator at {} refuses this process: {}.", address_, result.message));
    default:
      reason = result.message;
      lock.unlock();
      check_tls();
      return false;
  }
  coordination::RegisterResponse& response = *registered_;
  if (response.problem().code() == Problem::LEFT) {  // a gang that is about to make room for this one
    reason = response.problem().message();
    return false;
  }
  if (response.problem().code() != Problem::OK)
    throw_error(error_code(response.problem().code()), "initialize", "{}", response.problem().message());
  caller_.set_service(response.service());
  heartbeat_timeout_ = Milliseconds(response.heartbeat_timeout_ms());
  roster_ = std::move(*response.mutable_roster());
  retreat.needed = false;
  return true;
}

bool Client::Impl::try_each(bool again, Time began, Time deadline, Time& next_progress, std::string& reason) {
  bool several = addresses_.size() > 1;
  std::size_t strangers = 0;
  std::string reasons;
  for (const Address& address : addresses_) {
    address_ = address.text();
    // Of several, those that are none now must not take a connection's time.
    std::string target = reach_coordinator(address, again || several, reason);
    try {
      if (!target.empty() && try_register(target, began, deadline, next_progress, reason)) return true;
    } catch (const Stranger& stranger) {
      if (!several) throw;
      reason = stranger.message();
      ++strangers;
    }
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason);
  }
  if (strangers == addresses_.size()) throw Stranger(reasons);
  reason = reasons;
  return false;
}

void Client::Impl::connect() {
  Time began = Clock::now(), deadline = began + options_.initialization_timeout;
  Time next_progress = began + options_.progress_interval;
  std::string reason;
  std::minstd_rand random(caller_.incarnation());
  Milliseconds pause = first_pause;
  for (bool again = false;; again = true) {
    if (try_each(again, began, deadline, next_progress, reason)) break;
    if (Clock::now() >= deadline)
      throw_error(ErrorCode::timeout, "initialize",
                  "no coordinator at {} for {:.1f} s ({}): process 0, which runs it, has not been started or has "
                  "ended, or the address is wrong, or a firewall is in between",
                  options_.address, seconds(Clock::now() - began), reason);
    if (Clock::now() >= next_progress) {
      progress(fmt::format("waiting for the coordinator (process 0) at {} for {:.0f} s: {}", options_.address,
                           seconds(Clock::now() - began), reason));
      next_progress += options_.progress_interval;
    }
    std::uniform_int_distribution<int> jitter(0, static_cast<int>(pause.count() / 2));
    Time wake = Clock::now() + pause + Milliseconds(jitter(random));
    std::this_thread::sleep_until(std::min(wake, deadline));
    pause = std::min(2 * pause, longest_pause);
  }
  std::unique_lock lock(mutex_);
  connected_ = true;
  last_answer_ = Clock::now();
  lock.unlock();
  thread_ = std::thread([this] { run(); });
  lock.lock();
  changed_.wait_for(lock, welcome_time, [&] { return welcome_ || failure_ || ended_; });
  if (failure_) throw to_error(*failure_, "initialize");
}

}  // namespace lockstep::distributed

#include "lockstep/distributed/coordinator.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/distributed/identity.h"
#include "lockstep/distributed/preemption.h"

namespace lockstep::distributed::coordinator {

using coordination::Event;
using coordination::Failure;
using coordination::LiveResponse;
using coordination::Problem;
using coordination::RegisterResponse;
using coordination::ShutdownResponse;
using coordination::Task;
using coordination::WatchTasksResponse;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr milliseconds reconnect_time{300};   // a lost connection may come back this long
constexpr seconds time_to_arrive_refused{2};  // the others shall hear of a refusal too
constexpr milliseconds time_to_send_events{50};
constexpr milliseconds tick_gap{1000};  // a longer one means that this process itself stood still

double in_seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

Problem problem_of(Problem::Code code, std::string message, const std::vector<int>& processes = {}) {
  Problem problem;
  problem.set_code(code);
  problem.set_message(std::move(message));
  for (int p : processes) problem.add_processes(p);
  return problem;
}

// Answers all who have come, and forgets them.
template <class Response>
void end_rendezvous(Rendezvous& rendezvous, const Problem& problem, Outbox& out) {
  for (auto& [process, call] : rendezvous.arrived) {
    *static_cast<CallFor<Response>*>(call)->response->mutable_problem() = problem;
    out.finish(call);
  }
  rendezvous.arrived.clear();
}

// What a process that was given up hears when it comes back.
Failure gone_on(const Member& member, int process) {
  Failure failure;
  failure.set_kind(Failure::UNREACHABLE);
  failure.add_processes(process);
  failure.set_message("the gang has gone on without this process: " + member.end);
  return failure;
}

}  // namespace

Coordinator::Coordinator(const CoordinatorOptions& options, Time now)
    : options_(options), members_(options.num_processes), last_tick_(now) {
  members_.set_waits([this](int process, std::vector<std::string>& waits) {
    kv_.waits(process, waits);
    barriers_.waits(process, waits);
    agreements_.waits(process, waits);
  });
}

// --- registration

void Coordinator::register_task(const coordination::RegisterRequest& request, Listener* listener,
                                CallFor<RegisterResponse>* call, Time now, Outbox& out) {
  auto answer = [&](const Problem& problem) {
    *call->response->mutable_problem() = problem;
    out.finish(call);
  };
  if (everybody_left()) return answer(problem_of(Problem::LEFT, "the gang before has left, its coordinator is ending"));
  if (stopped_) return answer(stop_problem_);
  auto described = [&] {
    return fmt::format("process {} ({}, pid {})", request.process_id(), request.identity().host(),
                       request.identity().pid());
  };
  if (request.protocol() != protocol_version)
    return answer(problem_of(
        Problem::REFUSED, fmt::format("{} speaks version {} of the control protocol, the coordinator version {}: the "
                                      "processes have to run the same lockstep",
                                      described(), request.protocol(), protocol_version)));
  if (request.num_processes() != members_.count() || request.process_id() < 0 ||
      request.process_id() >= members_.count()) {
    if (complete_)
      return answer(problem_of(Problem::REFUSED, fmt::format("{} of {} wants to join a gang that is already complete",
                                                             described(), request.num_processes())));
    surplus_.push_back(call);
    refuse(request.num_processes() != members_.count()
               ? fmt::format("the processes disagree on how many they are: {} was started with num_processes = {}, "
                             "the coordinator with {}",
                             described(), request.num_processes(), members_.count())
               : fmt::format("{} has a process id outside [0, {})", described(), members_.count()),
           {request.process_id()}, now);
    return settle_registration(now, out);
  }
  Member& member = members_[request.process_id()];
  if (failure_)
    return answer(problem_of(Problem::REFUSED, fmt::format("the gang has already failed: {}", failure_->message())));
  if (member.state == Task::FAILED)
    return answer(problem_of(Problem::REFUSED, fmt::format("the gang has gone on without {}: {}",
                                                           members_.name(request.process_id()), member.end)));
  if (member.state == Task::LEAVING || member.state == Task::LEFT)
    return answer(problem_of(Problem::LEFT, "the gang before is ending"));
  if (member.state == Task::CONNECTED) {
    if (request.incarnation() == member.incarnation) {
      attach(request.process_id(), listener, out);
      member.registration = call;
      return accept(member, now, out);
    }
    std::string both = fmt::format("{} is part of the gang, and {} wants to be it too",
                                   members_.name(request.process_id()), described());
    answer(problem_of(Problem::REFUSED, both));
    if (member.listener == nullptr)
      fail(Failure::CRASHED, {request.process_id()},
           fmt::format("{} died and was started again ({})", members_.name(request.process_id()), described()), out);
    return;
  }
  if (member.state == Task::WAITING && member.incarnation != request.incarnation()) {
    surplus_.push_back(call);
    refuse(fmt::format("two processes have the process id {}: {} and {}", request.process_id(),
                       members_.name(request.process_id()), described()),
           {request.process_id()}, now);
    return settle_registration(now, out);
  }
  if (member.registration != nullptr) {  // its connection broke and it came again
    *member.registration->response->mutable_problem() = problem_of(Problem::CANCELLED, "registered again");
    out.finish(member.registration);
  }
  call->what = "the others to join";
  member.state = Task::WAITING;
  member.incarnation = request.incarnation();
  member.identity = request.identity();
  member.registration = call;
  member.heard = now;
  member.phase.set_text("initialize");
  member.phase.set_age_ms(0);
  attach(request.process_id(), listener, out);
  changed(now, out);
  settle_registration(now, out);
}

void Coordinator::refuse(std::string message, const std::vector<int>& processes, Time now) {
  if (refusal_.code() != Problem::OK) return;
  refusal_ = problem_of(Problem::REFUSED, std::move(message), processes);
  refusal_at_ = now + time_to_arrive_refused;
}

void Coordinator::compare_members(Time now) {
  std::map<std::string, std::map<std::string, std::vector<int>>> values;  // what -> value -> who
  for (int p = 0; p < members_.count(); ++p) {
    const auto& identity = members_[p].identity;
    values["the lockstep build"][identity.build()].push_back(p);
    values["the plugin"][identity.plugin()].push_back(p);
    for (auto& setting : identity.settings()) values["the setting " + setting.name()][setting.value()].push_back(p);
  }
  for (auto& [what, by_value] : values) {
    std::vector<bool> has(members_.count());
    for (auto& [value, processes] : by_value)
      for (int p : processes) has[p] = true;
    for (int p = 0; p < members_.count(); ++p)
      if (!has[p]) by_value["unset"].push_back(p);
  }
  std::string differences;
  for (auto& [what, by_value] : values) {
    if (by_value.size() == 1) continue;
    differences += fmt::format("\n  {}:", what);
    const char* separator = " ";
    for (auto& [value, processes] : by_value) {
      differences += fmt::format(
          "{}{} on {}", separator, value,
          processes.size() == 1 ? members_.name(processes.front()) : "processes " + process_ranges(processes));
      separator = "; ";
    }
  }
  if (!differences.empty()) refuse("the processes differ in what has to be equal:" + differences, {}, now);
}

void Coordinator::settle_registration(Time now, Outbox& out) {
  bool all = true;
  for (int p = 0; p < members_.count(); ++p) all = all && members_[p].state == Task::WAITING;
  if (all && refusal_.code() == Problem::OK) compare_members(now);
  if (refusal_.code() != Problem::OK) {
    if (!all && now < refusal_at_) return;
    refusal_at_ = now;  // whoever comes later hears it at once
    for (int p = 0; p < members_.count(); ++p) {
      if (members_[p].registration != nullptr) surplus_.push_back(members_[p].registration);
      reset(p);
    }
    for (auto* call : surplus_) {
      *call->response->mutable_problem() = refusal_;
      out.finish(call);
    }
    surplus_.clear();
  } else if (all) {
    complete_ = true;
    coordination::Roster roster;
    std::map<std::string_view, int> hosts, machines;
    auto place_of = [](const std::string& text, auto& places, auto* list) {
      auto [it, added] = places.try_emplace(text, list->size());
      if (added) *list->Add() = text;
      return it->second;
    };
    for (int p = 0; p < members_.count(); ++p) {
      const coordination::Identity& identity = members_[p].identity;
      roster.add_host(place_of(identity.host(), hosts, roster.mutable_hosts()));
      roster.add_machine(place_of(identity.machine(), machines, roster.mutable_machines()));
      roster.add_pid(identity.pid());
      roster.add_local_devices(identity.local_devices());
    }
    roster.SerializeToString(&roster_);
    for (int p = 0; p < members_.count(); ++p) members_[p].state = Task::CONNECTED;
    for (int p = 0; p < members_.count(); ++p) accept(members_[p], now, out);
    changed(now, out);
  }
}

// As if it had never come. Whoever listened for it is told so by the next tick.
void Coordinator::reset(int process) {
  if (members_[process].listener != nullptr) orphans_.push_back(members_[process].listener);
  members_[process] = Member();
}

void Coordinator::accept(Member& member, Time now, Outbox& out) {
  RegisterResponse& answer = *member.registration->response;
  answer.set_service(options_.incarnation);
  answer.set_heartbeat_timeout_ms(options_.heartbeat_timeout.count());
  answer.set_roster(roster_);
  member.heard = now;
  out.finish(member.registration);
  member.registration = nullptr;
}

// --- liveness

bool Coordinator::is_caller(const coordination::Caller& caller) const {
  return caller.service() == options_.incarnation && caller.process_id() >= 0 &&
         caller.process_id() < members_.count() && members_[caller.process_id()].incarnation == caller.incarnation() &&
         members_[caller.process_id()].state >= Task::CONNECTED;
}

Problem Coordinator::admit(const coordination::Caller& caller) const {
  if (stopped_) return stop_problem_;
  if (!is_caller(caller))
    return problem_of(Problem::REFUSED,
                      "this process is not part of the coordinator's gang: one of the two was "
                      "started again");
  if (failure_) return failure_problem_;
  if (const Member& member = members_[caller.process_id()]; member.state == Task::FAILED)
    return problem_of(Problem::FAILED, member.end, {caller.process_id()});
  return {};
}

void Coordinator::heartbeat(const coordination::HeartbeatRequest& request, coordination::HeartbeatResponse* response,
                            Time now) {
  if (!is_caller(request.caller())) {
    *response->mutable_problem() = admit(request.caller());
    return;
  }
  Member& member = members_[request.caller().process_id()];
  member.heard = now;
  member.phase = request.phase();
  member.phase.set_age_ms(sensible(request.phase().age_ms()).count());
  if (failure_)
    *response->mutable_failure() = *failure_;
  else if (member.state == Task::FAILED)
    *response->mutable_failure() = gone_on(member, request.caller().process_id());
}

void Coordinator::listen(const coordination::ListenRequest& request, Listener* listener, Time now, Outbox& out) {
  Event event;
  if (stopped_ || !is_caller(request.caller())) {
    *event.mutable_refused()->mutable_problem() = admit(request.caller());
    listener->send(event, out);
    listener->close(out);
    return;
  }
  int process = request.caller().process_id();
  Member& member = members_[process];
  member.heard = now;
  attach(process, listener, out);
  event.mutable_welcome();
  listener->send(event, out);
  if (failure_ || member.state == Task::FAILED) {
    *event.mutable_failure() = failure_ ? *failure_ : gone_on(member, process);
    listener->send(event, out);
  }
}

void Coordinator::attach(int process, Listener* listener, Outbox& out) {
  Member& member = members_[process];
  if (member.listener != nullptr) member.listener->close(out);
  member.listener = listener;
  member.lost_at = Time::max();
}

void Coordinator::listener_gone(int process, Listener* listener, Time now) {
  std::erase(orphans_, listener);
  if (process < 0 || process >= members_.count() || members_[process].listener != listener) return;
  Member& member = members_[process];
  member.listener = nullptr;
  if (member.state == Task::CONNECTED || member.state == Task::LEAVING) member.lost_at = now + reconnect_time;
}

void Coordinator::report_error(const coordination::ReportErrorRequest& request,
                               CallFor<coordination::ReportErrorResponse>* call, Time now, Outbox& out) {
  if (is_caller(request.caller())) {
    int process = request.caller().process_id();
    std::vector<int> processes(request.failure().processes().begin(), request.failure().processes().end());
    if (processes.empty()) processes.push_back(process);
    std::string message = fmt::format("{} failed: {}", members_.name(process), request.failure().message());
    // Of a divergence nobody can be left out: all but one may be the ones at fault.
    if (!options_.recoverable || request.failure().kind() == Failure::DIVERGED)
      fail(request.failure().kind(), processes, message, out);
    else
      lose(request.failure().kind(), {process}, message, now, out);
    changed(now, out);
  }
  late_.push_back({call, now + time_to_send_events});
}

void Coordinator::fail(Failure::Kind kind, const std::vector<int>& processes, const std::string& message, Outbox& out) {
  if (failure_ || stopped_) return;
  failure_.emplace();
  failure_->set_kind(kind);
  failure_->set_message(message);
  for (int p : processes) failure_->add_processes(p);
  failure_problem_ = problem_of(Problem::FAILED, message, processes);
  for (int p : processes)
    if (p >= 0 && p < members_.count()) members_[p].state = Task::FAILED;
  Event event;
  *event.mutable_failure() = *failure_;
  members_.broadcast(event, out);
  end_calls(failure_problem_, out);
}

void Coordinator::lose(Failure::Kind kind, const std::vector<int>& processes, const std::string& message, Time now,
                       Outbox& out) {
  if (failure_ || stopped_) return;
  if (!options_.recoverable || !complete_ || std::count(processes.begin(), processes.end(), 0) > 0)
    return fail(kind, processes, message, out);
  Event event;
  Failure& failure = *event.mutable_lost()->mutable_failure();
  failure.set_kind(kind);
  failure.set_message(message);
  for (int p : processes) {
    if (members_[p].state == Task::FAILED) continue;
    failure.add_processes(p);
    Member& member = members_[p];
    member.state = Task::FAILED;
    member.end = message;
    if (member.listener == nullptr) continue;
    Event told;
    *told.mutable_failure() = gone_on(member, p);
    member.listener->send(told, out);
    member.listener->close(out);
    member.listener = nullptr;
  }
  if (failure.processes().empty()) return;
  members_.broadcast(event, out);
  for (int p : failure.processes()) {
    barriers_.depart(p, out);
    agreements_.depart(p, out);
  }
  settle_live(out);
  if (!shutdown_.arrived.empty()) settle_shutdown(now, out);
  changed(now, out);
}

void Coordinator::end_calls(const Problem& problem, Outbox& out) {
  kv_.fail_all(problem, out);
  barriers_.fail_all(problem, out);
  agreements_.fail_all(problem, out);
  end_rendezvous<ShutdownResponse>(shutdown_, problem, out);
  end_rendezvous<LiveResponse>(live_, problem, out);
}

bool Coordinator::preempted(int process) const {
  coordination::TryGetRequest request;
  request.set_key(fmt::format("{}/{}", preemption_notice, process));
  coordination::TryGetResponse response;
  kv_.try_get(request, &response);
  return response.problem().code() == Problem::OK;
}

void Coordinator::tick(Time now, Outbox& out) {
  if (now - last_tick_ > tick_gap) {
    for (int p = 0; p < members_.count(); ++p) {
      members_[p].heard += now - last_tick_;
      if (members_[p].lost_at != Time::max()) members_[p].lost_at += now - last_tick_;
    }
  }
  last_tick_ = now;
  for (auto* listener : orphans_) listener->close(out);
  orphans_.clear();
  std::vector<int> crashed, silent;
  std::string how_crashed, how_silent;
  for (int p = 0; p < members_.count() && !failure_; ++p) {
    Member& member = members_[p];
    if (member.state != Task::CONNECTED && member.state != Task::LEAVING) continue;
    auto last = [&] {
      return fmt::format("it was last heard {:.1f} s ago, in '{}'", in_seconds(now - member.heard),
                         member.phase.text());
    };
    if (now >= member.lost_at) {
      crashed.push_back(p);
      how_crashed += fmt::format(
          "{}{} died: its connection closed without shutdown() (killed, crashed, or exited "
          "early); {}",
          crashed.size() > 1 ? "\n" : "", members_.name(p), last());
    } else if (now - member.heard > options_.heartbeat_timeout) {
      silent.push_back(p);
      how_silent += fmt::format(
          "{}{} does not answer: no heartbeat for {:.1f} s (stopped, frozen, or cut off by the "
          "network); {}",
          silent.size() > 1 ? "\n" : "", members_.name(p), in_seconds(options_.heartbeat_timeout), last());
    }
  }
  auto kind = [&](const std::vector<int>& processes, Failure::Kind otherwise) {
    return std::all_of(processes.begin(), processes.end(), [&](int p) { return preempted(p); }) ? Failure::PREEMPTED
                                                                                                : otherwise;
  };
  if (!crashed.empty()) lose(kind(crashed, Failure::CRASHED), crashed, how_crashed, now, out);
  if (!silent.empty()) lose(kind(silent, Failure::UNREACHABLE), silent, how_silent, now, out);
  if (failure_ && !(crashed.empty() && silent.empty())) changed(now, out);
  if (refusal_.code() != Problem::OK && !surplus_.empty()) settle_registration(now, out);
  kv_.expire(now, out);
  barriers_.expire(now, out);
  agreements_.expire(now, out);
  if (!shutdown_.arrived.empty() && members_.overdue(shutdown_, now, out))
    fail(Failure::STALLED, shutdown_.missing(),
         fmt::format("shutdown() timed out after {:.1f} s; {}", in_seconds(shutdown_.asked - shutdown_.since),
                     members_.arrived_and_missing(shutdown_, now)),
         out);
  if (!live_.arrived.empty() && members_.overdue(live_, now, out)) {
    Problem problem = problem_of(Problem::DEADLINE,
                                 fmt::format("timed out after {:.1f} s; {}", in_seconds(live_.asked - live_.since),
                                             members_.arrived_and_missing(live_, now)),
                                 live_.missing());
    end_rendezvous<LiveResponse>(live_, problem, out);
  }
  std::erase_if(late_, [&](const Late& late) {
    if (now < late.at) return false;
    out.finish(late.call);
    return true;
  });
}

Time Coordinator::next_deadline() const {
  Time next = std::min({kv_.next_deadline(), barriers_.next_deadline(), agreements_.next_deadline()});
  if (!shutdown_.arrived.empty()) next = std::min(next, shutdown_.deadline);
  if (!live_.arrived.empty()) next = std::min(next, live_.deadline);
  for (auto& late : late_) next = std::min(next, late.at);
  return next;
}

// --- who is still there

void Coordinator::live(const coordination::LiveRequest& request, CallFor<LiveResponse>* call, Time now, Outbox& out) {
  if (live_.arrived.empty()) live_ = {.since = now, .deadline = Time::max()};
  live_.deadline = std::min(live_.deadline, now + sensible(request.timeout_ms()));
  call->what = "the others to call live_processes()";
  Call*& place = live_.arrived[call->process];
  if (place != nullptr) {
    *static_cast<CallFor<LiveResponse>*>(place)->response->mutable_problem() =
        problem_of(Problem::CANCELLED, "called again by the same process");
    out.finish(place);
  }
  place = call;
  settle_live(out);
}

void Coordinator::settle_live(Outbox& out) {
  live_.participants.clear();
  for (int p = 0; p < members_.count(); ++p)
    if (members_[p].state == Task::CONNECTED) live_.participants.push_back(p);
  for (auto it = live_.arrived.begin(); it != live_.arrived.end();) {  // of those who have gone meanwhile
    if (members_[it->first].state == Task::CONNECTED) {
      ++it;
      continue;
    }
    *static_cast<CallFor<LiveResponse>*>(it->second)->response->mutable_problem() =
        problem_of(Problem::LEFT, "this process has left the gang");
    out.finish(it->second);
    it = live_.arrived.erase(it);
  }
  if (live_.arrived.empty() || !live_.complete()) return;
  ++live_rounds_;
  for (auto& [process, call] : live_.arrived) {
    auto* response = static_cast<CallFor<LiveResponse>*>(call)->response;
    response->set_round(live_rounds_);
    for (int p : live_.participants) response->add_processes(p);
    out.finish(call);
  }
  live_.arrived.clear();
}

// --- the end

void Coordinator::shut_down(const coordination::ShutdownRequest& request, CallFor<ShutdownResponse>* call, Time now,
                            Outbox& out) {
  Member& member = members_[call->process];
  if (member.state == Task::LEFT) return out.finish(call);
  if (shutdown_.arrived.empty()) {
    members_.participants({}, shutdown_.participants);
    shutdown_.since = now;
    shutdown_.deadline = Time::max();
    shutdown_.asked = Time::max();
  }
  shutdown_.deadline = std::min(shutdown_.deadline, now + sensible(request.timeout_ms()));
  call->what = "the others to call shutdown()";
  Call*& place = shutdown_.arrived[call->process];
  if (place != nullptr) out.finish(place);
  place = call;
  if (member.state != Task::LEAVING) {
    member.state = Task::LEAVING;
    Event event;
    event.mutable_leaving()->set_process_id(call->process);
    members_.broadcast(event, out, call->process);
    barriers_.depart(call->process, out);
    agreements_.depart(call->process, out);
    settle_live(out);
    changed(now, out);
  }
  settle_shutdown(now, out);
}

void Coordinator::settle_shutdown(Time now, Outbox& out) {
  std::erase_if(shutdown_.participants, [&](int p) { return members_[p].state == Task::FAILED; });
  if (!shutdown_.complete()) return;
  for (auto& [process, waiting] : shutdown_.arrived) {
    members_[process].state = Task::LEFT;
    out.finish(waiting);
  }
  shutdown_.arrived.clear();
  changed(now, out);
  for (int p = 0; p < members_.count(); ++p) {
    if (members_[p].listener != nullptr) members_[p].listener->close(out);
    members_[p].listener = nullptr;
  }
}

bool Coordinator::everybody_left() const {
  for (int p = 0; p < members_.count(); ++p)
    if (members_[p].state != Task::LEFT && members_[p].state != Task::FAILED) return false;
  return true;
}

void Coordinator::stop(const std::string& reason, Outbox& out) {
  if (stopped_) return;
  stopped_ = true;
  stop_problem_ = problem_of(Problem::STOPPED, reason);
  for (int p = 0; p < members_.count(); ++p) {
    Member& member = members_[p];
    if (member.registration != nullptr) surplus_.push_back(member.registration);
    member.registration = nullptr;
    if (member.listener == nullptr) continue;
    Event event;
    *event.mutable_refused()->mutable_problem() = failure_ ? failure_problem_ : stop_problem_;
    member.listener->send(event, out);
    member.listener->close(out);
    member.listener = nullptr;
  }
  for (auto* listener : orphans_) listener->close(out);
  orphans_.clear();
  for (auto* call : surplus_) {
    *call->response->mutable_problem() = stop_problem_;
    out.finish(call);
  }
  surplus_.clear();
  end_calls(stop_problem_, out);
  for (auto* watcher : watchers_) {
    *watcher->response->mutable_problem() = stop_problem_;
    out.finish(watcher);
  }
  watchers_.clear();
  for (auto& late : late_) out.finish(late.call);
  late_.clear();
}

void Coordinator::forget(Call* call) {
  kv_.forget(call);
  barriers_.forget(call);
  agreements_.forget(call);
  for (int p = 0; p < members_.count(); ++p)
    if (members_[p].registration == call) reset(p);
  std::erase(surplus_, call);
  for (Rendezvous* r : {&shutdown_, &live_})
    std::erase_if(r->arrived, [&](auto& entry) { return entry.second == call; });
  std::erase(watchers_, call);
  std::erase_if(late_, [&](auto& late) { return late.call == call; });
}

// --- watching

void Coordinator::watch_tasks(const coordination::WatchTasksRequest& request, CallFor<WatchTasksResponse>* call,
                              Time now, Outbox& out) {
  if (stopped_) {
    *call->response->mutable_problem() = stop_problem_;
    return out.finish(call);
  }
  if (request.version() >= version_) {
    watchers_.push_back(call);
    return;
  }
  fill(call->response, now);
  out.finish(call);
}

void Coordinator::changed(Time now, Outbox& out) {
  ++version_;
  for (auto* watcher : watchers_) {
    fill(watcher->response, now);
    out.finish(watcher);
  }
  watchers_.clear();
}

void Coordinator::fill(WatchTasksResponse* response, Time now) const {
  response->set_version(version_);
  if (failure_) *response->mutable_failure() = *failure_;
  for (int p = 0; p < members_.count(); ++p) {
    const Member& member = members_[p];
    auto* task = response->add_tasks();
    task->set_process_id(p);
    task->set_state(member.state);
    *task->mutable_identity() = member.identity;
    *task->mutable_phase() = member.phase;
    auto since_heard = std::chrono::duration_cast<milliseconds>(now - member.heard);
    task->mutable_phase()->set_age_ms(member.phase.age_ms() + since_heard.count());
  }
}

}  // namespace lockstep::distributed::coordinator

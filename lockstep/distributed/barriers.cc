#include "lockstep/distributed/barriers.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/distributed/identity.h"

namespace lockstep::distributed::coordinator {

using coordination::BarrierResponse;
using coordination::Problem;

namespace {

Problem problem_of(Problem::Code code, std::string message, const std::vector<int>& processes = {}) {
  Problem problem;
  problem.set_code(code);
  problem.set_message(std::move(message));
  for (int p : processes) problem.add_processes(p);
  return problem;
}

}  // namespace

void Barriers::enter(const coordination::BarrierRequest& request, CallFor<BarrierResponse>* call, Time now,
                     Outbox& out) {
  const std::string& name = request.name();
  History& history = history_[name];
  call->response->set_counter(request.counter());
  auto answer = [&](const Problem& problem) {
    *call->response->mutable_problem() = problem;
    out.finish(call);
  };
  if (request.counter() == history.next - 1) {
    call->response->set_counter(history.next);
    return answer(history.last);
  }
  if (request.counter() != history.next)
    return answer(problem_of(
        Problem::PRECONDITION,
        fmt::format("{} enters use {} of '{}', the gang is at use {}: a process has skipped or repeated a call",
                    members_.name(call->process), request.counter(), name, history.next)));
  std::vector<int> participants;
  bool valid = members_.participants(request.participants(), participants) &&
               std::binary_search(participants.begin(), participants.end(), call->process);
  auto it = open_.find(name);
  if (!valid || (it != open_.end() && participants != it->second.participants)) {
    std::string message =
        valid ? fmt::format("'{}': {} names the participants {}, process {} named {}", name,
                            members_.name(call->process), process_ranges(participants),
                            it->second.arrived.begin()->first, process_ranges(it->second.participants))
              : fmt::format("'{}': {} names the participants {}, but they have to include itself and lie below {}",
                            name, members_.name(call->process), process_ranges(participants), members_.count());
    Problem problem = problem_of(Problem::INVALID, message, {call->process});
    answer(problem);
    if (it != open_.end()) end(it, problem, out);
    return;
  }
  Problem departed = members_.departed(participants);
  if (departed.code() != Problem::OK) {
    departed.set_message(fmt::format("'{}': {}", name, departed.message()));
    return answer(departed);
  }
  if (it == open_.end())
    it = open_.emplace(name, Rendezvous{.participants = std::move(participants), .since = now, .deadline = Time::max()})
             .first;
  Rendezvous& r = it->second;
  r.deadline = std::min(r.deadline, now + sensible(request.timeout_ms()));
  call->what = fmt::format("barrier '{}'", name);
  Call*& place = r.arrived[call->process];
  if (place != nullptr) {
    *static_cast<CallFor<BarrierResponse>*>(place)->response->mutable_problem() =
        problem_of(Problem::CANCELLED, fmt::format("'{}' was entered again by the same process", name));
    out.finish(place);
  }
  place = call;
  if (r.complete()) end(it, Problem(), out);
}

Barriers::Open::iterator Barriers::end(Open::iterator it, const Problem& problem, Outbox& out) {
  History& history = history_[it->first];
  history.last = problem;
  ++history.next;
  for (auto& [process, call] : it->second.arrived) {
    auto* response = static_cast<CallFor<BarrierResponse>*>(call)->response;
    response->set_counter(history.next);
    *response->mutable_problem() = problem;
    out.finish(call);
  }
  return open_.erase(it);
}

void Barriers::cancel(const coordination::CancelBarrierRequest& request, coordination::CancelBarrierResponse* response,
                      Outbox& out) {
  auto it = open_.find(request.name());
  if (it == open_.end() || history_[request.name()].next != request.counter()) {
    *response->mutable_problem() =
        problem_of(Problem::PRECONDITION, fmt::format("use {} of '{}' is not open", request.counter(), request.name()));
    return;
  }
  end(it,
      problem_of(Problem::CANCELLED,
                 fmt::format("'{}' was cancelled by {}", request.name(), members_.name(request.caller().process_id()))),
      out);
}

void Barriers::depart(int process, Outbox& out) {
  Problem departed = members_.departed({process});
  for (auto it = open_.begin(); it != open_.end();) {
    const auto& participants = it->second.participants;
    if (!std::binary_search(participants.begin(), participants.end(), process)) {
      ++it;
      continue;
    }
    Problem problem = departed;
    problem.set_message(fmt::format("'{}': {}", it->first, departed.message()));
    it = end(it, problem, out);
  }
}

void Barriers::expire(Time now, Outbox& out) {
  for (auto it = open_.begin(); it != open_.end();) {
    Rendezvous& r = it->second;
    if (!members_.overdue(r, now, out)) {
      ++it;
      continue;
    }
    Problem problem = problem_of(
        Problem::DEADLINE,
        fmt::format("'{}' timed out after {:.1f} s; {}", it->first,
                    std::chrono::duration<double>(r.asked - r.since).count(), members_.arrived_and_missing(r, now)),
        r.missing());
    it = end(it, problem, out);
  }
}

Time Barriers::next_deadline() const {
  Time next = Time::max();
  for (auto& [name, rendezvous] : open_) next = std::min(next, rendezvous.deadline);
  return next;
}

void Barriers::fail_all(const Problem& problem, Outbox& out) {
  for (auto it = open_.begin(); it != open_.end();) it = end(it, problem, out);
}

void Barriers::forget(Call* call) {
  for (auto it = open_.begin(); it != open_.end();) {
    std::erase_if(it->second.arrived, [&](auto& entry) { return entry.second == call; });
    it = it->second.arrived.empty() ? open_.erase(it) : std::next(it);
  }
}

void Barriers::waits(int process, std::vector<std::string>& waits) const {
  for (auto& [name, rendezvous] : open_)
    if (auto it = rendezvous.arrived.find(process); it != rendezvous.arrived.end()) waits.push_back(it->second->what);
}

}  // namespace lockstep::distributed::coordinator

#include "lockstep/distributed/agreements.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/distributed/identity.h"

namespace lockstep::distributed::coordinator {

using coordination::AgreeResponse;
using coordination::DifferResponse;
using coordination::Problem;

namespace {

constexpr std::size_t failures_kept = 256;
constexpr auto time_for_texts = std::chrono::seconds(5);

CallFor<AgreeResponse>* agree_call(Call* call) { return static_cast<CallFor<AgreeResponse>*>(call); }

}  // namespace

void Agreements::agree(const coordination::AgreeRequest& request, CallFor<AgreeResponse>* call, Time now, Outbox& out) {
  auto refuse = [&](Problem::Code code, std::string message) {
    call->response->mutable_problem()->set_code(code);
    call->response->mutable_problem()->set_message(std::move(message));
    out.finish(call);
  };
  for (auto& [key, problem] : failed_) {
    if (key != request.key()) continue;
    *call->response->mutable_problem() = problem;
    out.finish(call);
    return;
  }
  std::vector<int> participants;
  if (!members_.participants(request.participants(), participants) ||
      !std::binary_search(participants.begin(), participants.end(), call->process))
    return refuse(
        Problem::INVALID,
        fmt::format("'{}': {} names the participants {}, but they have to include itself and lie below {}",
                    request.key(), members_.name(call->process), process_ranges(participants), members_.count()));
  auto it = open_.find(request.key());
  if (it != open_.end() && it->second.rendezvous.participants != participants) {
    std::string message =
        fmt::format("'{}': {} names the participants {}, process {} named {}", request.key(),
                    members_.name(call->process), process_ranges(participants),
                    it->second.rendezvous.arrived.begin()->first, process_ranges(it->second.rendezvous.participants));
    Problem problem;
    problem.set_code(Problem::INVALID);
    problem.set_message(message);
    refuse(Problem::INVALID, message);
    fail(it, problem, out);
    return;
  }
  Problem departed = members_.departed(participants);
  if (departed.code() != Problem::OK)
    return refuse(departed.code(), fmt::format("'{}': {}", request.key(), departed.message()));
  if (it == open_.end()) {
    it = open_.emplace(request.key(), Agreement()).first;
    it->second.rendezvous = {.participants = std::move(participants), .since = now, .deadline = Time::max()};
  }
  Agreement& agreement = it->second;
  Time& deadline = agreement.rendezvous.deadline;
  deadline = std::min(deadline, now + sensible(request.timeout_ms()));
  call->what = fmt::format("agreement on '{}'{}", request.key(),
                           request.call_site().empty() ? "" : " at " + request.call_site());
  Call*& place = agreement.rendezvous.arrived[call->process];
  if (place != nullptr) {
    agree_call(place)->response->mutable_problem()->set_code(Problem::CANCELLED);
    agree_call(place)->response->mutable_problem()->set_message("called again by the same process");
    out.finish(place);
  }
  place = call;
  agreement.votes[call->process] = {request.fingerprint(), request.call_site(), request.note()};
  if (agreement.rendezvous.complete()) conclude(it, now, out);
}

void Agreements::conclude(Open::iterator it, Time now, Outbox& out) {
  std::map<std::string, std::vector<int>> by_fingerprint;
  for (auto& [process, vote] : it->second.votes) by_fingerprint[vote.fingerprint].push_back(process);
  std::vector<std::vector<int>> groups;
  for (auto& [fingerprint, processes] : by_fingerprint) groups.push_back(processes);
  std::sort(groups.begin(), groups.end(),
            [](auto& a, auto& b) { return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front(); });
  AgreeResponse answer;
  for (auto& processes : groups) {
    auto* group = answer.add_groups();
    for (int p : processes) group->add_processes(p);
    group->set_call_site(it->second.votes[processes.front()].call_site);
  }
  if (groups.size() == 1) {
    for (auto& [process, vote] : it->second.votes) answer.add_notes(vote.note);
  } else {
    auto& participants = it->second.rendezvous.participants;
    differences_[it->first] = {.representatives = {groups[0].front(), groups[1].front()},
                               .unserved = {participants.begin(), participants.end()},
                               .deadline = now + time_for_texts};
  }
  for (auto& [process, call] : it->second.rendezvous.arrived) {
    *agree_call(call)->response = answer;
    out.finish(call);
  }
  open_.erase(it);
}

void Agreements::differ(const coordination::DifferRequest& request, CallFor<DifferResponse>* call, Time now,
                        Outbox& out) {
  auto it = differences_.find(request.key());
  if (it == differences_.end() || !it->second.unserved.contains(call->process)) {
    call->response->add_texts();
    call->response->add_texts();
    out.finish(call);
    return;
  }
  Difference& difference = it->second;
  auto*& place = difference.waiting[call->process];
  if (place != nullptr) out.finish(place);
  place = call;
  if (std::count(difference.representatives.begin(), difference.representatives.end(), call->process))
    difference.texts[call->process] = request.text();
  if (difference.texts.size() == difference.representatives.size()) hand_out(difference, out);
  if (difference.unserved.empty()) differences_.erase(it);
}

void Agreements::hand_out(Difference& difference, Outbox& out) {
  for (auto& [process, call] : difference.waiting) {
    for (int representative : difference.representatives) call->response->add_texts(difference.texts[representative]);
    difference.unserved.erase(process);
    out.finish(call);
  }
  difference.waiting.clear();
}

Agreements::Open::iterator Agreements::fail(Open::iterator it, const Problem& problem, Outbox& out) {
  for (auto& [process, call] : it->second.rendezvous.arrived) {
    *agree_call(call)->response->mutable_problem() = problem;
    out.finish(call);
  }
  failed_.emplace_back(it->first, problem);
  if (failed_.size() > failures_kept) failed_.pop_front();
  return open_.erase(it);
}

void Agreements::depart(int process, Outbox& out) {
  Problem departed = members_.departed({process});
  for (auto it = open_.begin(); it != open_.end();) {
    const auto& participants = it->second.rendezvous.participants;
    if (!std::binary_search(participants.begin(), participants.end(), process)) {
      ++it;
      continue;
    }
    Problem problem = departed;
    problem.set_message(fmt::format("'{}': {}", it->first, departed.message()));
    it = fail(it, problem, out);
  }
}

void Agreements::expire(Time now, Outbox& out) {
  for (auto it = open_.begin(); it != open_.end();) {
    Rendezvous& r = it->second.rendezvous;
    if (!members_.overdue(r, now, out)) {
      ++it;
      continue;
    }
    std::string site;
    for (auto& [process, vote] : it->second.votes)
      if (site.empty() && !vote.call_site.empty()) site = fmt::format(" (process {} at {})", process, vote.call_site);
    Problem problem;
    problem.set_code(Problem::DEADLINE);
    problem.set_message(fmt::format("'{}'{} timed out after {:.1f} s; {}", it->first, site,
                                    std::chrono::duration<double>(r.asked - r.since).count(),
                                    members_.arrived_and_missing(r, now)));
    for (int p : r.missing()) problem.add_processes(p);
    it = fail(it, problem, out);
  }
  for (auto it = differences_.begin(); it != differences_.end();) {
    if (now < it->second.deadline) {
      ++it;
      continue;
    }
    hand_out(it->second, out);
    it = differences_.erase(it);
  }
}

Time Agreements::next_deadline() const {
  Time next = Time::max();
  for (auto& [key, agreement] : open_) next = std::min(next, agreement.rendezvous.deadline);
  for (auto& [key, difference] : differences_) next = std::min(next, difference.deadline);
  return next;
}

void Agreements::fail_all(const Problem& problem, Outbox& out) {
  for (auto it = open_.begin(); it != open_.end();) it = fail(it, problem, out);
  for (auto& [key, difference] : differences_) hand_out(difference, out);
  differences_.clear();
}

void Agreements::forget(Call* call) {
  for (auto it = open_.begin(); it != open_.end();) {
    auto& [key, agreement] = *it;
    std::erase_if(agreement.rendezvous.arrived, [&](auto& entry) {
      if (entry.second != call) return false;
      agreement.votes.erase(entry.first);
      return true;
    });
    it = agreement.rendezvous.arrived.empty() ? open_.erase(it) : std::next(it);
  }
  for (auto& [key, difference] : differences_)
    std::erase_if(difference.waiting, [&](auto& entry) { return entry.second == call; });
}

void Agreements::waits(int process, std::vector<std::string>& waits) const {
  for (auto& [key, agreement] : open_)
    if (auto it = agreement.rendezvous.arrived.find(process); it != agreement.rendezvous.arrived.end())
      waits.push_back(it->second->what);
}

}  // namespace lockstep::distributed::coordinator

#include "lockstep/distributed/members.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/distributed/identity.h"

namespace lockstep::distributed::coordinator {
namespace {

using coordination::Problem;
using coordination::Task;

constexpr auto time_to_tell = std::chrono::milliseconds(1000);
constexpr std::size_t most_described = 8;  // a message for 256 processes stays readable

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

std::vector<int> Rendezvous::missing() const {
  std::vector<int> result;
  for (int p : participants)
    if (!arrived.contains(p)) result.push_back(p);
  return result;
}

bool Members::participants(const google::protobuf::RepeatedField<int>& given, std::vector<int>& result) const {
  if (given.empty()) {
    result.clear();
    for (int p = 0; p < count(); ++p)
      if (members_[p].state != Task::FAILED) result.push_back(p);
    return true;
  }
  result.assign(given.begin(), given.end());
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result.front() >= 0 && result.back() < count();
}

std::string Members::name(int process) const {
  const Member& m = members_[process];
  if (m.identity.host().empty()) return fmt::format("process {}", process);
  return fmt::format("process {} ({}, pid {})", process, m.identity.host(), m.identity.pid());
}

std::string Members::describe(int process, Time now) const {
  const Member& m = members_[process];
  if (m.state == Task::ABSENT) return fmt::format("process {}: has not joined", process);
  std::string text = name(process);
  if (m.state == Task::LEAVING) return text + ": has called shutdown()";
  if (m.state == Task::LEFT) return text + ": has left";
  if (m.state == Task::FAILED) return text + ": is gone";
  double since_heard = seconds(now - m.heard);
  text += fmt::format(": in '{}' for {:.1f} s, heard {:.1f} s ago", m.phase.text(),
                      m.phase.age_ms() / 1e3 + since_heard, since_heard);
  std::vector<std::string> waits;
  if (waits_) waits_(process, waits);
  if (!waits.empty()) text += fmt::format("; it waits for {}", fmt::join(waits, ", "));
  return text;
}

std::string Members::arrived_and_missing(const Rendezvous& rendezvous, Time now) const {
  std::vector<int> arrived, missing = rendezvous.missing();
  for (auto& [process, call] : rendezvous.arrived) arrived.push_back(process);
  std::string text = fmt::format("arrived: {}; missing: ", process_ranges(arrived));
  for (std::size_t i = 0; i < missing.size() && i < most_described; ++i)
    text += (i ? "\n  " : "") + describe(missing[i], now);
  if (missing.size() > most_described)
    text += fmt::format("\n  and {} more: {}", missing.size() - most_described,
                        process_ranges({missing.begin() + most_described, missing.end()}));
  return text;
}

void Members::broadcast(const coordination::Event& event, Outbox& out, int except) {
  for (int p = 0; p < count(); ++p)
    if (p != except && members_[p].listener != nullptr) members_[p].listener->send(event, out);
}

bool Members::overdue(Rendezvous& rendezvous, Time now, Outbox& out) {
  if (rendezvous.asked == Time::max()) {
    if (now < rendezvous.deadline) return false;
    rendezvous.asked = now;
    rendezvous.deadline = now + time_to_tell;
    coordination::Event ask;
    ask.mutable_tell_phase();
    for (int p : rendezvous.missing())
      if (members_[p].listener != nullptr) members_[p].listener->send(ask, out);
  }
  if (now >= rendezvous.deadline) return true;
  for (int p : rendezvous.missing())
    if (members_[p].listener != nullptr && members_[p].heard <= rendezvous.asked) return false;
  return true;
}

Problem Members::departed(const std::vector<int>& processes) const {
  Problem problem;
  for (int p : processes) {
    const Member& member = members_[p];
    if (member.state != Task::LEAVING && member.state != Task::LEFT && member.state != Task::FAILED) continue;
    problem.set_code(Problem::LEFT);
    problem.add_processes(p);
    if (problem.message().empty())
      problem.set_message(member.state == Task::FAILED
                              ? member.end
                              : name(p) + " has called shutdown() and takes part in nothing more");
  }
  return problem;
}

}  // namespace lockstep::distributed::coordinator

// Deadlines of collectives. When one passes, the processes of the group are first asked who of them has arrived; with
// their answers, or after EngineOptions::report_grace without, the launch fails with an error that names who came, who
// did not, and what those who did not were doing; and with it everything else, if EngineOptions::on_stalled is there.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/collectives/answer.h"
#include "lockstep/collectives/engine_impl.h"

namespace lockstep::collectives {
namespace {

std::string list(const std::vector<std::int64_t>& partitions) {
  return fmt::format("partition{} {}", partitions.size() == 1 ? "" : "s", fmt::join(partitions, ", "));
}

}  // namespace

void Engine::Impl::watch_deadlines() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    auto now = std::chrono::steady_clock::now(), next = now + std::chrono::hours(1);
    std::vector<std::pair<std::shared_ptr<Meeting>, Error>> expired;
    std::vector<std::pair<Tag, std::vector<int>>> questions;
    for (auto& [id, entry] : meetings_) {
      if (entry.deadline <= now) {
        if (!entry.asking) {
          entry.asking = true;
          entry.deadline = now + options_.report_grace;
          Tag tag{id.communicator, id.launch, static_cast<std::uint64_t>(id.op), id.occurrence, id.group, 0, 0};
          questions.emplace_back(tag, ask_locked(entry));
          if (questions.back().second.empty()) entry.deadline = now;
        }
        if (entry.deadline <= now) {
          expired.emplace_back(entry.meeting, timeout_error_locked(entry));
          entry.deadline = TimePoint::max();
        }
      }
      next = std::min(next, entry.deadline);
    }
    std::optional<Error> divergence = concluded_locked(now);
    if (inquiry_) next = std::min(next, inquiry_->deadline);
    if (!expired.empty() || !questions.empty() || divergence) {
      lock.unlock();
      if (divergence) {
        if (options_.on_diverged) options_.on_diverged(*divergence);
        fail(*divergence, true);
      }
      for (const auto& [tag, processes] : questions) {
        for (int process : processes) exchange_.control(process, FrameKind::query, tag, {});
      }
      for (const auto& [meeting, error] : expired) {
        if (!options_.on_stalled) {
          meeting_failed(*meeting, error);
          continue;
        }
        options_.on_stalled(error);
        fail(error, true);
      }
      lock.lock();
      continue;
    }
    bool idle = meetings_.empty() && !inquiry_;
    wakes_ = idle ? TimePoint::max() : next;
    if (idle) {
      watch_.wait(lock);
    } else {
      watch_.wait_until(lock, next);
    }
  }
}

std::vector<int> Engine::Impl::ask_locked(Entry& entry) const {
  std::vector<int> processes;
  for (const Site& site : entry.meeting->plan().sites) {
    if (site.process != rank()) processes.push_back(site.process);
  }
  return processes;
}

std::string Engine::Impl::answer(const Tag& tag) const {
  std::string phase = options_.phase ? options_.phase() : std::string();
  std::lock_guard lock(mutex_);
  Answer answer;
  std::vector<std::string> doing;
  auto found = communicators_.find(tag.communicator);
  if (found == communicators_.end() || found->second.local == 0) {
    doing.push_back("it does not know the mesh");
  } else {
    const State& state = found->second;
    auto launch = state.launches.find(tag.launch);
    if (launch != state.launches.end()) {
      for (const auto& [call, count] : launch->second.calls) {
        if (call.first == static_cast<std::int64_t>(tag.op) && count > tag.occurrence)
          answer.arrived.push_back(call.second);
      }
    } else if (state.latest < tag.launch) {
      doing.push_back(fmt::format("it has not come to launch {}", tag.launch));
    } else {
      doing.push_back(fmt::format("it has ended launch {}", tag.launch));
    }
  }
  if (!phase.empty()) doing.push_back(std::move(phase));
  for (const auto& [id, entry] : meetings_) {
    if (doing.size() >= 4) break;
    if (static_cast<std::uint64_t>(id.op) == tag.op && id.launch == tag.launch) continue;
    doing.push_back(fmt::format("waiting in {} {}", to_string(entry.meeting->spec().op), entry.meeting->describe()));
  }
  answer.doing = fmt::format("{}", fmt::join(doing, ", "));
  return answer.text();
}

void Engine::Impl::answered(int peer, const FrameHeader& header, const std::string& payload) {
  std::lock_guard lock(mutex_);
  MeetingId id{header.tag.communicator, header.tag.launch, static_cast<std::int64_t>(header.tag.op),
               header.tag.occurrence, header.tag.group};
  auto found = meetings_.find(id);
  if (found == meetings_.end() || !found->second.asking) return;
  Entry& entry = found->second;
  entry.answers[peer] = payload;
  if (entry.answers.size() + 1 < entry.meeting->plan().sites.size()) return;
  entry.deadline = std::min(entry.deadline, std::chrono::steady_clock::now());
  watch_.notify_all();
}

Error Engine::Impl::timeout_error_locked(const Entry& entry) const {
  const Meeting& meeting = *entry.meeting;
  std::vector<std::int64_t> arrived;
  for (const Call& call : meeting.calls()) arrived.push_back(call.partition);
  std::vector<std::string> missing;
  for (const Site& site : meeting.plan().sites) {
    std::vector<std::int64_t> absent;
    std::string doing;
    auto answer = entry.answers.find(site.process);
    if (site.process != rank() && answer == entry.answers.end()) {
      doing = "which does not answer";
    } else if (site.process != rank()) {
      Answer theirs = Answer::parse(answer->second);
      doing = theirs.doing;
      arrived.insert(arrived.end(), theirs.arrived.begin(), theirs.arrived.end());
    }
    for (int position : site.positions) {
      std::int64_t partition = meeting.plan().members[position];
      if (std::find(arrived.begin(), arrived.end(), partition) == arrived.end()) absent.push_back(partition);
    }
    if (absent.empty()) continue;
    missing.push_back(fmt::format("{} of {}", list(absent),
                                  site.process == rank() ? "this process" : exchange_.peer_name(site.process)));
    if (!doing.empty()) missing.back() += fmt::format(" ({})", doing);
  }
  std::sort(arrived.begin(), arrived.end());
  std::erase_if(arrived, [&](std::int64_t partition) {
    const auto& members = meeting.plan().members;
    return std::find(members.begin(), members.end(), partition) == members.end();
  });
  auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - meeting.started()).count();
  std::string text = fmt::format("{} has not ended after {:.3g} s: ", meeting.describe(), seconds);
  if (missing.empty()) {
    text += "everybody has arrived, but ";
    auto processes = meeting.waiting_for();
    text += processes.empty() ? "it is still at work"
                              : fmt::format("data from process {} has not", fmt::join(processes, ", "));
  } else {
    text += fmt::format("{} arrived; missing: {}", list(arrived), fmt::join(missing, "; "));
  }
  return Error(ErrorCode::timeout, to_string(meeting.spec().op), text, 0);
}

}  // namespace lockstep::collectives

// Processes that launch different programs on a communicator. Whoever notices (Exchange) asks the others of the
// communicator what they have launched; with their answers, or after EngineOptions::report_grace without, everything
// outstanding ends with an error that says who launched what first that the others did not.
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/collectives/engine_impl.h"

namespace lockstep::collectives {

void Engine::Impl::on_diverged(int peer, std::uint64_t communicator) {
  std::vector<int> others;
  {
    std::lock_guard lock(mutex_);
    if (failure_ || inquired_) return;
    inquired_ = true;
    others = others_locked(communicators_[communicator]);
    if (others.empty()) others.push_back(peer);
    inquiry_ = Inquiry{communicator, std::chrono::steady_clock::now() + options_.report_grace, others, {}};
    watch_.notify_all();
  }
  for (int other : others) exchange_.control(other, FrameKind::recall, {.communicator = communicator}, {});
}

void Engine::Impl::recalled(int peer, const FrameHeader& header, const std::string& payload) {
  std::lock_guard lock(mutex_);
  if (!inquiry_ || inquiry_->communicator != header.tag.communicator) return;
  inquiry_->histories[peer] = payload;
  if (inquiry_->histories.size() >= inquiry_->asked.size()) inquiry_->deadline = std::chrono::steady_clock::now();
  watch_.notify_all();
}

std::optional<Error> Engine::Impl::concluded_locked(TimePoint now) {
  if (!inquiry_ || inquiry_->deadline > now) return std::nullopt;
  Inquiry inquiry = std::move(*inquiry_);
  inquiry_.reset();
  std::vector<std::pair<int, std::string>> answers{{rank(), exchange_.launches(inquiry.communicator)}};
  std::string silent;
  for (int process : inquiry.asked) {
    auto answer = inquiry.histories.find(process);
    if (answer == inquiry.histories.end()) {
      silent += fmt::format("; {} does not answer", exchange_.peer_name(process));
    } else {
      answers.emplace_back(process, answer->second);
    }
  }
  std::sort(answers.begin(), answers.end());
  std::vector<std::pair<std::string, std::string>> histories;
  for (auto& [process, text] : answers) histories.emplace_back(fmt::format("process {}", process), std::move(text));
  return Error(ErrorCode::diverged, "launch",
               "the processes do not launch the same programs in the same order: " + explain(histories) + silent, 0);
}

}  // namespace lockstep::collectives

// Carries collectives between partitions that are threads of one process: the plain reference for what compiled
// programs may expect. The last member to arrive computes everybody's results; a thread of its own completes them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "lockstep/runtime/collective_handler.h"

namespace lockstep::compile {

class InProcessEngine {
 public:
  InProcessEngine();
  ~InProcessEngine();
  runtime::CollectiveProgram::Start starter();
  int calls() const;
  // From now on every collective fails with this error.
  void fail_with(const Error& error);

 private:
  struct Call {
    std::int64_t partition;
    std::vector<collectives::InBuffer> inputs;
    std::vector<collectives::OutBuffer> outputs;
    collectives::Done done;
  };
  using Spec = std::shared_ptr<const collectives::CollectiveSpec>;
  void start(const Spec& spec, std::uint64_t launch, std::int64_t partition,
             std::span<const collectives::InBuffer> inputs, std::span<const collectives::OutBuffer> outputs,
             collectives::Done done);
  void complete_later(std::function<void()> work);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::tuple<std::uint64_t, std::int64_t, std::int64_t>, std::int64_t> occurrences_;
  std::map<std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t>, std::vector<Call>> waiting_;
  std::deque<std::function<void()>> completions_;
  std::unique_ptr<Error> failure_;
  int calls_ = 0;
  bool stopping_ = false;
  std::thread worker_;
};

}  // namespace lockstep::compile

// The engine's state: communicators, their launches, and the meetings under way.
//
// Locking: mutex_ guards everything here. It is never held while a meeting or the exchange is called, nor while `done`
// runs; functions with the suffix _locked expect it to be held.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/collectives/exchange.h"
#include "lockstep/collectives/meeting.h"
#include "lockstep/collectives/worker_pool.h"

namespace lockstep::collectives {

class Engine::Impl final : public MeetingHost, public Exchange::Events {
 public:
  Impl(std::unique_ptr<Transport> transport, EngineOptions options);
  ~Impl() override { close(); }
  void close();

  int rank() const { return exchange_.rank(); }
  int size() const { return exchange_.size(); }
  void add_communicator(Communicator communicator);
  void remove_communicator(std::uint64_t id);
  void start(std::shared_ptr<const CollectiveSpec> spec, std::uint64_t communicator, std::uint64_t launch,
             std::int64_t partition, std::span<const InBuffer> inputs, std::span<const OutBuffer> outputs, Done done);
  void end_launch(std::uint64_t communicator, std::uint64_t launch, std::int64_t partition);
  // `tell`: the other processes of the communicator.
  void fail_launch(std::uint64_t communicator, std::uint64_t launch, const Error& error, bool tell);
  void fail(const Error& error, bool tell);
  void lose(int peer, const Error& error) { exchange_.lose(peer, error); }
  void leave() { exchange_.leave(); }
  void set_deadline(std::chrono::nanoseconds deadline);
  void begin_launch(std::uint64_t communicator, LaunchedProgram program) {
    exchange_.begin_launch(communicator, std::move(program));
  }
  void intend_launch(std::uint64_t communicator, LaunchedProgram program) {
    exchange_.intend_launch(communicator, std::move(program));
  }
  void end_intent(std::uint64_t communicator, std::uint64_t program) { exchange_.end_intent(communicator, program); }
  std::vector<Outstanding> snapshot() const;
  std::vector<OpStatistics> statistics() const;

 private:
  using Failure = std::shared_ptr<const Error>;
  struct MeetingIdHash {
    std::size_t operator()(const MeetingId& id) const;
  };
  struct Launch {
    std::map<std::pair<std::int64_t, std::int64_t>, std::uint32_t> calls;  // by (op, partition)
    std::size_t ended = 0;                                                 // local partitions
    Failure failure;
  };
  struct State {  // of a communicator
    Communicator communicator;
    std::size_t local = 0;  // partitions of this process
    std::map<std::uint64_t, Launch> launches;
    std::uint64_t latest = 0;  // the highest launch seen here
    Failure failure;
  };
  struct Entry {
    std::shared_ptr<Meeting> meeting;
    bool begun = false;
    std::chrono::steady_clock::time_point deadline;
    bool asking = false;  // the deadline has passed; the other processes have been asked who is there
    std::map<int, std::string> answers;
  };
  using Meetings = std::unordered_map<MeetingId, Entry, MeetingIdHash>;
  struct Doomed {
    std::shared_ptr<Meeting> meeting;
    bool begun;
  };

  // MeetingHost
  Exchange& exchange() override { return exchange_; }
  WorkerPool& workers() override { return *workers_; }
  WorkerPool& completions() override { return *completions_; }
  const EngineOptions& options() const override { return options_; }
  void meeting_failed(const Meeting& meeting, const Error& error) override;
  void meeting_ended(const Meeting& meeting) override;
  // Exchange::Events
  void on_control(int peer, const FrameHeader& header, const std::string& payload) override;
  void on_lost(int peer, const Error& error) override;
  void on_diverged(int peer, std::uint64_t communicator) override;

  Failure failure_locked(const State& state, const Launch& launch) const;
  void fail_communicator(std::uint64_t id, const Failure& failure);
  template <class Predicate>
  std::vector<Doomed> take_locked(Predicate predicate);
  void end_with(const std::vector<Doomed>& doomed, const Failure& failure);
  std::vector<int> others_locked(const State& state) const;
  std::string answer(const Tag& tag) const;
  void answered(int peer, const FrameHeader& header, const std::string& payload);
  void recalled(int peer, const FrameHeader& header, const std::string& payload);
  // The inquiry's outcome, if it is due.
  std::optional<Error> concluded_locked(TimePoint now);
  void watch_deadlines();
  std::vector<int> ask_locked(Entry& entry) const;
  Error timeout_error_locked(const Entry& entry) const;

  EngineOptions options_;
  Exchange exchange_;

  mutable std::mutex mutex_;
  std::map<std::uint64_t, State> communicators_;
  Meetings meetings_;
  Failure failure_;  // of the engine
  struct Inquiry {   // the processes of a communicator launch different programs: in what do they differ?
    std::uint64_t communicator;
    TimePoint deadline;
    std::vector<int> asked;
    std::map<int, std::string> histories;
  };
  std::optional<Inquiry> inquiry_;
  bool inquired_ = false;
  std::uint64_t next_lease_ = 1;
  std::map<std::pair<CollectiveOp, std::string>, OpStatistics> statistics_;

  std::condition_variable watch_;
  TimePoint wakes_ = TimePoint::max();  // when the watcher wakes by itself
  bool stopping_ = false, closed_ = false;

  std::unique_ptr<WorkerPool> workers_, completions_;
  std::thread watcher_;
};

}  // namespace lockstep::collectives

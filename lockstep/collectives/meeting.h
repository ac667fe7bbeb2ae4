// One call of one collective in this process: its local members' calls, and the messages to and from the other sites.
//
// A meeting gathers the calls of all local members of the group, then runs. Everything it has under way (messages,
// worker tasks) holds it; when the last hold is released it ends, and the callers' `done` follow. A failure withdraws
// its messages and makes its tasks return early, so that it too ends only when nothing touches the buffers any more.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/collectives/exchange.h"
#include "lockstep/collectives/plan.h"
#include "lockstep/collectives/worker_pool.h"

namespace lockstep::collectives {

class Meeting;

// What meetings use of the engine.
class MeetingHost {
 public:
  virtual ~MeetingHost() = default;
  virtual Exchange& exchange() = 0;
  virtual WorkerPool& workers() = 0;
  virtual WorkerPool& completions() = 0;
  virtual const EngineOptions& options() const = 0;
  // The meeting's launch has failed; ends up in Meeting::fail, of this meeting and others.
  virtual void meeting_failed(const Meeting& meeting, const Error& error) = 0;
  virtual void meeting_ended(const Meeting& meeting) = 0;
};

struct MeetingId {
  std::uint64_t communicator = 0, launch = 0;
  std::int64_t op = 0;
  std::uint32_t occurrence = 0;
  std::uint32_t group = 0;  // the group's first member; for collective_permute the calling partition
  bool operator==(const MeetingId&) const = default;
};

struct Call {
  int position = 0;  // in the group
  std::int64_t partition = 0;
  std::vector<InBuffer> inputs;
  std::vector<OutBuffer> outputs;
  std::int64_t rows_in = 0, rows_out = 0;  // dimension 0 of the first input and output
  Done done;
};

struct MeetingInit {
  MeetingHost* host;
  MeetingId id;
  std::shared_ptr<const CollectiveSpec> spec;
  Plan plan;
  std::size_t expected;  // local calls
  std::uint64_t lease;
  std::chrono::steady_clock::time_point started, deadline;
};

class Meeting : public std::enable_shared_from_this<Meeting> {
 public:
  explicit Meeting(MeetingInit init);
  virtual ~Meeting() = default;
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;

  // Calls of the engine, which serialises the first two by its lock.
  void arrive_locked(Call call);
  bool all_here_locked() const { return calls_.size() == expected_; }
  // Once, when all are here. The call that was the last to arrive is left to the caller if the meeting ends before
  // begin() returns: he then gets its `done`.
  Done begin();
  // Ends a meeting that has not begun and will not.
  void abandon(std::shared_ptr<const Error> error);
  void fail(std::shared_ptr<const Error> error);
  std::shared_ptr<const Error> error() const;

  const MeetingId& id() const { return id_; }
  const CollectiveSpec& spec() const { return *spec_; }
  const Plan& plan() const { return plan_; }
  const std::vector<Call>& calls() const { return calls_; }
  std::chrono::steady_clock::time_point started() const { return started_; }
  std::chrono::steady_clock::time_point deadline() const { return deadline_; }
  std::size_t input_bytes() const;
  std::size_t bytes_sent() const { return sent_; }
  std::vector<int> waiting_for() const;  // processes
  std::string describe() const;          // "psum.3 (train.cc:42) in launch 17"

 protected:
  // Throws Error if the calls' buffers do not fit the operation.
  virtual void check() const = 0;
  // Starts the work. Runs on the thread of the last caller: what takes long goes through work().
  virtual void run() = 0;

  Tag tag(std::uint32_t item, std::uint32_t chunk) const;
  // Messages to and from a site, by its index in the plan. `then` runs on any thread, the progress thread included; it
  // may throw Error.
  void send(int site, const Tag& tag, std::vector<Piece> pieces, std::function<void()> then = {});
  void receive(int site, const Tag& tag, std::vector<MutablePiece> pieces, std::function<void()> then);
  void receive(int site, const Tag& tag, std::size_t bytes, Sink sink, std::function<void()> then);
  // Runs the task on a worker, or at once if it is about few bytes.
  void work(std::size_t bytes, std::function<void()> task);
  // Copies, in parts on the workers if it is much.
  void copy(void* to, const void* from, std::size_t bytes);
  bool failed() const { return failed_; }

  MeetingHost& host() const { return *host_; }
  Call& call_at(int position);                         // of a local member
  std::vector<Call>& local_calls() { return calls_; }  // in group order
  [[noreturn]] void reject(ErrorCode code, const std::string& why) const;
  // That all calls have equally many inputs and outputs, pairwise alike in bytes times the two factors and in dtype.
  void check_like(std::size_t input_factor, std::size_t output_factor) const;

 private:
  void hold() { holds_.fetch_add(1); }
  bool release();  // true: that was the last hold, and the meeting has ended
  void failed_with(const Error& cause);
  void recheck();
  void guarded(const std::function<void()>& task);
  Exchange::Outcome receiving(int site, std::function<void()> then);
  std::uint32_t fingerprint() const;

  MeetingHost* const host_;
  const MeetingId id_;
  const std::shared_ptr<const CollectiveSpec> spec_;
  const Plan plan_;
  const std::size_t expected_;
  const std::uint64_t lease_;
  const std::chrono::steady_clock::time_point started_, deadline_;
  std::vector<Call> calls_;  // in group order
  std::uint32_t fingerprint_ = 0;

  std::atomic<int> holds_{1};  // one for run()
  std::atomic<bool> failed_{false};
  std::atomic<std::size_t> sent_{0};
  std::vector<std::atomic<int>> pending_;  // receives under way, by site
  mutable std::mutex mutex_;
  std::shared_ptr<const Error> error_;
  std::int64_t last_ = -1;  // the partition that arrived last
};

inline MutablePiece mutable_piece(void* data, std::size_t bytes) { return {static_cast<std::byte*>(data), bytes}; }
inline Piece piece(const void* data, std::size_t bytes) { return {static_cast<const std::byte*>(data), bytes}; }

// The meeting for a spec's operation.
std::shared_ptr<Meeting> make_meeting(MeetingInit init);
std::shared_ptr<Meeting> make_all_reduce(MeetingInit init);
std::shared_ptr<Meeting> make_reduce_scatter(MeetingInit init);
std::shared_ptr<Meeting> make_all_gather(MeetingInit init);
std::shared_ptr<Meeting> make_all_to_all(MeetingInit init);
std::shared_ptr<Meeting> make_permute(MeetingInit init);
std::shared_ptr<Meeting> make_broadcast(MeetingInit init);
std::shared_ptr<Meeting> make_ragged_all_to_all(MeetingInit init);

}  // namespace lockstep::collectives

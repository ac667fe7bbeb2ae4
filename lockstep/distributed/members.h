// Who belongs to the gang, what the coordinator knows of each process, and where its events go. Not thread-safe.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/distributed/call.h"
#include "lockstep/distributed/coordination.pb.h"

namespace lockstep::distributed::coordinator {

// One process's event stream. Events leave in the order of the calls.
struct Listener {
  virtual void send(const coordination::Event& event, Outbox& out) = 0;
  virtual void close(Outbox& out) = 0;

 protected:
  ~Listener() = default;
};

struct Member {
  coordination::Task::State state = coordination::Task::ABSENT;
  std::uint64_t incarnation = 0;
  coordination::Identity identity;
  coordination::Phase phase;
  Time heard;                  // the last heartbeat; the phase is as of then
  Time lost_at = Time::max();  // when it counts as dead unless it listens again before
  std::string end;             // how it ended, if it has FAILED
  Listener* listener = nullptr;
  CallFor<coordination::RegisterResponse>* registration = nullptr;
};

// Processes that have to come together before a deadline.
struct Rendezvous {
  std::vector<int> participants;  // sorted
  std::map<int, Call*> arrived;
  Time since, deadline;
  Time asked = Time::max();  // when the missing ones were asked what they do

  bool complete() const { return arrived.size() == participants.size(); }
  std::vector<int> missing() const;
};

class Members {
 public:
  explicit Members(int count) : members_(count) {}

  int count() const { return static_cast<int>(members_.size()); }
  Member& operator[](int process) { return members_[process]; }
  const Member& operator[](int process) const { return members_[process]; }
  // All processes but those that have died, or the given ones sorted without repetition; false if one is out of range.
  bool participants(const google::protobuf::RepeatedField<int>& given, std::vector<int>& result) const;

  // "process 3 (hostb, pid 77)"
  std::string name(int process) const;
  // The name, what the process last said it was doing, when that was, and which calls of its are open here.
  std::string describe(int process, Time now) const;
  // "arrived: 0-2; missing: process 3 (hostb, pid 77): in 'compiling jit(step)' for 40.0 s, heard 0.1 s ago"
  std::string arrived_and_missing(const Rendezvous& rendezvous, Time now) const;
  // Fills the description of what each open call of a process waits for.
  void set_waits(std::function<void(int process, std::vector<std::string>& waits)> waits) { waits_ = std::move(waits); }

  void broadcast(const coordination::Event& event, Outbox& out, int except = -1);
  // Whether the rendezvous has failed for want of time. When the deadline passes, the missing processes are first
  // asked what they are doing, so that the message can say it; that takes a second at most, less if all answer.
  bool overdue(Rendezvous& rendezvous, Time now, Outbox& out);
  // LEFT if one of the processes has left or died.
  coordination::Problem departed(const std::vector<int>& processes) const;

 private:
  std::vector<Member> members_;
  std::function<void(int, std::vector<std::string>&)> waits_;
};

}  // namespace lockstep::distributed::coordinator

// The coordinator of a gang as a state machine: requests and the passing of time go in, answers and events come out
// through the outbox. No threads, no gRPC, no lock: service.cc adds those.
//
// The gang fails once: the first failure is told to every process, ends every open call and stays the answer to all
// that is asked later. A recoverable gang goes on without processes that die, except process 0: the others are told,
// what waits for the dead ends, and the dead, should they come back, hear that the gang has gone on.
#pragma once

#include <optional>

#include "lockstep/distributed/agreements.h"
#include "lockstep/distributed/barriers.h"
#include "lockstep/distributed/kv_store.h"
#include "lockstep/distributed/members.h"

namespace lockstep::distributed::coordinator {

inline constexpr int protocol_version = 3;

struct CoordinatorOptions {
  int num_processes;
  std::uint64_t incarnation;
  std::chrono::milliseconds heartbeat_timeout;
  bool recoverable = false;
};

class Coordinator {
 public:
  Coordinator(const CoordinatorOptions& options, Time now);
  Coordinator(const Coordinator&) = delete;

  // A process joins, and listens from now on.
  void register_task(const coordination::RegisterRequest& request, Listener* listener,
                     CallFor<coordination::RegisterResponse>* call, Time now, Outbox& out);
  void heartbeat(const coordination::HeartbeatRequest& request, coordination::HeartbeatResponse* response, Time now);
  // A process listens again. It is told why and closed if it isn't one of the gang.
  void listen(const coordination::ListenRequest& request, Listener* listener, Time now, Outbox& out);
  void listener_gone(int process, Listener* listener, Time now);
  void report_error(const coordination::ReportErrorRequest& request, CallFor<coordination::ReportErrorResponse>* call,
                    Time now, Outbox& out);
  // Held until all who are in the gang and not leaving have called it.
  void live(const coordination::LiveRequest& request, CallFor<coordination::LiveResponse>* call, Time now, Outbox& out);
  void shut_down(const coordination::ShutdownRequest& request, CallFor<coordination::ShutdownResponse>* call, Time now,
                 Outbox& out);
  void watch_tasks(const coordination::WatchTasksRequest& request, CallFor<coordination::WatchTasksResponse>* call,
                   Time now, Outbox& out);

  // OK if the caller is one of the gang and the gang is in order.
  coordination::Problem admit(const coordination::Caller& caller) const;
  KeyValueStore& kv() { return kv_; }
  Barriers& barriers() { return barriers_; }
  Agreements& agreements() { return agreements_; }

  // Liveness, deadlines. To be called at least every 100 ms and when the next deadline has come.
  void tick(Time now, Outbox& out);
  Time next_deadline() const;
  // The call's maker is gone; it will not be finished.
  void forget(Call* call);
  // Ends every open call and every listener with this reason.
  void stop(const std::string& reason, Outbox& out);
  bool everybody_left() const;

 private:
  void compare_members(Time now);
  void refuse(std::string message, const std::vector<int>& processes, Time now);
  void settle_registration(Time now, Outbox& out);
  void attach(int process, Listener* listener, Outbox& out);
  void reset(int process);
  void accept(Member& member, Time now, Outbox& out);
  void fail(coordination::Failure::Kind kind, const std::vector<int>& processes, const std::string& message,
            Outbox& out);
  // The gang fails, or goes on without them.
  void lose(coordination::Failure::Kind kind, const std::vector<int>& processes, const std::string& message, Time now,
            Outbox& out);
  void settle_live(Outbox& out);
  void settle_shutdown(Time now, Outbox& out);
  void end_calls(const coordination::Problem& problem, Outbox& out);
  bool preempted(int process) const;
  bool is_caller(const coordination::Caller& caller) const;
  void changed(Time now, Outbox& out);
  void fill(coordination::WatchTasksResponse* response, Time now) const;

  CoordinatorOptions options_;
  Members members_;
  KeyValueStore kv_;
  Barriers barriers_{members_};
  Agreements agreements_{members_};
  Rendezvous shutdown_, live_;
  std::int64_t live_rounds_ = 0;

  bool complete_ = false;                                          // all have registered
  std::string roster_;                                             // serialised, once complete
  coordination::Problem refusal_;                                  // why registration will fail for all
  Time refusal_at_ = Time::max();                                  // when those who have come are told, if not all have
  std::vector<CallFor<coordination::RegisterResponse>*> surplus_;  // registrations to be refused
  std::vector<Listener*> orphans_;                                 // of processes that are forgotten
  std::optional<coordination::Failure> failure_;
  coordination::Problem failure_problem_;
  bool stopped_ = false;
  coordination::Problem stop_problem_;
  std::int64_t version_ = 0;
  std::vector<CallFor<coordination::WatchTasksResponse>*> watchers_;
  struct Late {
    Call* call;
    Time at;
  };
  std::vector<Late> late_;  // answers that wait until events have left
  Time last_tick_;
};

}  // namespace lockstep::distributed::coordinator

// Named, counted barriers over all processes or some. Not thread-safe.
//
// The n-th use of a name is its instance n (from 0), and each process says which instance it enters. The earliest
// deadline of those who have arrived counts. An instance ends once, for all: with success, or with a problem that later
// arrivals get too.
#pragma once

#include <map>
#include <string>
#include <unordered_map>

#include "lockstep/distributed/members.h"

namespace lockstep::distributed::coordinator {

class Barriers {
 public:
  explicit Barriers(Members& members) : members_(members) {}

  // A process that enters again while it waits replaces its earlier call (it may have lost its connection).
  // INVALID, for all, if the participants differ from the first arrival's or lack the caller; PRECONDITION if the
  // counter is not that of the open instance or the next.
  void enter(const coordination::BarrierRequest& request, CallFor<coordination::BarrierResponse>* call, Time now,
             Outbox& out);
  // PRECONDITION if the instance isn't open.
  void cancel(const coordination::CancelBarrierRequest& request, coordination::CancelBarrierResponse* response,
              Outbox& out);
  // The process takes part in nothing more.
  void depart(int process, Outbox& out);

  void expire(Time now, Outbox& out);
  Time next_deadline() const;
  void fail_all(const coordination::Problem& problem, Outbox& out);
  void forget(Call* call);
  void waits(int process, std::vector<std::string>& waits) const;

 private:
  struct History {
    std::int64_t next = 0;       // the counter of the open instance, or of the next one
    coordination::Problem last;  // how instance next - 1 ended
  };
  using Open = std::map<std::string, Rendezvous>;
  Open::iterator end(Open::iterator it, const coordination::Problem& problem, Outbox& out);

  Members& members_;
  Open open_;
  std::unordered_map<std::string, History> history_;
};

}  // namespace lockstep::distributed::coordinator

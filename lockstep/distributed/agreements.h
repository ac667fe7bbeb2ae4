// Whether all participants are about to do the same: each hands in a fingerprint under a key, and all learn together
// whether they are equal. After a difference the representatives of the two largest groups hand in the full text of
// what they wanted to do, and everybody gets both. Not thread-safe.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "lockstep/distributed/members.h"

namespace lockstep::distributed::coordinator {

class Agreements {
 public:
  explicit Agreements(Members& members) : members_(members) {}

  // The first arrival sets the participants; the earliest deadline of those who have arrived counts. A key that has
  // failed stays failed.
  void agree(const coordination::AgreeRequest& request, CallFor<coordination::AgreeResponse>* call, Time now,
             Outbox& out);
  // Held until both representatives' texts are there, for a few seconds at most; absent ones are answered as "".
  void differ(const coordination::DifferRequest& request, CallFor<coordination::DifferResponse>* call, Time now,
              Outbox& out);
  void depart(int process, Outbox& out);

  void expire(Time now, Outbox& out);
  Time next_deadline() const;
  void fail_all(const coordination::Problem& problem, Outbox& out);
  void forget(Call* call);
  void waits(int process, std::vector<std::string>& waits) const;

 private:
  struct Vote {
    std::string fingerprint, call_site, note;
  };
  struct Agreement {
    Rendezvous rendezvous;
    std::map<int, Vote> votes;
  };
  struct Difference {
    std::vector<int> representatives;  // two
    std::map<int, std::string> texts;
    std::set<int> unserved;
    std::map<int, CallFor<coordination::DifferResponse>*> waiting;
    Time deadline;
  };
  using Open = std::map<std::string, Agreement>;
  void conclude(Open::iterator it, Time now, Outbox& out);
  Open::iterator fail(Open::iterator it, const coordination::Problem& problem, Outbox& out);
  void hand_out(Difference& difference, Outbox& out);

  Members& members_;
  Open open_;
  std::map<std::string, Difference> differences_;
  std::deque<std::pair<std::string, coordination::Problem>> failed_;  // the latest ones
};

}  // namespace lockstep::distributed::coordinator

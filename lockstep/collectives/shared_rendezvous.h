// How the processes of one host get each other's memory: over Unix sockets, whose names they tell each other through
// the store.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lockstep/collectives/shared_ring.h"
#include "lockstep/collectives/store.h"

namespace lockstep::collectives {

struct Neighbour {
  Inbox inbox;               // the neighbour's
  std::size_t my_ring = 0;   // in its inbox
  std::size_t its_ring = 0;  // in mine
};

struct Neighbourhood {
  Inbox inbox;                          // this process's
  std::map<int, Neighbour> neighbours;  // by rank
};

// Every one of the members (sorted) calls this. Processes that can't share memory, or are alone on their host, have no
// neighbours (with a warning if it got no memory). Error(timeout) names who has not come, Error(peer) who is another.
Neighbourhood meet_neighbours(Store& store, int rank, const std::vector<int>& members, TimePoint deadline,
                              const std::string& prefix);

}  // namespace lockstep::collectives

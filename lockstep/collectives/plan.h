// Who takes part in one call of a collective, and where they live.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/collectives/engine.h"

namespace lockstep::collectives {

// The members of a group that live in one process, by position in the group.
struct Site {
  int process = 0;
  std::vector<int> positions;
};

struct Plan {
  std::vector<std::int64_t> members;  // partitions in group order
  std::vector<Site> sites;            // in the order in which the processes first appear in the group
  int home = 0;                       // this process's site

  const Site& here() const { return sites[home]; }
  int position(std::int64_t partition) const;  // in the group
};

// The plan for the group that `partition`, which lives in process `rank`, belongs to. For collective_permute: of the
// partition's source, itself and its target, without repetition. Throws Error(invalid_argument) if the spec does not
// fit the communicator.
Plan make_plan(const CollectiveSpec& spec, const Communicator& communicator, std::int64_t partition, int rank);

struct Route {
  std::int64_t source = -1, target = -1;  // -1: none
};
// Whom the partition hears from and sends to in a collective_permute.
Route route(const CollectiveSpec& spec, std::int64_t partition);

}  // namespace lockstep::collectives

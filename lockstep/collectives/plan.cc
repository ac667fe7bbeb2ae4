#include "lockstep/collectives/plan.h"

#include <algorithm>

namespace lockstep::collectives {
namespace {

std::vector<std::int64_t> members_of(const CollectiveSpec& spec, std::int64_t partition) {
  if (spec.op == CollectiveOp::collective_permute) {
    Route r = route(spec, partition);
    std::vector<std::int64_t> members;
    for (std::int64_t m : {r.source, partition, r.target}) {
      if (m >= 0 && std::find(members.begin(), members.end(), m) == members.end()) members.push_back(m);
    }
    return members;
  }
  auto size = spec.group_size;
  if (size <= 0 || spec.groups.size() % size != 0) {
    throw_error(ErrorCode::invalid_argument, to_string(spec.op), "{}: {} partition numbers do not make groups of {}",
                spec.name, spec.groups.size(), size);
  }
  auto found = std::find(spec.groups.begin(), spec.groups.end(), partition);
  if (found == spec.groups.end()) {
    throw_error(ErrorCode::invalid_argument, to_string(spec.op), "{}: partition {} is in no group", spec.name,
                partition);
  }
  auto first = spec.groups.begin() + (found - spec.groups.begin()) / size * size;
  return {first, first + size};
}

}  // namespace

int Plan::position(std::int64_t partition) const {
  auto found = std::find(members.begin(), members.end(), partition);
  LS_CHECK(found != members.end());
  return static_cast<int>(found - members.begin());
}

Plan make_plan(const CollectiveSpec& spec, const Communicator& communicator, std::int64_t partition, int rank) {
  Plan plan;
  plan.members = members_of(spec, partition);
  for (std::size_t i = 0; i < plan.members.size(); ++i) {
    std::int64_t member = plan.members[i];
    if (member < 0 || member >= static_cast<std::int64_t>(communicator.processes.size())) {
      throw_error(ErrorCode::invalid_argument, to_string(spec.op),
                  "{}: partition {} is not one of the communicator's {}", spec.name, member,
                  communicator.processes.size());
    }
    int process = communicator.processes[member];
    auto site = std::find_if(plan.sites.begin(), plan.sites.end(), [&](const Site& s) { return s.process == process; });
    if (site == plan.sites.end()) site = plan.sites.insert(site, {process, {}});
    site->positions.push_back(static_cast<int>(i));
    if (process == rank) plan.home = static_cast<int>(site - plan.sites.begin());
  }
  return plan;
}

Route route(const CollectiveSpec& spec, std::int64_t partition) {
  Route r;
  for (std::size_t i = 0; i + 1 < spec.pairs.size(); i += 2) {
    if (spec.pairs[i] == partition) r.target = spec.pairs[i + 1];
    if (spec.pairs[i + 1] == partition) r.source = spec.pairs[i];
  }
  return r;
}

}  // namespace lockstep::collectives

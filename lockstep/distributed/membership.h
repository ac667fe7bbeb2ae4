#pragma once

#include <cstdint>
#include <vector>

namespace lockstep::distributed {

// Who takes part in what concerns the whole gang: all processes at first, then those that live_processes() has named
// last.
struct Membership {
  std::int64_t round = 0;      // how many times all that were left have called it
  std::vector<int> processes;  // sorted
};

}  // namespace lockstep::distributed

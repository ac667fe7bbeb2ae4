// Private to the room: who meets whom in a collective instruction.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/compile/hlo.pb.h"

namespace lockstep::compile {

struct Groups {
  std::vector<std::int64_t> members;  // partition numbers, group after group
  std::int64_t size = 0;              // of each group
};

// The groups of any collective but collective-permute, in a program of one replica, from all forms in which XLA writes
// them: lists, iota lists, mesh axes with sub-axes, the deprecated lists, and no list (everybody). Instructions across
// replicas alone make every partition its own group. Errors of code `compile`: groups of unequal size, partitions
// out of range or in two groups.
Groups decode_groups(const hlo::Instruction& instruction, std::int64_t partitions);

// Source and target of each pair of a collective-permute, flat.
std::vector<std::int64_t> decode_pairs(const hlo::Instruction& instruction, std::int64_t partitions);

}  // namespace lockstep::compile

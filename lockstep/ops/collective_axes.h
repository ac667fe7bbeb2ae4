// What the files of collective primitives share: parameters' parts, and arithmetic on axes.
#pragma once

#include "lockstep/ops/collectives.h"
#include "lockstep/trace/rules.h"

namespace lockstep {

// Checks that the groups cover 0 ... n - 1, each once.
void check_index_groups(const char* operation, const std::optional<lax::AxisIndexGroups>& groups);
// The number of instances that communicate: the axes' sizes multiplied, or the size of a group.
std::int64_t group_size(const char* operation, const lax::AxisName& axes,
                        const std::optional<lax::AxisIndexGroups>& groups);

// Whether the mapped axis being batched is one of the names.
inline bool is_own_axis(const BatchIn& in, const std::vector<std::string>& names) {
  if (in.axis_name.empty()) return false;
  for (auto& n : names)
    if (n == in.axis_name) return true;
  return false;
}
// For batching over an own axis: no groups are supported there.
void refuse_groups(const char* operation, const std::optional<lax::AxisIndexGroups>& groups);

// [.., n * m, ..] -> [.., n, m, ..], and back.
Array split_axis(const Array& x, int axis, std::int64_t factor);
Array fold_axis(const Array& x, int axis);

}  // namespace lockstep

// Which devices a collective joins, for the lowerings of collectives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/lower/context.h"

namespace lockstep {

// Partition numbers: one list for each group, members in the order of the axes' indices (the first name is major).
// Throws Error(axis) if the program being lowered has no such mesh axis.
std::vector<Ints> replica_groups(const LowerContext& ctx, const char* operation, const std::vector<std::string>& axes,
                                 const std::optional<std::vector<Ints>>& axis_index_groups = std::nullopt);
// "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>"; shorter lists are filled up with -1.
std::string table_attribute(const std::vector<Ints>& rows);
inline constexpr const char* kChannelHandle = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";

}  // namespace lockstep

// Private to the room: how the compiler laid out results whose sharding was left to it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/core/aval.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/spec.h"

namespace lockstep::compile {

// Of each result, as a spec on the mesh; empty where no spec says it (parts of one mesh axis, say). `module` is the
// partitioned HloModuleProto; partition p is the mesh's p-th device.
std::vector<std::optional<PartitionSpec>> result_specs(std::string_view module, const Mesh& mesh,
                                                       const AvalList& results);

}  // namespace lockstep::compile

// shard_map: a function per device of a mesh. Its jaxpr sees one device's part of every operand; collectives in it name
// the mesh's axes. Whether results are alike on devices that out_specs says hold the same part is not checked (JAX's
// check_vma=False, whose rules for differentiation these are).
#pragma once

#include <string>
#include <vector>

#include "lockstep/sharding/sharding.h"
#include "lockstep/transforms/autodiff.h"

namespace lockstep {

extern const Primitive shard_map_p;

// f maps parts to parts; `args` are whole, and so are the results. `names` of the operands are for messages.
Arrays bind_shard_map(const FlatFunction& f, const Mesh& mesh, std::vector<PartitionSpec> in_specs,
                      const std::function<std::vector<PartitionSpec>(const AvalList& results)>& out_specs,
                      std::span<const Array> args, std::span<const std::string> names);

}  // namespace lockstep

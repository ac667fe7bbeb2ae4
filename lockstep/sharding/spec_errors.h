// Private to the room: what is wrong with a spec, and one that would do.
#pragma once

#include <string_view>

#include "lockstep/core/shape.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/spec.h"

namespace lockstep::internal {

// Throws Error(sharding): an axis not in the mesh, an axis used twice, an unconstrained dimension unless allowed.
void check_axes(const Mesh& mesh, const PartitionSpec& spec, std::string_view operation, std::string_view argument,
                bool allow_unconstrained);

// A spec like the given one that fits the shape: axes that do not fit where they are go to another dimension that they
// divide, or are left out.
PartitionSpec legal_spec(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape);

}  // namespace lockstep::internal

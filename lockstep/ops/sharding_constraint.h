// with_sharding_constraint: fixes how a value inside a program is laid out.
#pragma once

#include <source_location>

#include "lockstep/sharding/sharding.h"
#include "lockstep/trace/array.h"

namespace lockstep {
extern const Primitive sharding_constraint_p;
}
namespace lockstep::lax {

// The array itself, laid out as `sharding` says. The gradient is laid out the same way. Error(sharding) if it does not
// fit the shape. A bare spec uses the mesh in scope (set_mesh).
Array with_sharding_constraint(const Array& x, const ShardingLike& sharding,
                               std::source_location where = std::source_location::current());

}  // namespace lockstep::lax

// Where arrays lie, said inside programs.
#pragma once

#include "lockstep/core/primitive.h"
#include "lockstep/sharding/params.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive sharding_constraint_p;

struct ShardingConstraintParams {
  Mesh context_mesh;  // set by set_mesh when the constraint was made
  None layout;
  NamedSpec sharding;
  UnconstrainedDims unconstrained_dims;
};

namespace lax {

// The same array, which the compiler has to lay out like this. A bare spec refers to the mesh set by set_mesh;
// dimensions may be left `unconstrained`. Outside traces the array is moved. Error(sharding) for a spec that does not
// fit the mesh or the shape.
Array with_sharding_constraint(const Operand& x, const ShardingLike& sharding);
Array with_sharding_constraint(const Operand& x, const Mesh& mesh, const PartitionSpec& spec);

}  // namespace lax

// Moves an array that is not traced to a sharding that fits its shape: within this process without a program, across
// processes by one.
Array place(const Array& x, const Sharding& target, const char* operation);

}  // namespace lockstep

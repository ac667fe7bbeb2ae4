// Meshes and specs as parameters of equations.
#pragma once

#include "lockstep/core/params.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep {

// A NamedSharding that may leave dimensions unconstrained; prints as one.
struct NamedSpec {
  Mesh mesh;
  PartitionSpec spec;
  bool operator==(const NamedSpec&) const = default;
};
struct UnconstrainedDims {  // prints as a frozenset
  Ints dims;
  bool operator==(const UnconstrainedDims&) const = default;
};

void print_param(Printer& p, const Mesh& m);
void print_param(Printer& p, const PartitionSpec& s);
void print_param(Printer& p, const NamedSpec& s);
void print_param(Printer& p, const UnconstrainedDims& d);
std::size_t hash_param(const Mesh& m);
std::size_t hash_param(const PartitionSpec& s);
std::size_t hash_param(const NamedSpec& s);
std::size_t hash_param(const UnconstrainedDims& d);

}  // namespace lockstep

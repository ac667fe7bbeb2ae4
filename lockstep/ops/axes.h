// Arithmetic on lists of axes, shared by the rules of primitives.
#pragma once

#include <initializer_list>
#include <string_view>

#include "lockstep/core/aval.h"
#include "lockstep/core/shape.h"

namespace lockstep {

// The axis counted from the front. Throws Error(axis) naming `operation` if it is not in [-rank, rank).
int canonical_axis(std::string_view operation, std::int64_t axis, int rank);
// All of them; throws Error(axis) if one is repeated.
Ints canonical_axes(std::string_view operation, const Ints& axes, int rank);
bool contains(const Ints& list, std::int64_t value);
// 0, 1, ..., n - 1.
Ints iota_ints(std::int64_t n);
// The numbers below `rank` that are in none of the lists, in order.
Ints remaining(int rank, std::initializer_list<const Ints*> lists);
inline Ints remaining(int rank, const Ints& a) { return remaining(rank, {&a}); }
inline Ints remaining(int rank, const Ints& a, const Ints& b) { return remaining(rank, {&a, &b}); }
// list[i] for each index.
Ints take(const Ints& list, const Ints& indices);
// The places of the list in ascending order of its values: the inverse of a permutation.
Ints argsort(const Ints& list);
// Axes of an array, after a new axis has been put in at `inserted`.
Ints bump_dims(const Ints& axes, int inserted);
// The shape without these axes.
Shape without_axes(const Shape& shape, const Ints& axes);
// The shape with these axes set to 1.
Shape keep_axes(const Shape& shape, const Ints& axes);
// Mesh axes over which a result of all these inputs differs: the union.
void join_varying(Aval& result, std::span<const AvalP> in);

}  // namespace lockstep

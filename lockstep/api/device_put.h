// Arrays over many devices and processes.
#pragma once

#include <functional>
#include <optional>
#include <source_location>
#include <vector>

#include "lockstep/api/tree.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

// The array laid out by a sharding ({mesh, spec}, a bare spec under set_mesh, a device); the default device if none is
// given. An array that is there already is returned as it is. Data of one process may be put on a sharding that spans
// processes: every process calls this with the same value and keeps its part. In a traced program it is a constraint.
// Error(sharding) if the spec does not fit the shape.
Array device_put(const Operand& x);
Array device_put(const Operand& x, const ShardingLike& target);
// Every leaf of a tree on the same sharding.
template <class T>
requires(!std::is_convertible_v<const T&, Operand>) T
    device_put(T t, const ShardingLike& target, std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  tree::for_each_leaf(t, [&](Array& a) { a = device_put(a, target); });
  return t;
}
// Every leaf on its own, from a tree::Tree of the same structure.
template <class T, class S>
requires std::is_convertible_v<const S&, ShardingLike> T
device_put(T t, const tree::Tree<S>& targets, std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  if (tree::num_leaves(t) != targets.leaves.size())
    throw_error(ErrorCode::tree, "device_put", "the tree has {} leaves, there are {} shardings", tree::num_leaves(t),
                targets.leaves.size());
  std::size_t i = 0;
  tree::for_each_leaf(t, [&](Array& a) { a = device_put(a, targets.leaves[i++]); });
  return t;
}

// A global array from what each process holds: `local` is this process's part, in global order; a dimension in which it
// has the size given in `global_shape` is taken as whole. Without a global shape it follows from the sharding. An array
// moved in is not copied where that is possible. Error(sharding) if the sizes do not fit.
Array make_array_from_process_local_data(const ShardingLike& sharding, Array local,
                                         const std::optional<Shape>& global_shape = std::nullopt,
                                         std::source_location where = std::source_location::current());

struct CallbackOptions {
  OptionsTag tag{};
  // Needed where this process holds no part of the array.
  std::optional<DType> dtype{};
};
// A global array whose parts `data(region)` gives, called once for each region that this process holds. Error(shape) if
// a part does not have its region's shape, Error(dtype) if two parts differ in type.
Array make_array_from_callback(const Shape& shape, const ShardingLike& sharding,
                               const std::function<Array(const Region&)>& data, const CallbackOptions& options = {},
                               std::source_location where = std::source_location::current());
// A global array of this process's shards, one for each of its devices in the sharding's order; they are copied there.
Array make_array_from_single_device_arrays(const Shape& shape, const ShardingLike& sharding, const Arrays& shards,
                                           const CallbackOptions& options = {},
                                           std::source_location where = std::source_location::current());

// Waits until all arrays of a tree are there; returns the tree.
template <class T>
const T& block_until_ready(const T& t, std::source_location where = std::source_location::current()) {
  tree::for_each_leaf(t, [&](const Array& a) {
    if (!a.is_tracer()) a.block_until_ready(where);
  });
  return t;
}

}  // namespace lockstep

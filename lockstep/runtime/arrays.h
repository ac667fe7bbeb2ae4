// Arrays laid over devices by a sharding: made from host data, and moved between shardings within this process.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/runtime/placement.h"
#include "lockstep/runtime/transfer.h"

namespace lockstep::runtime {

// Row-major host data of a whole array or of a part; `owner` is kept until it has been read.
struct HostBox {
  const std::byte* data = nullptr;
  Shape shape;
  std::shared_ptr<const void> owner;
};
// The view as a box of the array's own shape, or of a shard's.
HostBox host_box(HostView view, const Shape& shape);

// Every process puts the shards it holds. `whole` is the whole array, the same on all processes. The shape has been
// checked against the sharding.
ValueRef put_host(AvalP aval, const Sharding& target, const HostBox& whole);
// The shards from `part(region)`, which is called once for each region this process holds and must give data of its
// shape.
ValueRef put_parts(AvalP aval, const Sharding& target, const std::function<HostBox(const Region&)>& part);
// A fully addressable array on another sharding (which other processes' devices may be part of, if its value is the
// same everywhere). The array itself if nothing would change.
ValueRef reshard(ConcreteArray& array, const Sharding& target, const char* operation = "device_put");

// The shape of the whole, if each process of the sharding gives its part in shape `local`; a dimension of a given
// `global` shape that equals the local one is taken as whole on each process. Errors of code `sharding` on behalf of
// make_array_from_process_local_data.
Shape global_shape(const Sharding& target, const Shape& local, const std::optional<Shape>& global);
// This process's shards, cut from its own data: `local` as described at global_shape.
ValueRef put_process_local(AvalP global, const Sharding& target, const HostBox& local);

// One shard as an array on its device, sharing its memory.
ValueRef shard_view(ConcreteArray& array, std::size_t shard);
// An array of one shard each, in partition order; each is copied to its device.
ValueRef join_shards(AvalP aval, const Sharding& target, std::span<ConcreteArray* const> shards);

}  // namespace lockstep::runtime

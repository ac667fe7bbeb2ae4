#include "lockstep/api/shard_map.h"

#include "lockstep/support/error.h"

namespace lockstep::internal {

Mesh shard_map_mesh(const Mesh& given) {
  if (given) return given;
  if (Mesh m = current_mesh()) return m;
  throw_error(ErrorCode::sharding, "shard_map", "needs a mesh: give {{.mesh = ...}} or open a set_mesh scope");
}
std::vector<PartitionSpec> resolve_specs(const ShardingTree& tree, std::span<const std::size_t> groups,
                                         std::size_t leaves, const std::string& what) {
  if (!tree.given()) throw_error(ErrorCode::sharding, "shard_map", "{} is not given", what);
  std::vector<PartitionSpec> out;
  for (const Sharding* s : tree.resolve(groups, {}, {}, "shard_map", what))
    out.push_back(s ? s->spec() : PartitionSpec());
  LS_CHECK(out.size() == leaves);
  return out;
}

}  // namespace lockstep::internal

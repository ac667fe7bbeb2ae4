// shard_map: write what one device does. jax.shard_map, with check_vma=False.
#pragma once

#include <source_location>

#include "lockstep/api/function.h"
#include "lockstep/api/jit.h"
#include "lockstep/api/shardings.h"
#include "lockstep/transforms/shard_map.h"

namespace lockstep {

struct ShardMapOptions {
  OptionsTag tag{};
  Mesh mesh{};  // the one in scope (set_mesh) if empty
  // One PartitionSpec for all, one per argument or result, or one per leaf; bare specs are over `mesh`.
  ShardingTree in_specs{}, out_specs{};
};

namespace internal {
// Specs of leaves; the mesh must be set. Error(sharding) if they are not given or do not fit the mesh.
std::vector<PartitionSpec> resolve_specs(const ShardingTree& tree, std::span<const std::size_t> groups,
                                         std::size_t leaves, const std::string& what);
Mesh shard_map_mesh(const Mesh& given);
}  // namespace internal

template <class F>
class ShardMapped {
 public:
  using TracedFunction = F;
  ShardMapped(F f, ShardMapOptions options, std::source_location where)
      : f_(std::move(f)), options_(std::move(options)), where_(where) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    return [&]<std::size_t... I>(std::index_sequence<I...>)->R {
      LocationScope scope(where_);
      Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      Mesh mesh = internal::shard_map_mesh(options_.mesh);
      MeshScope in_mesh(mesh);
      Arrays leaves = tree::leaves(held);
      std::vector<std::size_t> groups{tree::num_leaves(std::get<I>(held))...};
      std::optional<R> skeleton;
      Arrays outs = bind_shard_map(
          internal::flat_function<F, Tuple, R>(f_, held, skeleton), mesh,
          internal::resolve_specs(options_.in_specs, groups, leaves.size(), "in_specs"),
          [&](const AvalList& results) {
            std::vector<std::size_t> out_groups;
            if constexpr (tree::internal::IsTuple<R>::value)
              std::apply([&](const auto&... r) { (out_groups.push_back(tree::num_leaves(r)), ...); }, *skeleton);
            else
              out_groups.push_back(tree::num_leaves(*skeleton));
            return internal::resolve_specs(options_.out_specs, out_groups, results.size(), "out_specs");
          },
          leaves, internal::argument_names(held));
      return internal::fill(*skeleton, outs);
    }
    (std::index_sequence_for<Args...>());
  }

 private:
  F f_;
  ShardMapOptions options_;
  std::source_location where_;
};

// f on every device of the mesh, each with its part of the arguments; collectives (lax::psum, ppermute, ...) inside
// name the mesh's axes. Works under jit, grad and vmap.
template <class F>
auto shard_map(F f, ShardMapOptions options, std::source_location where = std::source_location::current()) {
  return ShardMapped<F>(std::move(f), std::move(options), where);
}

}  // namespace lockstep

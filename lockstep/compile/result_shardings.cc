#include "lockstep/compile/result_shardings.h"

#include <algorithm>
#include <numeric>

#include "lockstep/compile/hlo.pb.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

using Ids = std::vector<std::int64_t>;

// 0, 1, ... of shape `dims`, transposed by `perm`, flat.
Ids transposed_iota(const Ids& dims, const Ids& perm) {
  Ids strides(dims.size(), 1);
  for (std::size_t k = dims.size(); k-- > 1;) strides[k - 1] = strides[k] * dims[k];
  Ids out{0};
  for (std::int64_t axis : perm) {
    Ids next;
    for (std::int64_t base : out)
      for (std::int64_t i = 0; i < dims.at(static_cast<std::size_t>(axis)); ++i)
        next.push_back(base + i * strides.at(static_cast<std::size_t>(axis)));
    out = std::move(next);
  }
  return out;
}

// tile[d][p]: which part of dimension d partition p holds; empty if the form is not understood.
std::optional<std::vector<Ids>> tiles(const hlo::OpSharding& s, int rank, std::int64_t partitions) {
  std::size_t n = static_cast<std::size_t>(partitions), dims = static_cast<std::size_t>(rank);
  std::vector<Ids> out(dims, Ids(n, 0));
  if (s.has_named_sharding()) {
    const auto& mesh = s.named_sharding().mesh();
    Ids sizes, strides, devices;
    for (const auto& a : mesh.axes()) sizes.push_back(a.size());
    strides.assign(sizes.size(), 1);
    for (std::size_t k = sizes.size(); k-- > 1;) strides[k - 1] = strides[k] * sizes[k];
    if (mesh.device_ids_size() > 0)
      devices.assign(mesh.device_ids().begin(), mesh.device_ids().end());
    else if (mesh.has_iota_transform())
      devices = transposed_iota(
          Ids(mesh.iota_transform().reshape_dims().begin(), mesh.iota_transform().reshape_dims().end()),
          Ids(mesh.iota_transform().transpose_perm().begin(), mesh.iota_transform().transpose_perm().end()));
    else {
      devices.resize(n);
      std::iota(devices.begin(), devices.end(), 0);
    }
    if (sizes.empty()) return out;  // no mesh: replicated
    if (devices.size() != n) return std::nullopt;
    for (std::size_t d = 0; d < dims && d < static_cast<std::size_t>(s.named_sharding().dim_shardings_size()); ++d)
      for (const auto& ref : s.named_sharding().dim_shardings(static_cast<int>(d)).axes()) {
        std::size_t axis = static_cast<std::size_t>(ref.mesh_axis_index());
        std::int64_t size = sizes.at(axis), stride = strides[axis];
        if (ref.has_sub_axis_info()) {
          std::int64_t pre = ref.sub_axis_info().pre_size(), part = ref.sub_axis_info().size();
          stride *= size / (pre * part);
          size = part;
        }
        for (std::size_t at = 0; at < n; ++at) {
          Ids::value_type coordinate = static_cast<std::int64_t>(at) / stride % size;
          auto& tile = out[d][static_cast<std::size_t>(devices[at])];
          tile = tile * size + coordinate;
        }
      }
    return out;
  }
  if (s.type() == 0 || s.type() == 1) return out;
  if (s.type() != 3) return std::nullopt;
  Ids shape(s.tile_assignment_dimensions().begin(), s.tile_assignment_dimensions().end()), devices;
  if (s.tile_assignment_devices_size() > 0)
    devices.assign(s.tile_assignment_devices().begin(), s.tile_assignment_devices().end());
  else
    devices = transposed_iota(Ids(s.iota_reshape_dims().begin(), s.iota_reshape_dims().end()),
                              Ids(s.iota_transpose_perm().begin(), s.iota_transpose_perm().end()));
  if (devices.size() != n || shape.size() < dims) return std::nullopt;
  for (std::size_t at = 0; at < n; ++at) {
    std::int64_t rest = static_cast<std::int64_t>(at);
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (k < dims) out[k][static_cast<std::size_t>(devices[at])] = rest % shape[k];
      rest /= shape[k];
    }
  }
  return out;
}

// The mesh axes that number the tiles of one dimension, major first; empty if none do.
std::optional<SpecEntry> axes_of(const Ids& tile, const Mesh& mesh) {
  auto axes = mesh.axes();
  Ids strides(axes.size(), 1);
  for (std::size_t k = axes.size(); k-- > 1;) strides[k - 1] = strides[k] * axes[k].size;
  std::vector<std::pair<std::int64_t, std::size_t>> steps;  // tile step, axis
  for (std::size_t k = 0; k < axes.size(); ++k)
    if (axes[k].size > 1 && tile[static_cast<std::size_t>(strides[k])] != tile[0])
      steps.emplace_back(tile[static_cast<std::size_t>(strides[k])] - tile[0], k);
  std::sort(steps.rbegin(), steps.rend());
  for (std::size_t p = 0; p < tile.size(); ++p) {
    std::int64_t want = 0;
    for (auto& [step, k] : steps) want = want * axes[k].size + static_cast<std::int64_t>(p) / strides[k] % axes[k].size;
    if (want != tile[p]) return std::nullopt;
  }
  std::vector<std::string> names;
  for (auto& [step, k] : steps) names.push_back(axes[k].name);
  return names.empty() ? SpecEntry(none) : SpecEntry(std::move(names));
}

}  // namespace

std::vector<std::optional<PartitionSpec>> result_specs(std::string_view module, const Mesh& mesh,
                                                       const AvalList& results) {
  hlo::Module proto;
  LS_CHECK(proto.ParseFromArray(module.data(), static_cast<int>(module.size())));
  std::vector<std::optional<PartitionSpec>> out(results.size());
  if (!proto.has_spmd_output_sharding()) return out;
  const auto& all = proto.spmd_output_sharding();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (all.type() == 2 && static_cast<int>(i) >= all.tuple_shardings_size()) continue;
    const auto& one = all.type() == 2 ? all.tuple_shardings(static_cast<int>(i)) : all;
    auto tile = tiles(one, results[i]->rank(), mesh.size());
    if (!tile) continue;
    std::vector<SpecEntry> entries;
    for (auto& t : *tile) {
      auto entry = axes_of(t, mesh);
      if (!entry) break;
      entries.push_back(std::move(*entry));
    }
    if (entries.size() == tile->size()) out[i] = PartitionSpec(std::move(entries)).trimmed();
  }
  return out;
}

}  // namespace lockstep::compile

#include "lockstep/compile/groups.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

using Ids = std::vector<std::int64_t>;
using GroupList = std::vector<Ids>;

[[noreturn]] void malformed(const hlo::Instruction& instruction, const std::string& what) {
  throw_error(ErrorCode::compile, "partition", "the {} instruction {} has {}", instruction.opcode(), instruction.name(),
              what);
}

template <class Repeated>
Ids to_ids(const Repeated& values) {
  return Ids(values.begin(), values.end());
}

// 0, 1, ... of shape `dims`, transposed by `perm`, flat.
Ids transposed_iota(const Ids& dims, const Ids& perm) {
  Ids strides(dims.size(), 1);
  for (std::size_t k = dims.size(); k-- > 1;) strides[k - 1] = strides[k] * dims[k];
  Ids out = {0};
  for (std::int64_t axis : perm) {
    Ids next;
    for (std::int64_t base : out)
      for (std::int64_t i = 0; i < dims.at(axis); ++i) next.push_back(base + i * strides.at(axis));
    out = std::move(next);
  }
  return out;
}

GroupList from_iota(const hlo::IotaGroups& list) {
  Ids ids = transposed_iota(to_ids(list.iota_reshape_dims()), to_ids(list.iota_transpose_perm()));
  GroupList groups;
  std::int64_t per = list.num_devices_per_group();
  for (std::int64_t g = 0; g < list.num_replica_groups(); ++g)
    groups.emplace_back(ids.begin() + g * per, ids.begin() + (g + 1) * per);
  return groups;
}

Ids devices_of(const hlo::Mesh& mesh) {
  if (mesh.device_ids_size() > 0) return to_ids(mesh.device_ids());
  if (mesh.has_iota_transform())
    return transposed_iota(to_ids(mesh.iota_transform().reshape_dims()),
                           to_ids(mesh.iota_transform().transpose_perm()));
  std::int64_t n = 1;
  for (const auto& axis : mesh.axes()) n *= axis.size();
  Ids ids(n);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

struct Piece {  // of a mesh axis
  std::int64_t size, stride;
  int rank;  // position among the group's axes; -1: not one of them
};

// The axes of the mesh, each cut at the sub-axes that the group refers to, major to minor.
std::vector<Piece> pieces_of(const hlo::MeshGroups& list) {
  std::vector<Piece> pieces;
  for (int axis = 0; axis < list.mesh().axes_size(); ++axis) {
    std::int64_t size = list.mesh().axes(axis).size(), before = 1;
    std::vector<std::pair<hlo::SubAxis, int>> used;
    for (int rank = 0; rank < list.axes_size(); ++rank) {
      const auto& ref = list.axes(rank);
      if (ref.mesh_axis_index() != axis) continue;
      hlo::SubAxis part = ref.sub_axis_info();
      if (!ref.has_sub_axis_info()) {
        part.set_pre_size(1);
        part.set_size(size);
      }
      used.emplace_back(part, rank);
    }
    std::sort(used.begin(), used.end(), [](auto& a, auto& b) { return a.first.pre_size() < b.first.pre_size(); });
    for (const auto& [part, rank] : used) {
      pieces.push_back({part.pre_size() / before, 0, -1});
      pieces.push_back({part.size(), 0, rank});
      before = part.pre_size() * part.size();
    }
    pieces.push_back({size / before, 0, -1});
  }
  std::int64_t stride = 1;
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    piece->stride = stride;
    stride *= piece->size;
  }
  return pieces;
}

Ids offsets(std::span<const Piece> pieces) {
  Ids out = {0};
  for (const Piece& piece : pieces) {
    Ids next;
    for (std::int64_t base : out)
      for (std::int64_t i = 0; i < piece.size; ++i) next.push_back(base + i * piece.stride);
    out = std::move(next);
  }
  return out;
}

GroupList from_mesh(const hlo::MeshGroups& list) {
  Ids devices = devices_of(list.mesh());
  auto pieces = pieces_of(list);
  auto inside = std::stable_partition(pieces.begin(), pieces.end(), [](const Piece& p) { return p.rank < 0; });
  std::sort(inside, pieces.end(), [](const Piece& a, const Piece& b) { return a.rank < b.rank; });
  std::span all(pieces);
  auto outer = static_cast<std::size_t>(inside - pieces.begin());
  Ids members = offsets(all.subspan(outer));
  GroupList groups;
  for (std::int64_t base : offsets(all.first(outer))) {
    Ids& group = groups.emplace_back();
    for (std::int64_t offset : members) group.push_back(devices.at(base + offset));
  }
  return groups;
}

GroupList listed(const hlo::Instruction& instruction) {
  GroupList groups;
  switch (instruction.replica_group_list_case()) {
    case hlo::Instruction::kCollectiveDeviceList:
      for (const auto& g : instruction.collective_device_list().replica_groups())
        groups.push_back(to_ids(g.replica_ids()));
      break;
    case hlo::Instruction::kIotaCollectiveDeviceList:
      return from_iota(instruction.iota_collective_device_list());
    case hlo::Instruction::kMeshAxesReplicaGroupList:
      return from_mesh(instruction.mesh_axes_replica_group_list());
    case hlo::Instruction::REPLICA_GROUP_LIST_NOT_SET:
      for (const auto& g : instruction.replica_groups()) groups.push_back(to_ids(g.replica_ids()));
  }
  return groups;
}

// Whether the ids name partitions. Else they name replicas, of which there is one.
bool names_partitions(const hlo::Instruction& instruction) {
  if (instruction.channel_id() == 0) return false;
  const std::string& op = instruction.opcode();
  bool has_modes = op == "all-reduce" || op == "all-gather" || op == "reduce-scatter";
  return !has_modes || instruction.use_global_device_ids();
}

}  // namespace

Groups decode_groups(const hlo::Instruction& instruction, std::int64_t partitions) {
  GroupList groups = listed(instruction);
  Ids everybody(partitions);
  std::iota(everybody.begin(), everybody.end(), 0);
  if (!names_partitions(instruction)) {
    for (const Ids& group : groups)
      if (group != Ids{0}) malformed(instruction, "groups of several replicas; lockstep programs have one");
    groups.clear();
    if (instruction.channel_id() != 0)
      groups.push_back(everybody);
    else
      for (std::int64_t p : everybody) groups.push_back({p});
  }
  if (groups.empty()) groups.push_back(everybody);

  Groups out;
  out.size = static_cast<std::int64_t>(groups[0].size());
  std::vector<bool> seen(partitions);
  for (const Ids& group : groups) {
    if (group.size() != groups[0].size()) malformed(instruction, "groups of unequal size, which lockstep cannot run");
    for (std::int64_t p : group) {
      if (p < 0 || p >= partitions || seen[p])
        malformed(instruction, fmt::format("groups in which partition {} is out of range or comes twice", p));
      seen[p] = true;
      out.members.push_back(p);
    }
  }
  return out;
}

std::vector<std::int64_t> decode_pairs(const hlo::Instruction& instruction, std::int64_t partitions) {
  Ids out;
  std::vector<bool> sends(partitions), receives(partitions);
  bool partition_ids = names_partitions(instruction);
  for (const auto& pair : instruction.source_target_pairs()) {
    std::int64_t limit = partition_ids ? partitions : 1;
    if (pair.source() < 0 || pair.source() >= limit || pair.target() < 0 || pair.target() >= limit ||
        sends[pair.source()] || receives[pair.target()])
      malformed(instruction,
                fmt::format("a pair {} -> {} that is out of range or repeats an end", pair.source(), pair.target()));
    sends[pair.source()] = receives[pair.target()] = true;
    if (partition_ids)
      out.insert(out.end(), {pair.source(), pair.target()});
    else
      for (std::int64_t p = 0; p < partitions; ++p) out.insert(out.end(), {p, p});
  }
  return out;
}

}  // namespace lockstep::compile

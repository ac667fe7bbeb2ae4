#include "lockstep/sharding/sharding.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "lockstep/sharding/spec_errors.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"

namespace lockstep {

Shape Region::shape() const {
  Shape s;
  for (int i = 0; i < rank(); ++i) s.push_back(stop(i) - start(i));
  return s;
}
std::string to_string(const Region& r) {
  std::string text = "[";
  for (int i = 0; i < r.rank(); ++i) text += fmt::format("{}{}:{}", i ? ", " : "", r.start(i), r.stop(i));
  return text + "]";
}

class ShardingTable {
 public:
  const Sharding& single_device(int device_id) {
    std::lock_guard lock(mutex_);
    const Sharding*& found = single_[{config::gang(), device_id}];
    if (found == nullptr) {
      Sharding& s = make();
      s.device_ids_ = {device_id};
      s.replicas_ = {0};
      s.canonical_ = found = &s;
    }
    return *found;
  }

  const Sharding& named(const Mesh& mesh, const PartitionSpec& spec) {
    std::lock_guard lock(mutex_);
    return find_or_make(mesh, spec);
  }

 private:
  Sharding& make() {
    Sharding* s = new Sharding;
    s->id_ = ++count_;
    return *s;
  }
  const Sharding& find_or_make(const Mesh& mesh, const PartitionSpec& spec) {
    for (const Sharding* s : named_[mesh.id()])
      if (s->spec_ == spec) return *s;
    Sharding& s = make();
    s.kind_ = Sharding::Kind::named;
    s.mesh_ = mesh;
    s.spec_ = spec;
    s.device_ids_.assign(mesh.device_ids().begin(), mesh.device_ids().end());
    for (const SpecEntry& e : spec.entries()) {
      std::int64_t parts = 1;
      for (const std::string& axis : e.axes) parts *= *mesh.axis_size(axis);
      s.parts_.push_back(parts);
      s.replicated_ = s.replicated_ && parts == 1;
    }
    std::map<std::vector<std::int64_t>, std::int64_t> seen;
    for (std::int64_t p = 0; p < s.partitions(); ++p) {
      std::vector<std::int64_t> part;
      for (std::size_t d = 0; d < spec.size(); ++d) part.push_back(s.part_of(p, d));
      s.replicas_.push_back(seen[part]++);
    }
    PartitionSpec trimmed = spec.trimmed();
    s.canonical_ = trimmed == spec ? &s : &find_or_make(mesh, trimmed);
    named_[mesh.id()].push_back(&s);
    return s;
  }

  std::mutex mutex_;
  std::uint32_t count_ = 0;
  std::map<std::pair<std::uint32_t, int>, const Sharding*> single_;  // by gang and device
  std::map<std::uint32_t, std::vector<const Sharding*>> named_;      // by mesh
};

namespace {

ShardingTable& table() {
  static auto* t = new ShardingTable;
  return *t;
}

}  // namespace

std::int64_t Sharding::part_of(std::int64_t partition, std::size_t dim) const {
  if (dim >= spec_.size()) return 0;
  std::int64_t part = 0;
  for (const std::string& name : spec_[dim].axes) {
    std::int64_t inner = 1;  // devices per step along the axis
    for (const MeshAxis& axis : mesh_.axes()) inner = axis.name == name ? 1 : inner * axis.size;
    std::int64_t size = *mesh_.axis_size(name);
    part = part * size + partition / inner % size;
  }
  return part;
}

Shape Sharding::shard_shape(const Shape& shape) const {
  Shape s = shape;
  for (std::size_t d = 0; d < parts_.size(); ++d) s[d] /= parts_[d];
  return s;
}

Region Sharding::region(std::int64_t partition, const Shape& shape) const {
  Region r{Shape::filled(shape.size(), 0), shape};
  for (std::size_t d = 0; d < parts_.size(); ++d) {
    std::int64_t extent = shape[d] / parts_[d];
    r.starts[d] = part_of(partition, d) * extent;
    r.stops[d] = r.starts[d] + extent;
  }
  return r;
}

void Sharding::check(const Shape& shape, std::string_view operation, std::string_view argument) const {
  if (kind_ == Kind::named) check_spec(mesh_, spec_, shape, operation, argument);
}

std::string to_string(const Sharding& s) {
  if (s.kind() == Sharding::Kind::single_device)
    return fmt::format("SingleDeviceSharding(device={}, memory_kind=device)", s.device_ids()[0]);
  return fmt::format("NamedSharding(mesh={}, spec={}, memory_kind=device)", to_string(s.mesh()), to_string(s.spec()));
}

const Sharding& single_device_sharding(int device_id) { return table().single_device(device_id); }

const Sharding& named_sharding(const Mesh& mesh, const PartitionSpec& spec) {
  internal::check_axes(mesh, spec, "NamedSharding", "", false);
  return table().named(mesh, spec);
}

NamedSharding::NamedSharding(const Mesh& mesh, const PartitionSpec& spec, std::source_location where) {
  LocationScope scope(where);
  sharding_ = &named_sharding(mesh, spec);
}

ShardingLike::ShardingLike(const Device& d) : sharding_(&single_device_sharding(d.id)) {}

const Sharding& ShardingLike::resolve(std::string_view operation) const {
  if (sharding_ != nullptr) return *sharding_;
  Mesh mesh = current_mesh();
  if (!mesh)
    throw_error(ErrorCode::sharding, std::string(operation),
                "the spec {} needs a mesh, and none is set: write NamedSharding(mesh, {}), or `auto scope = "
                "set_mesh(mesh);` before",
                to_string(spec_), to_string(spec_));
  return named_sharding(mesh, spec_);
}

std::string sdy_mesh(const Mesh& mesh) {
  std::string text;
  for (const MeshAxis& a : mesh.axes()) text += fmt::format("{}\"{}\"={}", text.empty() ? "" : ", ", a.name, a.size);
  return "<[" + text + "]>";
}

std::string sdy_mesh(const Mesh& mesh, std::span<const int> assignment) {
  auto ids = mesh.device_ids();
  if (std::equal(ids.begin(), ids.end(), assignment.begin(), assignment.end())) return sdy_mesh(mesh);
  std::string order;
  for (int id : ids) {
    auto at = std::find(assignment.begin(), assignment.end(), id);
    if (at == assignment.end() || ids.size() != assignment.size())
      throw_error(ErrorCode::sharding, "jit",
                  "one program runs on one set of devices, but the mesh {} has others than the program's {}",
                  to_string(mesh), assignment.size());
    order += fmt::format("{}{}", order.empty() ? "" : ", ", at - assignment.begin());
  }
  std::string text = sdy_mesh(mesh);
  text.pop_back();
  return text + ", device_ids=[" + order + "]>";
}

std::string sdy_sharding(const PartitionSpec& spec, int rank, std::string_view mesh_symbol) {
  std::string text;
  for (int d = 0; d < rank; ++d) {
    text += d == 0 ? "{" : ", {";
    if (static_cast<std::size_t>(d) < spec.size()) {
      const SpecEntry& e = spec[static_cast<std::size_t>(d)];
      for (std::size_t i = 0; i < e.axes.size(); ++i) text += fmt::format("{}\"{}\"", i ? ", " : "", e.axes[i]);
      if (e.unconstrained) text += "?";
    }
    text += "}";
  }
  return fmt::format("<@{}, [{}]>", mesh_symbol, text);
}

}  // namespace lockstep

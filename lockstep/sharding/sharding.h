// How one logical array is laid over devices. Shardings are interned and immortal: equal means the same pointer.
//
// A sharding has an ordered list of devices; partition i is the part of the array on the i-th. Mesh axes that the spec
// does not mention replicate.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/shape.h"
#include "lockstep/sharding/device.h"
#include "lockstep/sharding/mesh.h"
#include "lockstep/sharding/spec.h"

namespace lockstep {

// A box in an array: start <= index < stop in every dimension.
struct Region {
  Shape starts, stops;

  int rank() const { return starts.rank(); }
  std::int64_t start(int dim) const { return starts[static_cast<std::size_t>(dim)]; }
  std::int64_t stop(int dim) const { return stops[static_cast<std::size_t>(dim)]; }
  Shape shape() const;
  bool operator==(const Region&) const = default;
};
std::string to_string(const Region& r);  // "[0:2, 4:8]"

class Placement;  // which partitions are this process's (runtime)

class Sharding {
 public:
  enum class Kind : std::uint8_t { single_device, named };

  Kind kind() const { return kind_; }
  std::uint32_t id() const { return id_; }
  std::span<const int> device_ids() const { return device_ids_; }
  std::int64_t partitions() const { return static_cast<std::int64_t>(device_ids_.size()); }
  const Mesh& mesh() const { return mesh_; }           // empty for a single device
  const PartitionSpec& spec() const { return spec_; }  // P() for a single device
  // The representative of all shardings that differ from this one in how the spec is written only.
  const Sharding* canonical() const { return canonical_; }
  bool is_fully_replicated() const { return replicated_; }  // every device holds the whole array

  // In how many parts the spec splits a dimension.
  std::int64_t parts(int dim) const { return dim < static_cast<int>(parts_.size()) ? parts_[dim] : 1; }
  // Throws Error(sharding) on behalf of `operation` unless the spec has no more entries than the shape dimensions and
  // every dimension can be divided evenly. The message names `argument` ("argument 0 (x.w)", or empty), the shape, the
  // spec, the mesh, the axis, and a spec that would do.
  void check(const Shape& shape, std::string_view operation, std::string_view argument = {}) const;
  // Of a checked shape.
  Shape shard_shape(const Shape& shape) const;
  Region region(std::int64_t partition, const Shape& shape) const;
  // The partition's place among those that hold the same region; 0: the first.
  std::int64_t replica(std::int64_t partition) const { return replicas_[static_cast<std::size_t>(partition)]; }

  Sharding(const Sharding&) = delete;
  Sharding& operator=(const Sharding&) = delete;

 private:
  friend class ShardingTable;
  friend class Placement;
  Sharding() = default;
  std::int64_t part_of(std::int64_t partition, std::size_t dim) const;  // which part of the dimension it holds

  Kind kind_ = Kind::single_device;
  std::uint32_t id_ = 0;
  bool replicated_ = true;
  std::vector<int> device_ids_;
  Mesh mesh_;
  PartitionSpec spec_;
  const Sharding* canonical_ = nullptr;
  Shape parts_;                         // by entry of the spec
  std::vector<std::int64_t> replicas_;  // by partition
  mutable std::atomic<const Placement*> placement_ = nullptr;
};
std::string to_string(const Sharding& s);

const Sharding& single_device_sharding(int device_id);
// Error(sharding): an axis not in the mesh, an axis used twice, an unconstrained dimension.
const Sharding& named_sharding(const Mesh& mesh, const PartitionSpec& spec);

// What users write.
class NamedSharding {
 public:
  NamedSharding(const Mesh& mesh, const PartitionSpec& spec,
                std::source_location where = std::source_location::current());
  const Mesh& mesh() const { return sharding_->mesh(); }
  const PartitionSpec& spec() const { return sharding_->spec(); }
  const Sharding& get() const { return *sharding_; }
  operator const Sharding&() const { return *sharding_; }
  bool operator==(const NamedSharding&) const = default;

 private:
  const Sharding* sharding_;
};

// Anything that says where an array should be: a sharding, {mesh, spec}, or a bare spec, which refers to the mesh set
// by set_mesh when it is used.
class ShardingLike {
 public:
  ShardingLike(const Sharding& s) : sharding_(&s) {}
  ShardingLike(const NamedSharding& s) : sharding_(&s.get()) {}
  ShardingLike(const Device& d);
  ShardingLike(const PartitionSpec& spec) : spec_(spec) {}
  ShardingLike(const Mesh& mesh, const PartitionSpec& spec,
               std::source_location where = std::source_location::current())
      : ShardingLike(NamedSharding(mesh, spec, where)) {}
  // Error(sharding) for a bare spec where no mesh is set.
  const Sharding& resolve(std::string_view operation) const;
  bool is_bare() const { return sharding_ == nullptr; }
  const PartitionSpec& spec() const { return sharding_ ? sharding_->spec() : spec_; }
  bool operator==(const ShardingLike&) const = default;

 private:
  const Sharding* sharding_ = nullptr;
  PartitionSpec spec_;
};

// Throws the errors of named_sharding and Sharding::check, but allows unconstrained dimensions: for constraints.
void check_spec(const Mesh& mesh, const PartitionSpec& spec, const Shape& shape, std::string_view operation,
                std::string_view argument = {});

// Shardy's text. The mesh: `<["x"=2, "y"=2]>`, with device_ids if its devices come in another order than `assignment`,
// the program's (Error(sharding) if they are not the same devices). The sharding of an array of some rank:
// `<@mesh, [{"x"}, {}]>`, the body of #sdy.sharding; dimensions left to the compiler are `{?}`.
std::string sdy_mesh(const Mesh& mesh);
std::string sdy_mesh(const Mesh& mesh, std::span<const int> assignment);
std::string sdy_sharding(const PartitionSpec& spec, int rank, std::string_view mesh_symbol = "mesh");

}  // namespace lockstep

// A mesh: devices in a box with named axes. A small value; meshes are interned, so equality is one comparison. It
// belongs to the gang in which it was made: after distributed::shutdown() no program runs over it any more.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/shape.h"

namespace lockstep {

struct MeshAxis {
  template <std::integral Int>
  MeshAxis(std::string name, Int size) : name(std::move(name)), size(static_cast<std::int64_t>(size)) {}
  std::string name;
  std::int64_t size;
  bool operator==(const MeshAxis&) const = default;
};

class Mesh {
 public:
  Mesh() = default;  // no mesh
  // `device_ids` in row-major order of the axes. Error(sharding): axes repeated, unnamed or of a size below 1; a number
  // of devices that is not the product of the sizes; a device twice.
  Mesh(std::vector<MeshAxis> axes, std::vector<int> device_ids,
       std::source_location where = std::source_location::current());

  explicit operator bool() const { return data_ != nullptr; }
  bool operator==(const Mesh&) const = default;
  std::span<const MeshAxis> axes() const;
  std::span<const int> device_ids() const;
  std::int64_t size() const { return static_cast<std::int64_t>(device_ids().size()); }  // devices
  std::optional<std::int64_t> axis_size(std::string_view name) const;                   // none: no such axis
  std::uint32_t gang() const;                                                           // config::gang() when made
  std::uint32_t id() const;                                                             // equal for equal meshes

 private:
  struct Data;
  const Data* data_ = nullptr;
};
std::string to_string(const Mesh& m);          // "Mesh('data': 4, 'model': 2, axis_types=(Auto, Auto))", as JAX's str
std::string axes_to_string(const Mesh& m);     // "'data': 4, 'model': 2"
std::string axis_names_string(const Mesh& m);  // "'data', 'model'"

// Error(distributed): `what` is over a mesh of a gang that this process has left.
[[noreturn]] void throw_gang_left(const std::string& operation, const std::string& what);

// Makes a mesh the one that bare PartitionSpecs refer to, on this thread, until the scope ends:
// `auto scope = set_mesh(mesh);`. Scopes end in reverse order.
class [[nodiscard]] MeshScope {
 public:
  explicit MeshScope(const Mesh& mesh);
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;

 private:
  Mesh saved_;
};
inline MeshScope set_mesh(const Mesh& mesh) { return MeshScope(mesh); }
Mesh current_mesh();  // empty if none is set

}  // namespace lockstep

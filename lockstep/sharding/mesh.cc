#include "lockstep/sharding/mesh.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "lockstep/support/config.h"
#include "lockstep/support/error.h"

namespace lockstep {

struct Mesh::Data {
  std::vector<MeshAxis> axes;
  std::vector<int> device_ids;
  std::uint32_t gang, id;
};

namespace {

thread_local Mesh current;

void check_mesh(const std::vector<MeshAxis>& axes, const std::vector<int>& device_ids) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) throw_error(ErrorCode::sharding, "Mesh", "axis {} has no name", i);
    if (axes[i].size < 1)
      throw_error(ErrorCode::sharding, "Mesh", "axis '{}' has size {}; sizes are 1 or more", axes[i].name,
                  axes[i].size);
    for (std::size_t k = 0; k < i; ++k)
      if (axes[k].name == axes[i].name)
        throw_error(ErrorCode::sharding, "Mesh", "two axes are called '{}'; names must differ", axes[i].name);
    product *= axes[i].size;
  }
  if (product != static_cast<std::int64_t>(device_ids.size()))
    throw_error(ErrorCode::sharding, "Mesh", "the axes need {} devices, but {} were given", product, device_ids.size());
  std::vector<int> sorted = device_ids;
  std::sort(sorted.begin(), sorted.end());
  if (auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end())
    throw_error(ErrorCode::sharding, "Mesh", "device {} was given twice", *twice);
}

}  // namespace

Mesh::Mesh(std::vector<MeshAxis> axes, std::vector<int> device_ids, std::source_location where) {
  LocationScope scope(where);
  check_mesh(axes, device_ids);
  static auto* mutex = new std::mutex;
  static auto* all = new std::deque<Data>;
  std::lock_guard lock(*mutex);
  for (const Data& d : *all)
    if (d.gang == config::gang() && d.axes == axes && d.device_ids == device_ids) {
      data_ = &d;
      return;
    }
  auto id = static_cast<std::uint32_t>(all->size() + 1);
  data_ = &all->emplace_back(Data{std::move(axes), std::move(device_ids), config::gang(), id});
}

std::span<const MeshAxis> Mesh::axes() const {
  return data_ ? std::span<const MeshAxis>(data_->axes) : std::span<const MeshAxis>();
}
std::span<const int> Mesh::device_ids() const {
  return data_ ? std::span<const int>(data_->device_ids) : std::span<const int>();
}
std::optional<std::int64_t> Mesh::axis_size(std::string_view name) const {
  for (const MeshAxis& a : axes())
    if (a.name == name) return a.size;
  return std::nullopt;
}
std::uint32_t Mesh::gang() const { return data_ ? data_->gang : 0; }
std::uint32_t Mesh::id() const { return data_ ? data_->id : 0; }

void throw_gang_left(const std::string& operation, const std::string& what) {
  throw_error(ErrorCode::distributed, operation,
              "{} belongs to a gang that this process has left (distributed::shutdown()); make a mesh of the present "
              "devices and lay the data out on it",
              what);
}

std::string axes_to_string(const Mesh& m) {
  std::string text;
  for (const MeshAxis& a : m.axes()) text += fmt::format("{}'{}': {}", text.empty() ? "" : ", ", a.name, a.size);
  return text;
}
std::string axis_names_string(const Mesh& m) {
  std::string text;
  for (const MeshAxis& a : m.axes()) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", a.name);
  return text;
}
std::string to_string(const Mesh& m) {
  std::string types;
  for (std::size_t i = 0; i < m.axes().size(); ++i) types += i == 0 ? "Auto" : ", Auto";
  if (m.axes().size() == 1) types += ",";
  return fmt::format("Mesh({}{}axis_types=({}))", axes_to_string(m), m.axes().empty() ? "" : ", ", types);
}

MeshScope::MeshScope(const Mesh& mesh) : saved_(current) { current = mesh; }
MeshScope::~MeshScope() { current = saved_; }
Mesh current_mesh() { return current; }

}  // namespace lockstep

#include "lockstep/runtime/devices.h"

#include <cctype>

#include "lockstep/runtime/backend.h"
#include "lockstep/support/error.h"

namespace lockstep {

std::span<const Device> devices() { return runtime::backend().devices(); }
std::span<const Device> local_devices() { return runtime::backend().local_devices(); }
int device_count() { return static_cast<int>(devices().size()); }
int local_device_count() { return static_cast<int>(local_devices().size()); }
int process_index() { return runtime::backend().process_index(); }
int process_count() { return runtime::backend().process_count(); }
std::string default_backend() { return runtime::backend().platform(); }

std::string to_string(const Device& d) {
  std::string name = d.platform;
  if (!name.empty()) name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
  return fmt::format("{}Device(id={})", name, d.id);
}

Mesh make_mesh(std::vector<MeshAxis> axes, std::span<const Device> devices, std::source_location where) {
  LocationScope scope(where);
  auto available = static_cast<std::int64_t>(devices.size());
  std::int64_t product = 1;
  MeshAxis* open = nullptr;
  for (MeshAxis& a : axes) {
    if (a.size == -1) {
      if (open) throw_error(ErrorCode::sharding, "make_mesh", "two axes ('{}', '{}') have size -1", open->name, a.name);
      open = &a;
    } else if (a.size < 1) {
      throw_error(ErrorCode::sharding, "make_mesh", "axis '{}' has size {}; sizes are 1 or more, or -1 for the rest",
                  a.name, a.size);
    } else {
      product *= a.size;
    }
  }
  if (open) {
    if (available % product != 0)
      throw_error(ErrorCode::sharding, "make_mesh",
                  "axis '{}' takes what is left of {} devices, but the other axes take {}, which does not divide them",
                  open->name, available, product);
    open->size = available / product;
    product = available;
  }
  if (product > available || product == 0)
    throw_error(ErrorCode::sharding, "make_mesh", "the axes need {} devices, there are {}", product, available);
  std::vector<int> ids;
  for (const Device& d : devices.first(static_cast<std::size_t>(product))) ids.push_back(d.id);
  return Mesh(std::move(axes), std::move(ids));
}
Mesh make_mesh(std::vector<MeshAxis> axes, std::source_location where) {
  LocationScope scope(where);
  return make_mesh(std::move(axes), devices());
}

}  // namespace lockstep

// The devices of the gang, and meshes of them. The first call of any of these makes the backend (runtime/backend.h).
#pragma once

#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "lockstep/sharding/device.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep {

// Spans live for ever.
std::span<const Device> devices();        // of all processes, by id
std::span<const Device> local_devices();  // of this process
int device_count();
int local_device_count();
int process_index();
int process_count();
std::string default_backend();  // "cpu"

// A mesh of the gang's devices, in order of their ids, row-major: make_mesh({{"data", -1}, {"model", 2}}). A size of -1
// (at most one) takes what is left. A product below the number of devices leaves the last ones out. Error(sharding) if
// there are too few devices, or if -1 does not come out even.
Mesh make_mesh(std::vector<MeshAxis> axes, std::source_location where = std::source_location::current());
// The same of the given devices, in their order.
Mesh make_mesh(std::vector<MeshAxis> axes, std::span<const Device> devices,
               std::source_location where = std::source_location::current());

}  // namespace lockstep

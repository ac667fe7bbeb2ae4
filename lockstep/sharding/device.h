// A device of any process of the gang.
#pragma once

#include <string>

namespace lockstep {

struct Device {
  int id = 0;  // unique in the gang; on CPU, process_index * 2048 + local_hardware_id, as in JAX
  int process_index = 0;
  int local_hardware_id = 0;  // its place among its process's devices
  std::string platform;       // "cpu"
  std::string kind;           // "cpu", "NVIDIA H100 80GB HBM3"
  bool operator==(const Device& o) const { return id == o.id; }
};
std::string to_string(const Device& d);  // "CpuDevice(id=0)"

}  // namespace lockstep

// A device of a PJRT client, described once when the client is made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/pjrt/plugin.h"

struct PJRT_Device;

namespace lockstep::pjrt {

struct MemoryStats {
  std::int64_t bytes_in_use = 0;
  std::optional<std::int64_t> peak_bytes_in_use, bytes_limit, allocations, largest_allocation, bytes_reserved,
      peak_bytes_reserved, largest_free_block, pool_bytes, peak_pool_bytes;
};

class Device {
 public:
  Device(const PJRT_Api* api, PJRT_Device* device);

  PJRT_Device* raw() const { return device_; }
  int id() const { return id_; }                                // unique over all processes of the client
  int local_hardware_id() const { return local_hardware_id_; }  // -1 if not addressable
  int process_index() const { return process_index_; }
  bool is_addressable() const { return addressable_; }
  const std::string& kind() const { return kind_; }  // "cpu", "NVIDIA H100 80GB HBM3"
  const std::string& description() const { return description_; }
  const NamedValues& attributes() const { return attributes_; }
  // Empty where the plugin keeps no account (CPU).
  std::optional<MemoryStats> memory_stats() const;

 private:
  const PJRT_Api* api_;
  PJRT_Device* device_;
  int id_ = 0, local_hardware_id_ = -1, process_index_ = 0;
  bool addressable_ = false;
  std::string kind_, description_;
  NamedValues attributes_;
};

}  // namespace lockstep::pjrt

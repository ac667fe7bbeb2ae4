#include "lockstep/pjrt/device.h"

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/values.h"

namespace lockstep::pjrt {

Device::Device(const PJRT_Api* api, PJRT_Device* device) : api_(api), device_(device) {
  LS_PJRT(PJRT_Device_IsAddressable) addressable;
  addressable->device = device;
  addressable(api);
  addressable_ = addressable->is_addressable;
  if (addressable_) {
    LS_PJRT(PJRT_Device_LocalHardwareId) local;
    local->device = device;
    local(api);
    local_hardware_id_ = local->local_hardware_id;
  }
  LS_PJRT(PJRT_Device_GetDescription) get;
  get->device = device;
  get(api);
  PJRT_DeviceDescription* description = get->device_description;
  LS_PJRT(PJRT_DeviceDescription_Id) id;
  id->device_description = description;
  id(api);
  id_ = id->id;
  LS_PJRT(PJRT_DeviceDescription_ProcessIndex) process;
  process->device_description = description;
  process(api);
  process_index_ = process->process_index;
  LS_PJRT(PJRT_DeviceDescription_Kind) kind;
  kind->device_description = description;
  kind(api);
  kind_.assign(kind->device_kind, kind->device_kind_size);
  LS_PJRT(PJRT_DeviceDescription_ToString) text;
  text->device_description = description;
  text(api);
  description_.assign(text->to_string, text->to_string_size);
  LS_PJRT(PJRT_DeviceDescription_Attributes) attributes;
  attributes->device_description = description;
  attributes(api);
  attributes_ = from_c({attributes->attributes, attributes->num_attributes});
}

std::optional<MemoryStats> Device::memory_stats() const {
  LS_PJRT(PJRT_Device_MemoryStats) stats;
  stats->device = device_;
  if (!stats.if_implemented(api_)) return std::nullopt;
  auto if_set = [](bool set, std::int64_t value) { return set ? std::optional(value) : std::nullopt; };
  return MemoryStats{
      .bytes_in_use = stats->bytes_in_use,
      .peak_bytes_in_use = if_set(stats->peak_bytes_in_use_is_set, stats->peak_bytes_in_use),
      .bytes_limit = if_set(stats->bytes_limit_is_set, stats->bytes_limit),
      .allocations = if_set(stats->num_allocs_is_set, stats->num_allocs),
      .largest_allocation = if_set(stats->largest_alloc_size_is_set, stats->largest_alloc_size),
      .bytes_reserved = if_set(stats->bytes_reserved_is_set, stats->bytes_reserved),
      .peak_bytes_reserved = if_set(stats->peak_bytes_reserved_is_set, stats->peak_bytes_reserved),
      .largest_free_block = if_set(stats->largest_free_block_bytes_is_set, stats->largest_free_block_bytes),
      .pool_bytes = if_set(stats->pool_bytes_is_set, stats->pool_bytes),
      .peak_pool_bytes = if_set(stats->peak_pool_bytes_is_set, stats->peak_pool_bytes),
  };
}

}  // namespace lockstep::pjrt

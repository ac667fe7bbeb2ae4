#include "lockstep/pjrt/buffer.h"

#include <numeric>
#include <vector>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/device.h"
#include "lockstep/pjrt/values.h"

namespace lockstep::pjrt {

ExternalReference::ExternalReference(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api) {
  LS_PJRT(PJRT_Buffer_IncreaseExternalReferenceCount) increase;
  increase->buffer = buffer;
  increase(api);
  buffer_ = buffer;
}

ExternalReference::~ExternalReference() {
  if (buffer_ == nullptr) return;
  LS_PJRT(PJRT_Buffer_DecreaseExternalReferenceCount) decrease;
  decrease->buffer = buffer_;
  decrease.no_throw(api_);
}

void Buffer::destroy() noexcept {
  LS_PJRT(PJRT_Buffer_Destroy) destroy;
  destroy->buffer = buffer_;
  destroy.no_throw(api_);
}

DType Buffer::dtype() const {
  LS_PJRT(PJRT_Buffer_ElementType) type;
  type->buffer = buffer_;
  type(api_);
  return from_c(type->type, "PJRT_Buffer_ElementType");
}

std::span<const std::int64_t> Buffer::dims() const {
  LS_PJRT(PJRT_Buffer_Dimensions) dims;
  dims->buffer = buffer_;
  dims(api_);
  return {dims->dims, dims->num_dims};
}

std::size_t Buffer::size_on_device() const {
  LS_PJRT(PJRT_Buffer_OnDeviceSizeInBytes) size;
  size->buffer = buffer_;
  size(api_);
  return size->on_device_size_in_bytes;
}

int Buffer::device_id() const {
  LS_PJRT(PJRT_Buffer_Device) device;
  device->buffer = buffer_;
  device(api_);
  LS_PJRT(PJRT_Device_GetDescription) description;
  description->device = device->device;
  description(api_);
  LS_PJRT(PJRT_DeviceDescription_Id) id;
  id->device_description = description->device_description;
  id(api_);
  return id->id;
}

Event Buffer::ready() const {
  LS_PJRT(PJRT_Buffer_ReadyEvent) ready;
  ready->buffer = buffer_;
  ready(api_, ErrorCode::execution);
  return Event(api_, ready->event, "PJRT_Buffer_ReadyEvent");
}

Event Buffer::to_host(std::span<std::byte> destination) const {
  std::size_t rank = dims().size();
  std::vector<std::int64_t> minor_to_major(rank);
  for (std::size_t i = 0; i < rank; ++i) minor_to_major[i] = static_cast<std::int64_t>(rank - 1 - i);
  PJRT_Buffer_MemoryLayout layout;
  std::memset(&layout, 0, sizeof layout);
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = rank;

  std::size_t bytes = itemsize(dtype());
  for (std::int64_t d : dims()) bytes *= static_cast<std::size_t>(d);
  if (bytes != destination.size())
    throw_error(ErrorCode::shape, "PJRT_Buffer_ToHostBuffer", "the array has {} bytes, the destination {}", bytes,
                destination.size());
  LS_PJRT(PJRT_Buffer_ToHostBuffer) copy;
  copy->src = buffer_;
  copy->host_layout = &layout;
  // A null destination would only ask for the size.
  std::byte nothing;
  copy->dst = destination.empty() ? &nothing : destination.data();
  copy->dst_size = destination.size();
  copy(api_, ErrorCode::execution);
  return Event(api_, copy->event, "PJRT_Buffer_ToHostBuffer");
}

Buffer Buffer::copy_to(const Device& device) const {
  LS_PJRT(PJRT_Buffer_CopyToDevice) copy;
  copy->buffer = buffer_;
  copy->dst_device = device.raw();
  copy(api_, ErrorCode::execution);
  return Buffer(api_, copy->dst_buffer);
}

void Buffer::free_memory() {
  LS_PJRT(PJRT_Buffer_Delete) free;
  free->buffer = buffer_;
  free(api_);
}

bool Buffer::is_deleted() const {
  LS_PJRT(PJRT_Buffer_IsDeleted) deleted;
  deleted->buffer = buffer_;
  deleted(api_);
  return deleted->is_deleted;
}

void* Buffer::unsafe_pointer() const {
  LS_PJRT(PJRT_Buffer_UnsafePointer) pointer;
  pointer->buffer = buffer_;
  pointer(api_, ErrorCode::execution);
  return reinterpret_cast<void*>(pointer->buffer_pointer);
}

}  // namespace lockstep::pjrt

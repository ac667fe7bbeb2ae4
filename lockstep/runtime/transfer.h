// Data between the host and devices.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "lockstep/core/scalar.h"
#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/concrete.h"

namespace lockstep::runtime {

// Row-major host data. With semantics other than copy it stays as it is until `release` is called (once, on any
// thread), and on CPU it is the array's memory itself where its alignment allows (64 bytes). Strides are in bytes.
struct HostData {
  const void* data = nullptr;
  pjrt::HostSemantics semantics = pjrt::HostSemantics::copy;
  std::function<void()> release;
  std::span<const std::int64_t> byte_strides;
};
// On one local device, by its place among them.
pjrt::Buffer make_buffer(const Shape& shape, DType dtype, const HostData& data, int local_device = 0);
// On the default device.
ValueRef make_concrete(AvalP aval, const HostData& data);

// A number as an array of shape () on the default device. The same few numbers come from a cache: do not donate them.
ValueRef scalar_array(const Scalar& s, bool weak_type);

// An array's data, row-major in host memory: its own memory where that can be read, kept alive (and from being
// donated), or a copy.
class HostView {
 public:
  HostView() = default;
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::byte* data() const { return bytes_.data(); }
  bool is_copy() const { return copy_ != nullptr; }

 private:
  friend HostView shard_to_host(const ConcreteArray& array, std::size_t shard, const char* operation);
  friend HostView to_host(const ConcreteArray& array, const char* operation);
  std::span<const std::byte> bytes_;
  ValueRef array_;
  pjrt::ExternalReference hold_;
  std::shared_ptr<std::byte[]> copy_;
};
// Waits for the data; a computation's failure comes out here.
HostView shard_to_host(const ConcreteArray& array, std::size_t shard, const char* operation = "device_get");
// The whole array. Error(sharding) if parts of it lie with other processes only.
HostView to_host(const ConcreteArray& array, const char* operation = "device_get");
// The value of a one-element array.
Scalar item(const ConcreteArray& array, const char* operation = "item");

}  // namespace lockstep::runtime

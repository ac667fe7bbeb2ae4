#include "lockstep/runtime/transfer.h"

#include <array>

#include "lockstep/runtime/backend.h"

namespace lockstep::runtime {

pjrt::Buffer make_buffer(const Shape& shape, DType dtype, const HostData& data, int local_device) {
  Backend& b = backend();
  // A null pointer would be refused even where there is nothing to read.
  static constexpr std::byte nothing{};
  return b.client().buffer_from_host({.data = data.data == nullptr ? &nothing : data.data,
                                      .dtype = dtype,
                                      .dims = shape,
                                      .byte_strides = data.byte_strides,
                                      .semantics = data.semantics,
                                      .release = data.release},
                                     b.local_device(local_device));
}

ValueRef make_concrete(AvalP aval, const HostData& data) {
  return ValueRef(new ConcreteArray(aval, make_buffer(aval->shape, aval->dtype, data)));
}

ValueRef scalar_array(const Scalar& s, bool weak_type) {
  struct Entry {
    Scalar value;
    bool weak = false;
    ValueRef array;
  };
  thread_local std::array<Entry, 64> cache;
  Entry& entry = cache[(s.hash() * 2 + weak_type) % cache.size()];
  if (!entry.array || entry.weak != weak_type || !entry.value.same_bits(s)) {
    std::array<std::byte, 16> bytes;
    s.write(bytes.data());
    entry = {s, weak_type, make_concrete(make_aval({}, s.dtype(), weak_type), {.data = bytes.data()})};
  }
  return entry.array;
}

HostView shard_to_host(const ConcreteArray& array, std::size_t shard, const char* operation) {
  array.await(operation);
  const pjrt::Buffer& buffer = array.shards(operation)[shard];
  HostView view;
  std::size_t size = itemsize(array.aval()->dtype);
  for (std::int64_t d : buffer.dims()) size *= static_cast<std::size_t>(d);
  if (backend().host_readable() && size > 0) {
    view.hold_ = buffer.hold();
    view.array_ = ValueRef(&array);
    view.bytes_ = {static_cast<const std::byte*>(buffer.unsafe_pointer()), size};
  } else {
    view.copy_ = std::shared_ptr<std::byte[]>(new std::byte[size]);
    buffer.to_host({view.copy_.get(), size}).await(pjrt::Deadline::max());
    view.bytes_ = {view.copy_.get(), size};
  }
  return view;
}

HostView to_host(const ConcreteArray& array, const char* operation) { return shard_to_host(array, 0, operation); }

Scalar item(const ConcreteArray& array, const char* operation) {
  return Scalar::read(to_host(array, operation).data(), array.aval()->dtype);
}

}  // namespace lockstep::runtime

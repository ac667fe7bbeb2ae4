#include "lockstep/runtime/transfer.h"

#include <array>
#include <cstring>

#include "lockstep/runtime/backend.h"
#include "lockstep/runtime/placement.h"

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

namespace {

// Copies a row-major part to its region of a row-major whole.
void paste(const std::byte* from, const Region& r, const Shape& shape, std::size_t item, std::byte* to) {
  // Dimensions from `inner` on are whole, so that their elements lie together in both.
  std::size_t inner = shape.size();
  std::size_t run = item;
  while (inner > 0 && (inner == shape.size() || r.shape()[inner] == shape[inner])) {
    --inner;
    run *= static_cast<std::size_t>(r.shape()[inner]);
  }
  if (r.shape().elements() == 0) return;
  Shape at = r.starts;
  while (true) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) offset = offset * shape[d] + at[d];
    std::memcpy(to + static_cast<std::size_t>(offset) * item, from, run);
    from += run;
    std::size_t d = inner;
    while (d > 0 && ++at[d - 1] == r.stops[d - 1]) {
      at[d - 1] = r.starts[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace

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

HostView to_host(const ConcreteArray& array, const char* operation) {
  const Sharding& s = sharding_of(array);
  const Placement& placement = Placement::of(s);
  if (s.is_fully_replicated() && !placement.local().empty()) return shard_to_host(array, 0, operation);
  if (!placement.is_fully_addressable())
    throw_error(ErrorCode::sharding, operation,
                "parts of this array ({}) lie with other processes only ({}); use addressable_shards(), or gather it "
                "first: device_put(x, {{mesh, P()}}) on every process",
                array.aval()->text, to_string(s));
  HostView whole;
  whole.copy_ = std::shared_ptr<std::byte[]>(new std::byte[array.aval()->bytes()]);
  whole.bytes_ = {whole.copy_.get(), array.aval()->bytes()};
  const Shape& shape = array.aval()->shape;
  for (std::size_t i = 0; i < array.shard_count(); ++i)
    if (s.replica(placement.local()[i].partition) == 0)
      paste(shard_to_host(array, i, operation).data(), s.region(placement.local()[i].partition, shape), shape,
            itemsize(array.aval()->dtype), whole.copy_.get());
  return whole;
}

Scalar item(const ConcreteArray& array, const char* operation) {
  return Scalar::read(to_host(array, operation).data(), array.aval()->dtype);
}

}  // namespace lockstep::runtime

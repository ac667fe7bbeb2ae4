#include "lockstep/runtime/arrays.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "lockstep/runtime/backend.h"

namespace lockstep::runtime {
namespace {

Shape byte_strides(const Shape& shape, std::size_t item) {
  Shape strides = Shape::filled(shape.size(), static_cast<std::int64_t>(item));
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

// A region of a box as a buffer on one device: the box's memory itself where that is possible.
pjrt::Buffer cut(const HostBox& box, const Shape& start, const Shape& shape, DType dtype, int device) {
  Shape strides = byte_strides(box.shape, itemsize(dtype));
  HostData data{.data = box.data};
  bool contiguous = true;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape.elements() > 0) data.data = static_cast<const std::byte*>(data.data) + start[d] * strides[d];
    contiguous = contiguous && (d == 0 || shape[d] == box.shape[d]);
  }
  if (!contiguous) data.byte_strides = strides;
  if (box.owner) {
    data.semantics = contiguous ? pjrt::HostSemantics::zero_copy : pjrt::HostSemantics::until_transferred;
    data.release = [owner = box.owner]() mutable { owner.reset(); };
  }
  return make_buffer(shape, dtype, data, device);
}

ValueRef finish(AvalP aval, const Sharding& target, std::span<pjrt::Buffer> shards) {
  return ValueRef(new ConcreteArray(aval, stored_sharding(target), shards));
}

// Some shards of an array under another sharding.
ValueRef view(ConcreteArray& array, AvalP aval, const Sharding& s, std::size_t first, std::size_t count) {
  ConcreteArray* root = array.parent() ? array.parent() : &array;
  if (count > 0) first += static_cast<std::size_t>(&array.slot(0) - &root->slot(0));
  return ValueRef(new ConcreteArray(aval, stored_sharding(s), *root, first, count));
}

// Where two shardings put the same regions of a shape on the same devices, in the same order.
bool same_layout(const Sharding& a, const Sharding& b, const Shape& shape) {
  auto x = a.device_ids(), y = b.device_ids();
  if (!std::equal(x.begin(), x.end(), y.begin(), y.end())) return false;
  for (std::int64_t p = 0; p < a.partitions(); ++p)
    if (a.region(p, shape) != b.region(p, shape)) return false;
  return true;
}

// Which parts of a dimension this process holds, sorted.
std::vector<std::int64_t> local_parts(const Sharding& s, int rank, int dim) {
  Shape unit;
  for (int d = 0; d < rank; ++d) unit.push_back(s.parts(d));
  std::vector<std::int64_t> parts;
  for (auto& shard : Placement::of(s).local()) parts.push_back(s.region(shard.partition, unit).start(dim));
  std::sort(parts.begin(), parts.end());
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

}  // namespace

HostBox host_box(HostView view, const Shape& shape) {
  auto owner = std::make_shared<HostView>(std::move(view));
  return {owner->data(), shape, owner};
}

ValueRef put_host(AvalP aval, const Sharding& target, const HostBox& whole) {
  std::vector<pjrt::Buffer> shards;
  for (auto& shard : Placement::of(target).local()) {
    Region r = target.region(shard.partition, aval->shape);
    shards.push_back(cut(whole, r.starts, r.shape(), aval->dtype, shard.device));
  }
  return finish(aval, target, shards);
}

ValueRef put_parts(AvalP aval, const Sharding& target, const std::function<HostBox(const Region&)>& part) {
  std::map<std::vector<std::int64_t>, HostBox> parts;
  std::vector<pjrt::Buffer> shards;
  for (auto& shard : Placement::of(target).local()) {
    Region r = target.region(shard.partition, aval->shape);
    std::vector<std::int64_t> key(r.starts.begin(), r.starts.end());
    auto it = parts.find(key);
    if (it == parts.end()) it = parts.emplace(std::move(key), part(r)).first;
    shards.push_back(cut(it->second, Shape::filled(r.starts.size(), 0), r.shape(), aval->dtype, shard.device));
  }
  return finish(aval, target, shards);
}

ValueRef reshard(ConcreteArray& array, const Sharding& target, const char* operation) {
  const Sharding& source = sharding_of(array);
  if (source.canonical() == target.canonical()) return ValueRef(&array);
  const Shape& shape = array.aval()->shape;
  if (same_layout(source, target, shape)) return view(array, array.aval(), target, 0, array.shard_count());
  if (!is_fully_addressable(array) && !source.is_fully_replicated())
    throw_error(ErrorCode::sharding, operation,
                "parts of this array ({}) lie with other processes only ({}); move it inside jit, with "
                "with_sharding_constraint or out_shardings",
                array.aval()->text, to_string(source));
  // A shard that is already cut right goes from device to device; what is missing comes from the host.
  auto here = Placement::of(source).local();
  auto held = array.shards(operation);
  HostBox whole;
  std::vector<pjrt::Buffer> shards;
  for (auto& shard : Placement::of(target).local()) {
    Region r = target.region(shard.partition, shape);
    auto found = std::find_if(here.begin(), here.end(),
                              [&](const Placement::Shard& s) { return source.region(s.partition, shape) == r; });
    if (found != here.end()) {
      shards.push_back(
          held[static_cast<std::size_t>(found - here.begin())].copy_to(backend().local_device(shard.device)));
      continue;
    }
    if (!whole.owner) whole = host_box(to_host(array, operation), shape);
    shards.push_back(cut(whole, r.starts, r.shape(), array.aval()->dtype, shard.device));
  }
  return finish(array.aval(), target, shards);
}

Shape global_shape(const Sharding& target, const Shape& local, const std::optional<Shape>& global) {
  const char* operation = "make_array_from_process_local_data";
  auto fail = [&](const std::string& what) {
    throw_error(ErrorCode::sharding, operation, "{} (local shape {}, {}{})", what, to_tuple_string(local),
                global ? "global shape " + to_tuple_string(*global) + ", " : "", to_string(target));
  };
  if (global && global->size() != local.size()) fail("local and global shapes have different ranks");
  if (!global && Placement::of(target).local().empty())
    fail("this process holds no part of the array, so that its global_shape has to be given");
  Shape shape;
  for (int d = 0; d < local.rank(); ++d) {
    std::size_t i = static_cast<std::size_t>(d);
    std::int64_t parts = target.parts(d), mine = static_cast<std::int64_t>(local_parts(target, local.rank(), d).size());
    if (!global) {
      if (local[i] % mine != 0)
        fail(fmt::format("dimension {} has local size {}, which is not a multiple of this process's {} parts", d,
                         local[i], mine));
      shape.push_back(local[i] / mine * parts);
    } else {
      std::int64_t expected = (*global)[i] / parts * mine;
      if (local[i] != (*global)[i] && local[i] != expected && mine > 0)
        fail(
            fmt::format("dimension {} has local size {}; it should be {} (this process's {} of {} parts) or the "
                        "global size {}",
                        d, local[i], expected, mine, parts, (*global)[i]));
      shape.push_back((*global)[i]);
    }
  }
  target.check(shape, operation);
  return shape;
}

ValueRef put_process_local(AvalP global, const Sharding& target, const HostBox& local) {
  const Shape& shape = global->shape;
  std::vector<std::vector<std::int64_t>> mine;
  for (int d = 0; d < shape.rank(); ++d) mine.push_back(local_parts(target, shape.rank(), d));
  std::vector<pjrt::Buffer> shards;
  for (auto& shard : Placement::of(target).local()) {
    Region r = target.region(shard.partition, shape);
    Shape start = r.starts, extent = r.shape();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (local.shape[d] == shape[d] || extent[d] == 0) continue;
      auto at = std::lower_bound(mine[d].begin(), mine[d].end(), r.starts[d] / extent[d]);
      start[d] = (at - mine[d].begin()) * extent[d];
    }
    shards.push_back(cut(local, start, extent, global->dtype, shard.device));
  }
  return finish(global, target, shards);
}

ValueRef shard_view(ConcreteArray& array, std::size_t shard) {
  const Sharding& s = sharding_of(array);
  const Placement::Shard& at = Placement::of(s).local()[shard];
  const Sharding& device = single_device_sharding(backend().local_devices()[static_cast<std::size_t>(at.device)].id);
  AvalP aval = with_shape(array.aval(), s.shard_shape(array.aval()->shape));
  return view(array, aval, device, shard, 1);
}

ValueRef join_shards(AvalP aval, const Sharding& target, std::span<ConcreteArray* const> shards) {
  auto local = Placement::of(target).local();
  std::vector<pjrt::Buffer> buffers;
  for (std::size_t i = 0; i < shards.size(); ++i)
    buffers.push_back(
        shards[i]->shards("make_array_from_single_device_arrays")[0].copy_to(backend().local_device(local[i].device)));
  return finish(aval, target, buffers);
}

}  // namespace lockstep::runtime

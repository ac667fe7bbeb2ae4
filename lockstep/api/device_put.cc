#include "lockstep/api/device_put.h"

#include "lockstep/ops/sharding.h"
#include "lockstep/runtime/arrays.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

const char* const kFromLocal = "make_array_from_process_local_data";
const char* const kFromCallback = "make_array_from_callback";
const char* const kFromSingle = "make_array_from_single_device_arrays";

// A concrete array behind any array whose value is known.
ValueRef known_concrete(const Array& x, const char* operation) {
  Array a = known_value(x, operation);
  if (a.value()->kind() == Value::Kind::concrete) return a.ref();
  return runtime::scalar_array(static_cast<const ScalarValue*>(a.value())->scalar, a.weak_type());
}
runtime::HostBox host_data(const Array& x, const char* operation) {
  ValueRef v = known_concrete(x, operation);
  return runtime::host_box(runtime::to_host(*runtime::as_concrete(v.get()), operation), x.shape());
}

}  // namespace

Array device_put(const Operand& x) {
  LocationScope scope(x.where);
  if (x.array.is_tracer()) return x.array;
  return place(x.array, single_device_sharding(local_devices()[0].id), "device_put");
}

Array device_put(const Operand& x, const ShardingLike& target) {
  LocationScope scope(x.where);
  const Sharding& s = target.resolve("device_put");
  s.check(x.array.shape(), "device_put");
  if (!x.array.is_tracer()) return place(x.array, s, "device_put");
  if (s.kind() == Sharding::Kind::single_device) return x.array;
  return lax::with_sharding_constraint(x, s);
}

Array make_array_from_process_local_data(const ShardingLike& sharding, Array local,
                                         const std::optional<Shape>& global_shape, std::source_location where) {
  LocationScope scope(where);
  const Sharding& s = sharding.resolve(kFromLocal);
  if (s.spec().size() > local.shape().size()) s.check(local.shape(), kFromLocal);
  Shape shape = runtime::global_shape(s, local.shape(), global_shape);
  AvalP aval = make_aval(std::move(shape), local.dtype());
  runtime::HostBox box = host_data(local, kFromLocal);
  local = Array();
  return Array(runtime::put_process_local(aval, s, box));
}

Array make_array_from_callback(const Shape& shape, const ShardingLike& sharding,
                               const std::function<Array(const Region&)>& data, const CallbackOptions& options,
                               std::source_location where) {
  LocationScope scope(where);
  const Sharding& s = sharding.resolve(kFromCallback);
  s.check(shape, kFromCallback);
  std::optional<DType> dtype = options.dtype;
  if (!dtype && Placement::of(s).local().empty())
    throw_error(ErrorCode::invalid_argument, kFromCallback,
                "this process holds no part of the array, so that its dtype has to be given");
  auto call = [&](const Region& r) {
    Array part;
    {
      UserCode user;
      part = data(r);
    }
    if (part.shape() != r.shape())
      throw_error(ErrorCode::shape, kFromCallback, "the part {} of shape {} has shape {}, but should have {}",
                  to_string(r), to_tuple_string(shape), to_tuple_string(part.shape()), to_tuple_string(r.shape()));
    if (dtype && part.dtype() != *dtype)
      throw_error(ErrorCode::dtype, kFromCallback, "the part {} is {}, but should be {}", to_string(r),
                  name(part.dtype()), name(*dtype));
    dtype = part.dtype();
    return host_data(part, kFromCallback);
  };
  // The first part tells the type.
  std::optional<std::pair<Region, runtime::HostBox>> first;
  if (!dtype) {
    Region r = s.region(Placement::of(s).local()[0].partition, shape);
    runtime::HostBox box = call(r);
    first.emplace(std::move(r), std::move(box));
  }
  return Array(runtime::put_parts(make_aval(shape, *dtype), s, [&](const Region& r) {
    return first && first->first == r ? first->second : call(r);
  }));
}

Array make_array_from_single_device_arrays(const Shape& shape, const ShardingLike& sharding, const Arrays& shards,
                                           const CallbackOptions& options, std::source_location where) {
  LocationScope scope(where);
  const Sharding& s = sharding.resolve(kFromSingle);
  s.check(shape, kFromSingle);
  std::size_t count = Placement::of(s).local().size();
  if (shards.size() != count)
    throw_error(ErrorCode::invalid_argument, kFromSingle, "{} shards were given, but this process holds {} of {}",
                shards.size(), count, to_string(s));
  if (shards.empty() && !options.dtype)
    throw_error(ErrorCode::invalid_argument, kFromSingle,
                "this process holds no part of the array, so that its dtype has to be given");
  DType dtype = options.dtype ? *options.dtype : shards[0].dtype();
  std::vector<ValueRef> values;
  std::vector<runtime::ConcreteArray*> arrays;
  for (const Array& a : shards) {
    if (a.shape() != s.shard_shape(shape) || a.dtype() != dtype)
      throw_error(ErrorCode::shape, kFromSingle, "shard {} is {}, but should be {}", arrays.size(), a.aval()->text,
                  make_aval(s.shard_shape(shape), dtype)->text);
    values.push_back(known_concrete(a, kFromSingle));
    arrays.push_back(runtime::as_concrete(values.back().get()));
  }
  return Array(runtime::join_shards(make_aval(shape, dtype), s, arrays));
}

}  // namespace lockstep

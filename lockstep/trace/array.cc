#include "lockstep/trace/array.h"

#include <limits>

#include "lockstep/runtime/arrays.h"
#include "lockstep/runtime/backend.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

template <class T>
ValueRef integer_value(T v) {
  DType type = config::enable_x64() ? DType::int64 : DType::int32;
  if (type == DType::int32 ? !std::in_range<std::int32_t>(v) : !std::in_range<std::int64_t>(v))
    throw_error(ErrorCode::dtype, "Array", "the number {} does not fit {}{}", v, name(type),
                type == DType::int32 ? "; 64-bit types are off (enable_x64)" : "");
  return ValueRef(new ScalarValue(Scalar(static_cast<std::int64_t>(v), type), true));
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

[[noreturn]] void throw_concretization(const char* operation, const Tracer& t) {
  std::string made = to_string(t.where), origin;
  LocationId where = current_location();
  if (auto* tracer = dynamic_cast<const JaxprTracer*>(&t)) {
    auto arguments = static_cast<const JaxprTrace*>(t.trace)->arguments_behind(tracer->var);
    if (!arguments.empty()) origin = " It depends on " + joined(arguments) + ".";
  }
  throw Error(ErrorCode::concretization, operation,
              fmt::format("needs the value of a traced {}{}, which {} does not know while it traces.{} Use "
                          "numpy::where, lax::cond or lax::while_loop for what depends on values, or declare the "
                          "parameter as a C++ number to make it static",
                          t.aval()->text, made.empty() ? "" : " made at " + made, t.tag->what, origin),
              where != 0 ? where : t.where);
}

Scalar value_of(const Array& array, const char* operation) {
  Array a = known_value(array, operation);
  if (a.size() != 1)
    throw_error(ErrorCode::shape, operation, "the array must have exactly one element; its shape is {}",
                to_tuple_string(a.shape()));
  if (a.value()->kind() == Value::Kind::scalar) return static_cast<const ScalarValue*>(a.value())->scalar;
  return runtime::item(*runtime::as_concrete(a.value()), operation);
}

}  // namespace

Array known_value(const Array& array, const char* operation) {
  Array a = array;
  if (!a.has_value())
    throw_error(ErrorCode::invalid_argument, operation, "the array is empty: nothing was assigned to it");
  while (a.is_tracer()) {
    check_alive(a);
    auto* t = static_cast<const Tracer*>(a.value());
    Array below = t->underlying();
    if (!below.has_value()) throw_concretization(operation, *t);
    a = std::move(below);
  }
  return a;
}

ValueRef scalar_value(bool v) { return ValueRef(new ScalarValue(Scalar(v), false)); }
ValueRef scalar_value(std::int64_t v) { return integer_value(v); }
ValueRef scalar_value(std::uint64_t v) { return integer_value(v); }
ValueRef scalar_value(double v) {
  return ValueRef(new ScalarValue(Scalar(v, config::enable_x64() ? DType::float64 : DType::float32), true));
}
ValueRef scalar_value(std::complex<double> v) {
  return ValueRef(new ScalarValue(Scalar(v, config::enable_x64() ? DType::complex128 : DType::complex64), true));
}

AvalP Array::aval() const {
  if (!value_) [[unlikely]]
    throw_error(ErrorCode::invalid_argument, "Array", "the array is empty: nothing was assigned to it");
  return value_->aval();
}

std::int64_t Array::shape(int axis) const {
  const Shape& s = aval()->shape;
  int i = axis < 0 ? axis + s.rank() : axis;
  if (i < 0 || i >= s.rank())
    throw_error(ErrorCode::axis, "shape", "axis {} is out of range for an array of shape {}", axis, to_tuple_string(s));
  return s[static_cast<std::size_t>(i)];
}

void Array::require_rank(int n) const {
  if (ndim() != n)
    throw_error(ErrorCode::shape, "shape", "{} dimensions were asked for, but the array has shape {}", n,
                to_tuple_string(shape()));
}

Array::operator bool() const { return value_of(*this, "bool").truth(); }

Scalar Array::item_scalar() const { return value_of(*this, "item"); }

const Array& Array::block_until_ready(std::source_location where) const {
  LocationScope scope(where);
  Array a = known_value(*this, "block_until_ready");
  if (auto* c = runtime::as_concrete(a.value())) c->await();
  return *this;
}

const Sharding& Array::sharding(std::source_location where) const {
  LocationScope scope(where);
  Array a = known_value(*this, "sharding");
  auto* c = runtime::as_concrete(a.value());
  return c ? runtime::sharding_of(*c) : runtime::backend().default_sharding();
}

bool Array::is_fully_addressable(std::source_location where) const {
  LocationScope scope(where);
  Array a = known_value(*this, "is_fully_addressable");
  auto* c = runtime::as_concrete(a.value());
  return c == nullptr || runtime::is_fully_addressable(*c);
}

std::vector<Shard> Array::addressable_shards(std::source_location where) const {
  LocationScope scope(where);
  Array a = known_value(*this, "addressable_shards");
  if (a.value()->kind() == Value::Kind::scalar)
    a = Array(runtime::scalar_array(static_cast<const ScalarValue*>(a.value())->scalar, a.weak_type()));
  auto& c = *runtime::as_concrete(a.value());
  const Sharding& s = runtime::sharding_of(c);
  std::vector<Shard> shards;
  for (auto& local : Placement::of(s).local())
    shards.push_back({.data = Array(runtime::shard_view(c, shards.size())),
                      .index = s.region(local.partition, a.shape()),
                      .device_id = s.device_ids()[static_cast<std::size_t>(local.partition)],
                      .replica_id = s.replica(local.partition)});
  return shards;
}

}  // namespace lockstep

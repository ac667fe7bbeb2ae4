#include "lockstep/numpy/host.h"

#include <limits>

#include "lockstep/core/scalar.h"
#include "lockstep/runtime/arrays.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep::internal {
namespace {

template <class From, class To>
void narrow(const void* from, std::size_t n, void* to) {
  auto* in = static_cast<const From*>(from);
  auto* out = static_cast<To*>(to);
  for (std::size_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<From>)
      if (!std::in_range<To>(in[i]))
        throw_error(ErrorCode::dtype, "array",
                    "the number {} (element {}) does not fit {}; 64-bit types are off "
                    "(enable_x64)",
                    in[i], i, name(dtype_of<To>));
    out[i] = static_cast<To>(in[i]);
  }
}

void convert(const void* from, DType type, std::size_t n, DType to, void* out) {
  if (type == DType::float64 && to == DType::float32) return narrow<double, float>(from, n, out);
  if (type == DType::int64 && to == DType::int32) return narrow<std::int64_t, std::int32_t>(from, n, out);
  if (type == DType::uint64 && to == DType::uint32) return narrow<std::uint64_t, std::uint32_t>(from, n, out);
  auto* in = static_cast<const std::byte*>(from);
  auto* o = static_cast<std::byte*>(out);
  for (std::size_t i = 0; i < n; ++i) Scalar::read(in + i * itemsize(type), type).cast(to).write(o + i * itemsize(to));
}

Shape fill_in(Shape shape, std::size_t count) {
  std::int64_t known = 1, *open = nullptr;
  Shape given = shape;
  for (auto& d : shape) {
    if (d == -1 && open == nullptr)
      open = &d;
    else if (d < 0)
      throw_error(ErrorCode::shape, "array", "shape {} has a negative size; one -1 is allowed", to_tuple_string(given));
    else
      known *= d;
  }
  auto n = static_cast<std::int64_t>(count);
  if (open && known != 0 && n % known == 0) *open = n / known;
  if ((open && *open < 0) || shape.elements() != n)
    throw_error(ErrorCode::shape, "array", "{} elements do not fill shape {}", n, to_tuple_string(given));
  return shape;
}

Array known_array(const Array& x, const char* operation) {
  Array a = known_value(x, operation);
  if (a.value()->kind() == Value::Kind::scalar)
    a = Array(runtime::scalar_array(static_cast<const ScalarValue*>(a.value())->scalar, a.weak_type()));
  return a;
}

}  // namespace

HostBytes device_get(const Array& x, DType type) {
  Array a = known_array(x, "device_get");
  bool key = a.dtype() == DType::key && type == DType::uint64;
  if (a.dtype() != type && !key)
    throw_error(ErrorCode::dtype, "device_get",
                "the array is {}, not {}; ask for its own type, or use to_vector, which "
                "converts",
                a.aval()->text, name(type));
  auto view = std::make_shared<runtime::HostView>(runtime::to_host(*runtime::as_concrete(a.value()), "device_get"));
  const void* data = view->data();
  return {std::move(view), data, a.shape()};
}

void device_get_as(const Array& x, DType type, void* out) {
  Array a = known_array(x, "to_vector");
  runtime::HostView view = runtime::to_host(*runtime::as_concrete(a.value()), "to_vector");
  DType from = a.dtype() == DType::key ? DType::uint64 : a.dtype();
  if (from == type)
    std::copy(view.bytes().begin(), view.bytes().end(), static_cast<std::byte*>(out));
  else
    convert(view.data(), from, static_cast<std::size_t>(a.size()), type, out);
}

Array from_host(const void* data, std::size_t count, DType type, Shape shape, std::optional<DType> as,
                Ownership ownership, std::function<void()> release) {
  AvalP aval = make_aval(fill_in(std::move(shape), count), canonicalize(as.value_or(type)));
  if (aval->dtype != type) {
    std::vector<std::byte> converted(aval->bytes());
    convert(data, type, count, aval->dtype, converted.data());
    if (release) release();
    return Array(runtime::make_concrete(aval, {.data = converted.data()}));
  }
  auto semantics = ownership == Ownership::copied    ? pjrt::HostSemantics::copy
                   : ownership == Ownership::adopted ? pjrt::HostSemantics::zero_copy_writable
                                                     : pjrt::HostSemantics::zero_copy;
  return Array(runtime::make_concrete(aval, {.data = data, .semantics = semantics, .release = std::move(release)}));
}

void throw_ragged(std::size_t first, std::size_t other) {
  throw_error(ErrorCode::shape, "array", "the lists have unequal lengths: {} and {}", first, other);
}

}  // namespace lockstep::internal

// Host data into arrays and back. Who owns the memory shows at the call:
//
//   np::array({1.0, 2.0})                                  copies
//   np::asarray(std::move(vector))                         adopts
//   np::asarray(span, {rows, columns}, {.release = f})     borrows until f is called
//   device_get<float>(x)                                   a view that keeps the array alive
//   to_vector<float>(x)                                    copies, converts
//
// Element types are those of the C++ numbers; 64-bit ones become their 32-bit counterparts unless 64-bit types are on
// (enable_x64). Integers that do not fit are an Error(dtype).
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <type_traits>
#include <vector>

#include "lockstep/core/dtype.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

// A C++ type that elements of arrays have.
template <class T>
concept Element = requires {
  { DTypeOf<T>::value } -> std::convertible_to<DType>;
};

// The elements of an array, row-major, in memory that lives as long as this or a copy of it.
template <Element T>
class HostArray {
 public:
  HostArray() = default;
  HostArray(std::shared_ptr<const void> owner, const T* data, Shape shape)
      : owner_(std::move(owner)), data_(data), shape_(std::move(shape)) {}
  const Shape& shape() const { return shape_; }
  std::int64_t shape(int axis) const {
    return shape_[static_cast<std::size_t>(axis < 0 ? axis + shape_.rank() : axis)];
  }
  std::size_t size() const { return static_cast<std::size_t>(shape_.elements()); }
  const T* data() const { return data_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size(); }
  const T& operator[](std::size_t i) const { return data_[i]; }  // in row-major order
  operator std::span<const T>() const { return {data_, size()}; }
  // An element by its indices, as many as dimensions; not checked.
  template <std::integral... I>
  const T& operator()(I... indices) const {
    std::int64_t offset = 0, i = 0;
    ((offset = offset * shape_[static_cast<std::size_t>(i++)] + static_cast<std::int64_t>(indices)), ...);
    return data_[offset];
  }

 private:
  std::shared_ptr<const void> owner_;
  const T* data_ = nullptr;
  Shape shape_;
};

namespace internal {

struct HostBytes {
  std::shared_ptr<const void> owner;
  const void* data;
  Shape shape;
};
// The current location is the user's in all of these.
HostBytes device_get(const Array& x, DType type);
// Writes all elements, converted, to `out`.
void device_get_as(const Array& x, DType type, void* out);

enum class Ownership { copied, adopted, borrowed };
// `release` is called once the memory is not read any more; at once where it is copied. A size of -1 in the shape is
// what is left of `count`.
Array from_host(const void* data, std::size_t count, DType type, Shape shape, std::optional<DType> as,
                Ownership ownership, std::function<void()> release = {});

// A nested list as flat data and its shape.
template <class T>
struct NestedList {
  std::vector<T> data;
  Shape shape;
};
[[noreturn]] void throw_ragged(std::size_t first, std::size_t other);
template <class T, class List>
NestedList<T> flatten_list(const List& list) {
  NestedList<T> out;
  if constexpr (std::is_same_v<typename List::value_type, T>) {
    out.data.assign(list.begin(), list.end());
    out.shape = Shape(list.size());
  } else {
    std::size_t n = 0, width = 0;
    Shape inner;
    for (auto& row : list) {
      if (n++ == 0)
        width = row.size();
      else if (row.size() != width)
        throw_ragged(width, row.size());
      auto flat = flatten_list<T>(row);
      if (n > 1 && flat.shape != inner) throw_ragged(inner.size() > 1 ? inner[1] : width, flat.shape[1]);
      inner = flat.shape;
      out.data.insert(out.data.end(), flat.data.begin(), flat.data.end());
    }
    out.shape = inner.with(0, static_cast<std::int64_t>(list.size()));
  }
  return out;
}
template <Element T>
Array from_vector(const std::vector<T>& data, Shape shape, std::optional<DType> as) {
  if constexpr (std::is_same_v<T, bool>) {
    std::unique_ptr<bool[]> plain(new bool[data.size()]);
    std::copy(data.begin(), data.end(), plain.get());
    return from_host(plain.get(), data.size(), DType::bool_, std::move(shape), as, Ownership::copied);
  } else {
    return from_host(data.data(), data.size(), dtype_of<T>, std::move(shape), as, Ownership::copied);
  }
}

}  // namespace internal

// The elements as they are, without a copy where the device's memory can be read (CPU); waits for them. Error(dtype) if
// they are not of type T (uint64_t for keys), Error(sharding) if parts lie with other processes only,
// Error(concretization) if x is traced.
template <Element T>
HostArray<T> device_get(const Array& x, std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  internal::HostBytes bytes = internal::device_get(x, dtype_of<T>);
  return {std::move(bytes.owner), static_cast<const T*>(bytes.data), std::move(bytes.shape)};
}
// A copy, converted to T.
template <Element T>
std::vector<T> to_vector(const Array& x, std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  std::size_t n = static_cast<std::size_t>(x.size());
  if constexpr (std::is_same_v<T, bool>) {
    std::unique_ptr<bool[]> plain(new bool[n]);
    internal::device_get_as(x, DType::bool_, plain.get());
    return std::vector<bool>(plain.get(), plain.get() + n);
  } else {
    std::vector<T> out(n);
    internal::device_get_as(x, dtype_of<T>, out.data());
    return out;
  }
}

namespace numpy {

struct AsarrayOptions {
  OptionsTag tag{};
  // Called once, on any thread, when the memory is no longer read. Without it the memory is copied.
  std::function<void()> release{};
};

// A number (weakly typed unless a dtype is given), a list, a list of lists, ...; lists of unequal lengths are an
// Error(shape).
template <Number T>
Array array(T number, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  if (!dtype) return Array(number);
  return internal::from_host(&number, 1, dtype_of<T>, {}, dtype, internal::Ownership::copied);
}
template <Element T>
Array array(std::initializer_list<T> list, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  return internal::from_vector(std::vector<T>(list), Shape(list.size()), dtype);
}
template <Element T>
Array array(std::initializer_list<std::initializer_list<T>> list, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  auto flat = internal::flatten_list<T>(list);
  return internal::from_vector<T>(flat.data, flat.shape, dtype);
}
template <Element T>
Array array(std::initializer_list<std::initializer_list<std::initializer_list<T>>> list,
            std::optional<DType> dtype = std::nullopt, std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  auto flat = internal::flatten_list<T>(list);
  return internal::from_vector<T>(flat.data, flat.shape, dtype);
}
template <Element T>
Array array(const std::vector<T>& data, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  return internal::from_vector(data, Shape(data.size()), dtype);
}
template <Element T>
Array array(const std::vector<std::vector<T>>& data, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  auto flat = internal::flatten_list<T>(data);
  return internal::from_vector<T>(flat.data, flat.shape, dtype);
}
// Row-major data of this shape, in which one size may be -1.
template <Element T>
Array array(const std::vector<T>& data, Shape shape, std::optional<DType> dtype = std::nullopt,
            std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  return internal::from_vector(data, std::move(shape), dtype);
}
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> Array array(std::span<T, N> data, Shape shape,
                                                     std::optional<DType> dtype = std::nullopt,
                                                     std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  return internal::from_host(data.data(), data.size(), dtype_of<std::remove_const_t<T>>, std::move(shape), dtype,
                             internal::Ownership::copied);
}

inline Array asarray(const Array& x) { return x; }
template <Number T>
Array asarray(T number, std::source_location where = std::source_location::current()) {
  return array(number, std::nullopt, where);
}
// A vector that is moved in becomes the array's memory where its alignment allows; one that is not is copied.
template <Element T>
Array asarray(std::vector<T> data, Shape shape, std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  if constexpr (std::is_same_v<T, bool>) {
    return internal::from_vector(data, std::move(shape), std::nullopt);
  } else {
    auto owner = std::make_shared<std::vector<T>>(std::move(data));
    return internal::from_host(owner->data(), owner->size(), dtype_of<T>, std::move(shape), std::nullopt,
                               internal::Ownership::adopted, [owner]() mutable { owner.reset(); });
  }
}
template <Element T>
Array asarray(std::vector<T> data, std::source_location where = std::source_location::current()) {
  Shape shape(data.size());
  return asarray(std::move(data), std::move(shape), where);
}
// Memory of the caller's, which must stay unchanged until `release` is called.
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> Array asarray(std::span<T, N> data, Shape shape, AsarrayOptions options = {},
                                                       std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  auto ownership = options.release ? internal::Ownership::borrowed : internal::Ownership::copied;
  return internal::from_host(data.data(), data.size(), dtype_of<std::remove_const_t<T>>, std::move(shape), std::nullopt,
                             ownership, std::move(options.release));
}

}  // namespace numpy
}  // namespace lockstep

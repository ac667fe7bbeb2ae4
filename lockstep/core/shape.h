// A shape, and other short lists of integers (axes, permutations, strides): any rank, no heap up to six dimensions.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ranges>
#include <string>

#include "lockstep/support/small_vector.h"

namespace lockstep {

class Shape : public SmallVector<std::int64_t, 6> {
  using Base = SmallVector<std::int64_t, 6>;

 public:
  Shape() = default;
  // From any integers: Shape{v.size(), 3} does not narrow.
  template <class... Ints>
  requires(sizeof...(Ints) > 0 && (std::is_integral_v<Ints> && ...)) Shape(Ints... dims)
      : Base{static_cast<std::int64_t>(dims)...} {}
  template <std::ranges::input_range R>
  requires(!std::is_base_of_v<Base, std::remove_cvref_t<R>> && std::is_integral_v<std::ranges::range_value_t<R>>)
      Shape(const R& dims)
      : Base(std::ranges::begin(dims), std::ranges::end(dims)) {}
  template <class It>
  requires(!std::is_integral_v<It>) Shape(It first, It last) : Base(first, last) {}
  static Shape filled(std::size_t n, std::int64_t value) {
    Shape s;
    s.assign(n, value);
    return s;
  }

  int rank() const { return static_cast<int>(size()); }
  std::int64_t elements() const {  // the product of the dimensions; 1 for a scalar
    std::int64_t n = 1;
    for (auto d : *this) n *= d;
    return n;
  }
  // The same with dimension `axis` gone, or with `value` put before it.
  Shape without(int axis) const {
    Shape s = *this;
    s.erase(s.begin() + axis);
    return s;
  }
  Shape with(int axis, std::int64_t value) const {
    Shape s = *this;
    s.insert(s.begin() + axis, value);
    return s;
  }
};
using Ints = Shape;  // where the numbers are not dimensions

std::string to_string(const Shape& s);        // "[3,4]", as in jaxprs
std::string to_tuple_string(const Shape& s);  // "(3, 4)", "(3,)", "()", as in parameters

}  // namespace lockstep

// An `axis` argument: absent (none), one axis, or several. Negative axes count from the end.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>

#include "lockstep/core/none.h"
#include "lockstep/core/shape.h"
#include "lockstep/ops/axes.h"

namespace lockstep::numpy {

class Axes {
 public:
  Axes() = default;
  Axes(none_t) {}
  template <std::integral T>
  Axes(T axis) : axes_(Ints{static_cast<std::int64_t>(axis)}) {}
  Axes(std::initializer_list<std::int64_t> axes) : axes_(Ints(axes.begin(), axes.end())) {}
  Axes(const Ints& axes) : axes_(axes) {}

  bool given() const { return axes_.has_value(); }
  const Ints& list() const { return *axes_; }  // as given; there must be some
  // Counted from the front, in the order given; all axes if absent. Error(axis) if one is out of range or repeated.
  Ints resolve(std::string_view operation, int rank) const {
    return axes_ ? canonical_axes(operation, *axes_, rank) : iota_ints(rank);
  }

 private:
  std::optional<Ints> axes_;
};

}  // namespace lockstep::numpy

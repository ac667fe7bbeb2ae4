// An `axis` argument: absent (none), one axis, or several. Negative axes count from the end.
#pragma once

#include <initializer_list>
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
  Axes(T axis) : axes_{static_cast<std::int64_t>(axis)}, given_(true) {}
  Axes(std::initializer_list<std::int64_t> axes) : axes_(axes), given_(true) {}
  Axes(const Ints& axes) : axes_(axes), given_(true) {}

  bool given() const { return given_; }
  const Ints& list() const { return axes_; }  // as given; there must be some
  // Counted from the front, in the order given; all axes if absent. Error(axis) if one is out of range or repeated.
  Ints resolve(std::string_view operation, int rank) const {
    return given_ ? canonical_axes(operation, axes_, rank) : iota_ints(rank);
  }

 private:
  // Not an optional: g++ 12 takes copies of one for reads of its absent value and warns in users' files.
  Ints axes_;
  bool given_ = false;
};

}  // namespace lockstep::numpy

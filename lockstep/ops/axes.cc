#include "lockstep/ops/axes.h"

#include <algorithm>

#include "lockstep/support/error.h"

namespace lockstep {

int canonical_axis(std::string_view operation, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    throw_error(ErrorCode::axis, std::string(operation), "axis {} is out of range for an array of rank {}", axis, rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
Ints canonical_axes(std::string_view operation, const Ints& axes, int rank) {
  Ints out;
  for (auto a : axes) {
    int c = canonical_axis(operation, a, rank);
    if (contains(out, c))
      throw_error(ErrorCode::axis, std::string(operation), "axis {} is repeated in {}", a, to_tuple_string(axes));
    out.push_back(c);
  }
  return out;
}
bool contains(const Ints& list, std::int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }
Ints iota_ints(std::int64_t n) {
  Ints out;
  for (std::int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}
Ints remaining(int rank, std::initializer_list<const Ints*> lists) {
  Ints out;
  for (int i = 0; i < rank; ++i)
    if (std::none_of(lists.begin(), lists.end(), [&](const Ints* l) { return contains(*l, i); })) out.push_back(i);
  return out;
}
Ints take(const Ints& list, const Ints& indices) {
  Ints out;
  for (auto i : indices) out.push_back(list[static_cast<std::size_t>(i)]);
  return out;
}
Ints argsort(const Ints& list) {
  Ints out = iota_ints(static_cast<std::int64_t>(list.size()));
  std::stable_sort(out.begin(), out.end(), [&](auto a, auto b) {
    return list[static_cast<std::size_t>(a)] < list[static_cast<std::size_t>(b)];
  });
  return out;
}
Ints bump_dims(const Ints& axes, int inserted) {
  Ints out;
  for (auto a : axes) out.push_back(a >= inserted ? a + 1 : a);
  return out;
}
Shape without_axes(const Shape& shape, const Ints& axes) { return take(shape, remaining(shape.rank(), axes)); }
Shape keep_axes(const Shape& shape, const Ints& axes) {
  Shape out = shape;
  for (auto a : axes) out[static_cast<std::size_t>(a)] = 1;
  return out;
}
void join_varying(Aval& result, std::span<const AvalP> in) {
  for (AvalP a : in)
    for (auto& axis : a->varying)
      if (auto at = std::lower_bound(result.varying.begin(), result.varying.end(), axis);
          at == result.varying.end() || *at != axis)
        result.varying.insert(at, axis);
}

}  // namespace lockstep

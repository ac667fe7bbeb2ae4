// PartitionSpec: which mesh axes split each dimension of an array. Made by P: P("x", none), P({"x", "y"}), P().
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/core/none.h"

namespace lockstep {

struct unconstrained_t {};
// In constraints: the compiler chooses for this dimension.
inline constexpr unconstrained_t unconstrained{};

// One dimension: split over these axes, the first one outermost; none: not split.
struct SpecEntry {
  SpecEntry(none_t) {}
  SpecEntry(unconstrained_t) : unconstrained(true) {}
  SpecEntry(const char* axis) : axes{axis} {}
  SpecEntry(std::string axis) : axes{std::move(axis)} {}
  SpecEntry(std::initializer_list<std::string_view> names) : axes(names.begin(), names.end()) {}
  SpecEntry(std::vector<std::string> names) : axes(std::move(names)) {}

  std::vector<std::string> axes;
  bool unconstrained = false;
  bool operator==(const SpecEntry&) const = default;
};

class PartitionSpec {
 public:
  PartitionSpec() = default;  // P()
  explicit PartitionSpec(std::vector<SpecEntry> entries) : entries_(std::move(entries)) {}

  // Dimensions beyond the last entry are not split.
  const std::vector<SpecEntry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  const SpecEntry& operator[](std::size_t i) const { return entries_[i]; }
  bool operator==(const PartitionSpec&) const = default;
  // Without trailing entries that split nothing.
  PartitionSpec trimmed() const;
  bool mentions(std::string_view axis) const;

 private:
  std::vector<SpecEntry> entries_;
};
std::string to_string(const PartitionSpec& p);  // "P('x', None)", "P('x',)", "P(('x', 'y'), None)", as JAX's

namespace internal {
struct MakeSpec {
  using E = SpecEntry;
  PartitionSpec operator()() const { return {}; }
  PartitionSpec operator()(E a) const { return PartitionSpec({std::move(a)}); }
  PartitionSpec operator()(E a, E b) const { return PartitionSpec({std::move(a), std::move(b)}); }
  PartitionSpec operator()(E a, E b, E c) const { return PartitionSpec({std::move(a), std::move(b), std::move(c)}); }
  template <class... More>
  PartitionSpec operator()(E a, E b, E c, E d, More&&... more) const {
    return PartitionSpec({std::move(a), std::move(b), std::move(c), std::move(d), E(std::forward<More>(more))...});
  }
};
}  // namespace internal
inline constexpr internal::MakeSpec P{};

}  // namespace lockstep

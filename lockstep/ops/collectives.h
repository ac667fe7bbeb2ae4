// Communication over named axes: those of a mesh inside shard_map and pmap, or one that vmap has named. Every instance
// of the mapped program takes part. Over vmap's own axis they become sums, transposes and so on of the whole array.
//
// Error(axis) if a name is not bound where the function is called.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive psum_p, pmax_p, pmin_p, all_gather_p, reduce_scatter_p, all_to_all_p, ppermute_p, axis_index_p;

namespace lax {

// The name of an axis, or several, of which the first is the major one: psum(x, "i"), psum(x, {"x", "y"}).
class AxisName {
 public:
  AxisName(const char* name) : names{name} {}
  AxisName(std::string name) : names{std::move(name)} {}
  AxisName(std::initializer_list<std::string_view> list) : names(list.begin(), list.end()), tuple(true) {}
  AxisName(std::vector<std::string> list) : names(std::move(list)), tuple(true) {}
  bool operator==(const AxisName&) const = default;

  std::vector<std::string> names;
  bool tuple = false;  // given as a list; matters for printing only
};
void print_param(Printer& p, const AxisName& v);  // x, or ('x', 'y')
std::size_t hash_param(const AxisName& v);

// Parts of the axis that communicate among themselves: lists of axis indices that cover all, each once.
using AxisIndexGroups = std::vector<Ints>;

struct CollectiveOptions {
  OptionsTag tag{};
  std::optional<AxisIndexGroups> axis_index_groups = std::nullopt;
};

// The number of instances along the axis (the product for several).
std::int64_t axis_size(const AxisName& axis_name, std::source_location where = std::source_location::current());
// This instance's place along the axis, int32.
Array axis_index(const AxisName& axis_name, std::source_location where = std::source_location::current());

// The sum (mean, largest, smallest) over all instances, on all of them. bool counts as int32; the mean of integers is
// floating.
Array psum(const Operand& x, const AxisName& axis_name, const CollectiveOptions& options = {});
Array pmean(const Operand& x, const AxisName& axis_name, const CollectiveOptions& options = {});
Array pmax(const Operand& x, const AxisName& axis_name, const CollectiveOptions& options = {});
Array pmin(const Operand& x, const AxisName& axis_name, const CollectiveOptions& options = {});

struct AllGatherOptions {
  OptionsTag tag{};
  std::optional<AxisIndexGroups> axis_index_groups = std::nullopt;
  int axis = 0;
  bool tiled = false;  // concatenated along `axis` instead of stacked in a new one
};
// The values of all instances, on all of them.
Array all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& options = {});

struct PsumScatterOptions {
  OptionsTag tag{};
  int scatter_dimension = 0;
  std::optional<AxisIndexGroups> axis_index_groups = std::nullopt;
  bool tiled = false;  // the dimension is divided by the axis size and kept; otherwise it must equal it and is dropped
};
// The sum over all instances, of which each keeps its part along a dimension.
Array psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& options = {});

struct AllToAllOptions {
  OptionsTag tag{};
  int split_axis = 0;
  int concat_axis = 0;
  std::optional<AxisIndexGroups> axis_index_groups = std::nullopt;
  bool tiled = false;  // split_axis is divided by the axis size, concat_axis multiplied; otherwise split_axis must
                       // equal it and moves to concat_axis
};
// Piece i along split_axis goes to instance i; what arrives is put together along concat_axis in the senders' order.
Array all_to_all(const Operand& x, const AxisName& axis_name, const AllToAllOptions& options);
inline Array all_to_all(const Operand& x, const AxisName& axis_name, int split_axis, int concat_axis,
                        AllToAllOptions options = {}) {
  options.split_axis = split_axis;
  options.concat_axis = concat_axis;
  return all_to_all(x, axis_name, options);
}
// The named axis and a dimension of its size change places.
inline Array pswapaxes(const Operand& x, const AxisName& axis_name, int axis) {
  return all_to_all(x, axis_name, axis, axis);
}

// (source, destination) pairs of axis indices; no source and no destination appears twice.
using Permutation = std::vector<std::pair<std::int64_t, std::int64_t>>;
// Every destination gets its source's value; instances that are no destination get zeros.
Array ppermute(const Operand& x, const AxisName& axis_name, const Permutation& perm);
// Instance i gets the value of perm[i], for a permutation of all instances.
Array pshuffle(const Operand& x, const AxisName& axis_name, const Ints& perm);

}  // namespace lax
}  // namespace lockstep

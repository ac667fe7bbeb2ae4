#include "lockstep/api/vmap.h"

#include <numeric>

#include "lockstep/core/basic_ops.h"
#include "lockstep/support/error.h"

namespace lockstep {

void AxisTree::into(std::span<const std::size_t> groups, std::vector<int>& out, const std::string& what) const {
  std::size_t n = std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  if (!is_list_) {
    out.insert(out.end(), n, mapped_ ? axis_ : kUnmapped);
    return;
  }
  std::vector<std::size_t> ones(n, 1);
  bool per_leaf = is_leaves_ || (groups.size() == 1 && list_.size() != 1);
  std::span<const std::size_t> parts = per_leaf ? std::span<const std::size_t>(ones) : groups;
  if (list_.size() != parts.size())
    throw_error(ErrorCode::tree, "vmap", "{} has {} entries for {} {}", what, list_.size(), parts.size(),
                per_leaf            ? "arrays"
                : what == "in_axes" ? "arguments"
                                    : "results");
  for (std::size_t i = 0; i < parts.size(); ++i) list_[i].into(parts.subspan(i, 1), out, what);
}
std::vector<int> AxisTree::resolve(std::span<const std::size_t> groups, const std::string& what) const {
  std::vector<int> out;
  into(groups, out, what);
  return out;
}

namespace internal {

std::int64_t mapped_size(std::span<const Array> leaves, std::vector<int>& axes, std::int64_t given,
                         std::span<const std::string> names) {
  std::int64_t size = given;
  std::string sizes;
  bool differ = false;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (axes[i] == AxisTree::kUnmapped) {
      axes[i] = kNotMapped;
      continue;
    }
    int rank = leaves[i].ndim();
    if (axes[i] < -rank || axes[i] >= rank)
      throw_error(ErrorCode::axis, "vmap", "in_axes asks for axis {} of {}, which is {}{}", axes[i], names[i],
                  leaves[i].aval()->text, rank == 0 ? "; a scalar can't be mapped: give none for it" : "");
    if (axes[i] < 0) axes[i] += rank;
    std::int64_t n = leaves[i].shape()[static_cast<std::size_t>(axes[i])];
    sizes += fmt::format("\n  {}: axis {} of {} has size {}", names[i], axes[i], leaves[i].aval()->text, n);
    if (size < 0) size = n;
    differ = differ || n != size;
  }
  if (differ)
    throw_error(ErrorCode::shape, "vmap", "the mapped axes differ in size{}:{}",
                given >= 0 ? fmt::format(" (axis_size {})", given) : "", sizes);
  if (size < 0) throw_error(ErrorCode::axis, "vmap", "no argument is mapped; map one with in_axes, or give axis_size");
  return size;
}

Arrays place_results(BatchOut out, const std::vector<int>& axes, std::int64_t size) {
  for (std::size_t i = 0; i < out.outs.size(); ++i) {
    bool mapped = out.dims[i] != kNotMapped;
    if (axes[i] == AxisTree::kUnmapped) {
      if (mapped)
        throw_error(ErrorCode::axis, "vmap", "out_axes is none for result {}, but it varies over the mapped axis", i);
      continue;
    }
    int rank = out.outs[i].ndim() + !mapped, axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank)
      throw_error(ErrorCode::axis, "vmap", "out_axes asks for axis {} of a result of rank {}", axes[i], rank);
    out.outs[i] = batch_axis_at(out.outs[i], out.dims[i], size, axis);
  }
  return std::move(out.outs);
}

}  // namespace internal
}  // namespace lockstep

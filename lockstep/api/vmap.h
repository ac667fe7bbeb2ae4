// vmap: a function over one example becomes a function over a batch. jax.vmap.
#pragma once

#include <initializer_list>
#include <source_location>
#include <string>
#include <vector>

#include "lockstep/api/function.h"
#include "lockstep/api/jit.h"
#include "lockstep/transforms/batching.h"

namespace lockstep {

// Where the mapped axis is: one number (or none) for all, a list per argument or result, or one per leaf of a tree.
class AxisTree {
 public:
  AxisTree(int axis) : axis_(axis) {}
  AxisTree(none_t) : mapped_(false) {}
  AxisTree(std::initializer_list<AxisTree> list) : is_list_(true), list_(list) {}
  template <class T>
  AxisTree(const tree::Tree<T>& t) : is_list_(true), is_leaves_(true) {
    for (const auto& x : t.leaves) list_.emplace_back(x);
  }
  // One axis per leaf; kUnmapped for none. `what` is in_axes or out_axes, for messages.
  std::vector<int> resolve(std::span<const std::size_t> groups, const std::string& what) const;
  static constexpr int kUnmapped = -1'000'000;

 private:
  void into(std::span<const std::size_t> groups, std::vector<int>& out, const std::string& what) const;
  int axis_ = 0;
  bool mapped_ = true, is_list_ = false, is_leaves_ = false;
  std::vector<AxisTree> list_;
};

struct VmapOptions {
  OptionsTag tag{};
  AxisTree in_axes = 0, out_axes = 0;  // negative axes count from the end
  std::string axis_name{};             // for collectives inside
  std::int64_t axis_size = -1;         // needed only if no argument is mapped
};

namespace internal {
// Normalised axes of the leaves and the size that they agree on. Error(axis/shape) naming the leaves that do not.
std::int64_t mapped_size(std::span<const Array> leaves, std::vector<int>& axes, std::int64_t given,
                         std::span<const std::string> names);
// Results with their mapped axis where out_axes wants it.
Arrays place_results(BatchOut out, const std::vector<int>& axes, std::int64_t size);
}  // namespace internal

template <class F>
class Vmapped {
 public:
  using TracedFunction = F;
  Vmapped(F f, VmapOptions options, std::source_location where)
      : f_(std::move(f)), options_(std::move(options)), where_(where) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    return [&]<std::size_t... I>(std::index_sequence<I...>)->R {
      LocationScope scope(where_);
      Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      std::vector<std::size_t> groups{tree::num_leaves(std::get<I>(held))...}, out_groups;
      Arrays leaves = tree::leaves(held);
      std::vector<int> axes = options_.in_axes.resolve(groups, "in_axes");
      std::int64_t size = internal::mapped_size(leaves, axes, options_.axis_size, internal::argument_names(held));
      std::optional<R> skeleton;
      auto out = batch_flat(internal::flat_function<F, Tuple, R>(f_, held, skeleton), leaves, axes, size,
                            options_.axis_name, "vmap");
      if constexpr (tree::internal::IsTuple<R>::value)
        std::apply([&](const auto&... r) { (out_groups.push_back(tree::num_leaves(r)), ...); }, *skeleton);
      else
        out_groups.push_back(tree::num_leaves(*skeleton));
      auto out_axes = options_.out_axes.resolve(out_groups, "out_axes");
      return internal::fill(*skeleton, internal::place_results(std::move(out), out_axes, size));
    }
    (std::index_sequence_for<Args...>());
  }

 private:
  F f_;
  VmapOptions options_;
  std::source_location where_;
};

template <class F>
auto vmap(F f, VmapOptions options = {}, std::source_location where = std::source_location::current()) {
  return Vmapped<F>(std::move(f), std::move(options), where);
}

}  // namespace lockstep

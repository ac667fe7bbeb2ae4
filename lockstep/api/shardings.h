// Shardings of the arguments or results of a function: one for all, one per argument, or one per leaf (a tree::Tree
// made by tree::map), nested as lists; `none` leaves the choice to the compiler.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/api/tree.h"
#include "lockstep/core/aval.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep {

class ShardingTree {
 public:
  ShardingTree() = default;  // not given
  ShardingTree(none_t) : kind_(Kind::open) {}
  template <class S>
  requires(std::is_convertible_v<const S&, ShardingLike> && !std::is_same_v<S, ShardingTree>) ShardingTree(const S& s)
      : kind_(Kind::one), one_(ShardingLike(s)) {}
  template <class S>
  requires std::is_convertible_v<const S&, ShardingLike> ShardingTree(const tree::Tree<S>& t) : kind_(Kind::leaves) {
    for (const S& s : t.leaves) list_.push_back(ShardingTree(s));
  }
  ShardingTree(std::initializer_list<ShardingTree> list) : kind_(Kind::list), list_(list) {}

  bool given() const { return kind_ != Kind::absent; }
  // One interned sharding per leaf (null: open), for leaves that come in `groups` (arguments, or elements of a returned
  // tuple). Checks each against its leaf's shape, if avals are given. Error(tree) if the numbers do not match,
  // Error(sharding) for a spec that does not fit; both name `operation`, `what` and the leaf.
  std::vector<const Sharding*> resolve(std::span<const std::size_t> groups, std::span<const AvalP> avals,
                                       std::span<const std::string> names, const std::string& operation,
                                       const std::string& what) const;

 private:
  enum class Kind { absent, open, one, leaves, list };
  void resolve_into(std::span<const std::size_t> groups, std::vector<const Sharding*>& out,
                    const std::string& operation, const std::string& what) const;
  Kind kind_ = Kind::absent;
  std::optional<ShardingLike> one_;
  std::vector<ShardingTree> list_;
};

}  // namespace lockstep

#include "lockstep/api/shardings.h"

#include <numeric>

#include "lockstep/support/error.h"

namespace lockstep {

void ShardingTree::resolve_into(std::span<const std::size_t> groups, std::vector<const Sharding*>& out,
                                const std::string& operation, const std::string& what) const {
  std::size_t n = std::accumulate(groups.begin(), groups.end(), std::size_t{0});
  switch (kind_) {
    case Kind::absent:
    case Kind::open:
      out.insert(out.end(), n, nullptr);
      return;
    case Kind::one:
      out.insert(out.end(), n, &one_->resolve(operation));
      return;
    case Kind::leaves:
      if (list_.size() != n)
        throw_error(ErrorCode::tree, operation, "{} has {} leaves, there are {} arrays to place", what, list_.size(),
                    n);
      for (auto& s : list_) {
        std::size_t single = 1;
        s.resolve_into({&single, 1}, out, operation, what);
      }
      return;
    case Kind::list:
      if (groups.size() == 1 && list_.size() != 1) {
        // A list for one argument: its leaves, one by one.
        if (list_.size() != n)
          throw_error(ErrorCode::tree, operation, "{} lists {} shardings for {} arrays", what, list_.size(), n);
        std::size_t single = 1;
        for (auto& s : list_) s.resolve_into({&single, 1}, out, operation, what);
        return;
      }
      if (list_.size() != groups.size())
        throw_error(ErrorCode::tree, operation, "{} lists {} shardings, there are {} {}", what, list_.size(),
                    groups.size(), what == "out_shardings" ? "results" : "arguments");
      for (std::size_t i = 0; i < groups.size(); ++i) list_[i].resolve_into(groups.subspan(i, 1), out, operation, what);
  }
}

std::vector<const Sharding*> ShardingTree::resolve(std::span<const std::size_t> groups, std::span<const AvalP> avals,
                                                   std::span<const std::string> names, const std::string& operation,
                                                   const std::string& what) const {
  std::vector<const Sharding*> out;
  resolve_into(groups, out, operation, what);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i] && i < avals.size()) out[i]->check(avals[i]->shape, operation, i < names.size() ? names[i] : what);
  return out;
}

}  // namespace lockstep

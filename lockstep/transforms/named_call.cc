#include "lockstep/transforms/named_call.h"

#include <map>
#include <tuple>
#include <vector>

#include "lockstep/support/config.h"
#include "lockstep/transforms/call.h"

namespace lockstep {

Arrays named_call(const char* name, const std::vector<std::int64_t>& statics, std::span<const Array> args,
                  const FlatFunction& f) {
  using Key = std::tuple<std::string, std::vector<std::int64_t>, std::vector<AvalP>, std::uint64_t>;
  thread_local std::map<Key, ParamsRef> cache;
  std::vector<AvalP> avals;
  for (auto& a : args) avals.push_back(a.aval());
  Key key{name, statics, avals, config::fingerprint()};
  auto it = cache.find(key);
  if (it == cache.end()) {
    auto j = trace_to_jaxpr(f, avals, name);
    LS_CHECK(j->constvars.empty(), "{} captured a value", name);
    if (cache.size() >= 4096) cache.clear();
    it = cache.emplace(std::move(key), make_params(JitParams{name, j})).first;
    it->second->keep();
  }
  return bind_many(jit_p, args, it->second);
}

}  // namespace lockstep

// What jit does, apart from the user's types: signatures, traces and programs by signature, and the call itself.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "lockstep/api/shardings.h"
#include "lockstep/api/tree.h"
#include "lockstep/compile/report.h"
#include "lockstep/core/jaxpr.h"
#include "lockstep/support/options.h"
#include "lockstep/trace/array.h"

namespace lockstep {

namespace compile {
class Program;
struct ProgramRequest;
}  // namespace compile

namespace internal {

// A call's leaves, as they are hashed and compared.
struct JitCall {
  SmallVector<Value*, 32> leaves;
  tree::Signature structure;
};

// A trace of the function at one signature of avals, and what it returns.
struct JitTrace {
  ClosedJaxpr jaxpr;   // as traced: consts are captured values
  ClosedJaxpr closed;  // captured values are leading inputs
  Arrays captured;
  std::shared_ptr<const void> skeleton;  // of the result, of the user's type
  // Leaves per argument and per element of a returned tuple, and the arguments' names, for shardings and messages.
  std::vector<std::size_t> in_groups, out_groups;
  std::vector<std::string> names;
};

struct JitSettings {
  std::string name = "fn";
  std::vector<int> donate_argnums;
  bool keep_unused = false;
  LocationId where = 0;
  ShardingTree in_shardings, out_shardings;
};

class JitCore {
 public:
  // Fills jaxpr, skeleton, groups and names for inputs of these avals.
  using TraceFunction = std::function<JitTrace(std::span<const AvalP>)>;

  explicit JitCore(JitSettings settings);
  ~JitCore();

  // Runs the call; `outs` is filled with the results' leaves. Returns the skeleton of the result. `trace` and
  // `donated` (a mask of leaves) are used if the signature is new.
  const void* call(const JitCall& call, const TraceFunction& trace, const std::function<std::vector<bool>()>& donated,
                   Arrays& outs);
  std::shared_ptr<const JitTrace> trace(const JitCall& call, const TraceFunction& trace);
  const JitSettings& settings() const { return settings_; }
  std::size_t cache_size() const;
  void clear_cache();
  // The request for a call: placements of its leaves, as they are or as in_shardings says, and of the results.
  compile::ProgramRequest request(const JitTrace& trace, std::span<const Sharding* const> leaves,
                                  const std::vector<bool>& donated) const;
  // Of the signature compiled last; empty if nothing is compiled.
  std::vector<CollectiveReport> collectives() const;
  // Why this call would compile: the nearest cached signature and the first difference.
  std::string explain(const JitCall& call, std::span<const std::string> names) const;

 private:
  struct Entry;
  struct TraceEntry;
  Entry* find(const JitCall& call, std::size_t hash);

  JitSettings settings_;
  mutable std::mutex mutex_;
  std::unordered_multimap<std::size_t, std::shared_ptr<Entry>> entries_;
  std::unordered_multimap<std::size_t, std::shared_ptr<TraceEntry>> traces_;
  std::shared_ptr<Entry> latest_;
};

}  // namespace internal
}  // namespace lockstep

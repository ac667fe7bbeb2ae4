// A compiled program: from a jaxpr to something that runs on values.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/compile/report.h"
#include "lockstep/core/jaxpr.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/runtime/concrete.h"

namespace lockstep::compile {

struct ProgramRequest {
  ClosedJaxpr jaxpr;  // without consts
  std::string name = "main";
  std::vector<bool> donated;  // per input; empty: none
  // Per input and result, interned, or null: the default device, or for results of a program over a mesh the
  // compiler's choice. Empty: all null.
  std::vector<const Sharding*> in, out;
  bool keep_unused = false;
  LocationId where = current_location();
};

class Program {
 public:
  virtual ~Program() = default;
  // `args` are scalars or concrete arrays that fit the request; `outs` has a slot per result. Donated arguments can't
  // be used again, whatever happens. Returns when the work is enqueued.
  virtual void run(std::span<Value* const> args, ValueRef* outs, LocationId where) = 0;

  virtual bool spans_mesh() const { return false; }
  virtual const std::string& stablehlo() const = 0;
  virtual std::string compiled_text() const = 0;  // the optimised HLO, as the plugin gives it
  // Of one device's part: what the plugin tells, or else (CPU) counted from the optimised program: optimized.h.
  virtual std::map<std::string, double> cost_analysis() const = 0;
  virtual pjrt::CompiledMemoryStats memory_analysis() const = 0;
  // The collectives that one launch runs; none on one device.
  virtual std::vector<CollectiveReport> collectives() const { return {}; }
};

// Lowers only: the canonical StableHLO text.
std::string lower(const ProgramRequest& request);
// Compiles; programs of equal text and placement are compiled once and shared.
std::shared_ptr<Program> compile(const ProgramRequest& request);
// Forgets the programs that nothing else holds.
void clear_caches();

struct CacheStatistics {
  std::uint64_t compiled = 0, shared = 0;
};
CacheStatistics cache_statistics();

}  // namespace lockstep::compile

// The stages of a jitted call apart: jit(f).lower(args...).compile(). jax.stages.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/api/function.h"
#include "lockstep/api/jit_core.h"

namespace lockstep {

// Of one run of one device's part. Where the plugin does not tell (CPU), counted from the optimised program by the
// rules of XLA's own analysis, except that a loop counts as often as it runs, if that is known.
struct CostAnalysis {
  double flops = 0, bytes_accessed = 0, transcendentals = 0;
  std::map<std::string, double> all;  // by XLA's names, with what else the plugin tells
};
struct MemoryAnalysis {  // bytes, as the plugin tells them, of one device
  std::int64_t argument_size_in_bytes = 0, output_size_in_bytes = 0, alias_size_in_bytes = 0, temp_size_in_bytes = 0,
               generated_code_size_in_bytes = 0;
};

namespace internal {
class CompiledCore {
 public:
  CompiledCore(std::shared_ptr<const JitTrace> trace, std::shared_ptr<const JitCore> core, const JitCall& call,
               const std::vector<bool>& donated);
  std::string lowered_text() const;
  void compile();
  Arrays call(const JitCall& call) const;
  std::string compiled_text() const;
  CostAnalysis cost_analysis() const;
  MemoryAnalysis memory_analysis() const;
  const JitTrace& trace() const { return *trace_; }

 private:
  struct Data;
  std::shared_ptr<Data> data_;
  std::shared_ptr<const JitTrace> trace_;
};
}  // namespace internal

template <class R>
class Compiled {
 public:
  explicit Compiled(internal::CompiledCore core) : core_(std::move(core)) {}
  // Arguments of the same structure, shapes and dtypes as those it was lowered for; Error(shape) otherwise.
  template <class... Args>
  R operator()(const Args&... args) const {
    internal::JitCall call;
    Arrays lifted;
    lifted.reserve(sizeof...(args));
    [[maybe_unused]] auto one = [&](const auto& arg) {
      using A = std::remove_cvref_t<decltype(arg)>;
      if constexpr (std::is_arithmetic_v<A>)
        call.leaves.push_back(lifted.emplace_back(arg).value());
      else
        tree::for_each_leaf(arg, [&](const Array& a) { call.leaves.push_back(a.value()); });
    };
    (one(args), ...);
    return internal::fill(*static_cast<const R*>(core_.trace().skeleton.get()), core_.call(call));
  }
  std::string as_text() const { return core_.compiled_text(); }
  CostAnalysis cost_analysis() const { return core_.cost_analysis(); }
  MemoryAnalysis memory_analysis() const { return core_.memory_analysis(); }

 private:
  internal::CompiledCore core_;
};

template <class R>
class Lowered {
 public:
  explicit Lowered(internal::CompiledCore core) : core_(std::move(core)) {}
  std::string as_text() const { return core_.lowered_text(); }  // StableHLO
  Compiled<R> compile() const {
    auto core = core_;
    core.compile();
    return Compiled<R>(std::move(core));
  }

 private:
  internal::CompiledCore core_;
};

}  // namespace lockstep

#include "lockstep/compile/program.h"

#include <mutex>
#include <unordered_map>

#include "lockstep/compile/optimized.h"
#include "lockstep/compile/options.h"
#include "lockstep/compile/placement.h"
#include "lockstep/distributed/phase.h"
#include "lockstep/lower/context.h"
#include "lockstep/runtime/backend.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/config.h"

namespace lockstep::compile {
namespace {

// One device, one launch, in the caller's thread.
class LocalProgram final : public Program {
 public:
  LocalProgram(Lowered lowered, AvalList out_avals)
      : lowered_(std::move(lowered)), out_avals_(std::move(out_avals)), api_(runtime::backend().client().api()) {
    runtime::Backend& b = runtime::backend();
    CompileOptions options;
    if (b.plugin_spans_processes()) options.device_assignment = {b.default_device().id()};
    executable_ = b.client().compile(lowered_.text, serialize(options));
  }

  void run(std::span<Value* const> args, ValueRef* outs, LocationId where) override {
    SmallVector<PJRT_Buffer*, 64> in;
    SmallVector<PJRT_Buffer*, 64> out(out_avals_.size(), nullptr);
    SmallVector<runtime::ConcreteArray*, 8> donated;
    SmallVector<std::int64_t, 8> kept_anyway;
    std::vector<ValueRef> scalars;
    for (std::size_t i = 0; i < args.size(); ++i) {
      bool donate = !lowered_.donated.empty() && lowered_.donated[i];
      if (!lowered_.kept[i] && !donate) continue;
      auto* array = runtime::as_concrete(args[i]);
      if (array == nullptr) {
        if (!lowered_.kept[i]) continue;
        scalars.push_back(runtime::scalar_array(static_cast<ScalarValue*>(args[i])->scalar, false));
        array = runtime::as_concrete(scalars.back().get());
        if (donate) kept_anyway.push_back(static_cast<std::int64_t>(in.size()));
        donate = false;
      }
      if (lowered_.kept[i]) in.push_back(array->shards(lowered_.name.c_str())[0].raw());
      if (donate) donated.push_back(array);
    }
    for (auto* a : donated) a->donate(where, lowered_.name.c_str());
    pjrt::Launch launch;
    launch.non_donatable_inputs = kept_anyway;
    executable_.launch(in, out.data(), launch);
    for (auto* a : donated) a->release_shards();
    for (std::size_t i = 0; i < out.size(); ++i)
      outs[i] = ValueRef(new runtime::ConcreteArray(out_avals_[i], pjrt::Buffer(api_, out[i])));
  }

  const std::string& stablehlo() const override { return lowered_.text; }
  std::string compiled_text() const override { return executable_.optimized_program().bytes; }
  std::map<std::string, double> cost_analysis() const override { return cost_of(executable_); }
  pjrt::CompiledMemoryStats memory_analysis() const override { return executable_.memory_stats(); }

 private:
  Lowered lowered_;
  AvalList out_avals_;
  const PJRT_Api* api_;
  pjrt::LoadedExecutable executable_;
};

struct Cache {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<Program>> programs;
  CacheStatistics statistics;
  std::uint32_t gang = 0;  // that the programs over meshes belong to

  void keep_to_this_gang() {
    if (std::exchange(gang, config::gang()) == config::gang()) return;
    std::erase_if(programs, [](auto& entry) { return entry.second->spans_mesh(); });
  }
};
Cache& cache() {
  static auto* c = new Cache;
  return *c;
}

}  // namespace

std::string lower(const ProgramRequest& request) { return lower_program(request).text; }

std::shared_ptr<Program> compile(const ProgramRequest& request) {
  distributed::PhaseScope phase("compiling jit(" + request.name + ")");
  Lowered lowered = lower_program(request);
  std::string key = lowered.key();
  Cache& c = cache();
  {
    std::lock_guard lock(c.mutex);
    c.keep_to_this_gang();
    if (auto it = c.programs.find(key); it != c.programs.end()) {
      ++c.statistics.shared;
      return it->second;
    }
  }
  AvalList outs;
  for (AvalP a : request.jaxpr->out_avals()) outs.push_back(a);
  AvalList ins = request.jaxpr->in_avals();
  std::shared_ptr<Program> made;
  if (lowered.mesh)
    made = compile_over_mesh(std::move(lowered), std::move(ins), std::move(outs));
  else
    made = std::make_shared<LocalProgram>(std::move(lowered), std::move(outs));
  std::lock_guard lock(c.mutex);
  c.keep_to_this_gang();
  ++c.statistics.compiled;
  return c.programs.try_emplace(std::move(key), made).first->second;
}

void clear_caches() {
  std::lock_guard lock(cache().mutex);
  cache().programs.clear();
}
CacheStatistics cache_statistics() {
  std::lock_guard lock(cache().mutex);
  return cache().statistics;
}

}  // namespace lockstep::compile

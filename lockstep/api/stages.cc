#include "lockstep/api/stages.h"

#include "lockstep/compile/program.h"
#include "lockstep/support/error.h"

namespace lockstep::internal {

struct CompiledCore::Data {
  compile::ProgramRequest request;
  std::shared_ptr<compile::Program> program;
};

CompiledCore::CompiledCore(std::shared_ptr<const JitTrace> trace, std::shared_ptr<const JitCore> core,
                           const JitCall& call, const std::vector<bool>& donated)
    : data_(std::make_shared<Data>()), trace_(std::move(trace)) {
  std::vector<const Sharding*> shardings;
  for (Value* v : call.leaves) {
    auto* c = runtime::as_concrete(v);
    shardings.push_back(c ? c->sharding() : nullptr);
  }
  data_->request = core->request(*trace_, shardings, donated);
}
std::string CompiledCore::lowered_text() const { return compile::lower(data_->request); }
void CompiledCore::compile() {
  auto compiled = std::make_shared<Data>(*data_);
  compiled->program = compile::compile(compiled->request);
  data_ = std::move(compiled);
}
Arrays CompiledCore::call(const JitCall& call) const {
  std::string operation = "compiled " + data_->request.name;
  const Jaxpr& j = *trace_->jaxpr;
  if (call.leaves.size() != j.invars.size())
    throw_error(ErrorCode::tree, operation, "takes {} arrays, {} were given", j.invars.size(), call.leaves.size());
  SmallVector<Value*, 32> values;
  for (auto& c : trace_->captured) values.push_back(c.value());
  for (std::size_t i = 0; i < call.leaves.size(); ++i) {
    AvalP want = j.vars[j.invars[i]], have = call.leaves[i]->aval();
    if (want->shape != have->shape || want->dtype != have->dtype)
      throw_error(ErrorCode::shape, operation,
                  "{} is {}, it was compiled for {}; call jit's function itself to compile anew",
                  i < trace_->names.size() ? trace_->names[i] : "an argument", have->text, want->text);
    values.push_back(call.leaves[i]);
  }
  std::vector<ValueRef> outs(j.outvars.size());
  data_->program->run(values, outs.data(), data_->request.where);
  Arrays out;
  for (auto& o : outs) out.emplace_back(std::move(o));
  return out;
}
std::string CompiledCore::compiled_text() const { return data_->program->compiled_text(); }
CostAnalysis CompiledCore::cost_analysis() const {
  CostAnalysis out;
  out.all = data_->program->cost_analysis();
  auto get = [&](const char* name) {
    auto it = out.all.find(name);
    return it == out.all.end() ? 0.0 : it->second;
  };
  out.flops = get("flops");
  out.bytes_accessed = get("bytes accessed");
  out.transcendentals = get("transcendentals");
  return out;
}
MemoryAnalysis CompiledCore::memory_analysis() const {
  auto m = data_->program->memory_analysis();
  return {m.arguments, m.outputs, m.aliased, m.temporaries, m.generated_code};
}

}  // namespace lockstep::internal

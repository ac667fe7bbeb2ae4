#include "lockstep/api/jit_core.h"

#include <fmt/format.h>

#include "lockstep/api/eval.h"
#include "lockstep/compile/program.h"
#include "lockstep/support/config.h"
#include "lockstep/support/log.h"
#include "lockstep/trace/trace.h"
#include "lockstep/transforms/call.h"

namespace lockstep::internal {
namespace {

const Sharding* sharding_of(Value* v) {
  auto* c = runtime::as_concrete(v);
  return c ? c->sharding() : nullptr;
}
std::size_t hash_avals(const JitCall& call) {
  std::size_t h = config::fingerprint();
  for (Value* v : call.leaves) h = h * 0x9e3779b97f4a7c15u + v->aval()->id;
  for (auto w : call.structure) h = h * 0x100000001b3u + w;
  return h;
}
bool any_tracer(const JitCall& call) {
  for (Value* v : call.leaves)
    if (v->kind() == Value::Kind::tracer) return true;
  return false;
}

}  // namespace

struct JitCore::TraceEntry {
  tree::Signature structure;
  std::vector<AvalP> avals;
  std::uint64_t config;
  std::shared_ptr<const JitTrace> trace;
  bool matches(const JitCall& call) const {
    if (avals.size() != call.leaves.size() || config != config::fingerprint() || !(structure == call.structure))
      return false;
    for (std::size_t i = 0; i < avals.size(); ++i)
      if (avals[i] != call.leaves[i]->aval()) return false;
    return true;
  }
};
struct JitCore::Entry : TraceEntry {
  std::vector<const Sharding*> shardings;
  std::shared_ptr<compile::Program> program;
  std::size_t num_outs = 0;
  bool matches(const JitCall& call) const {
    if (!TraceEntry::matches(call)) return false;
    for (std::size_t i = 0; i < avals.size(); ++i)
      if (shardings[i] != sharding_of(call.leaves[i])) return false;
    return true;
  }
};

JitCore::JitCore(JitSettings settings) : settings_(std::move(settings)) {}
JitCore::~JitCore() = default;

std::shared_ptr<const JitTrace> JitCore::trace(const JitCall& call, const TraceFunction& trace_function) {
  std::size_t h = hash_avals(call);
  {
    std::lock_guard lock(mutex_);
    auto [begin, end] = traces_.equal_range(h);
    for (auto it = begin; it != end; ++it)
      if (it->second->matches(call)) return it->second->trace;
  }
  auto entry = std::make_shared<TraceEntry>();
  entry->structure = call.structure;
  for (Value* v : call.leaves) entry->avals.push_back(v->aval());
  entry->config = config::fingerprint();
  auto made = std::make_shared<JitTrace>(trace_function(entry->avals));
  std::tie(made->closed, made->captured) = hoist_consts(made->jaxpr);
  entry->trace = made;
  bool captured_tracer = false;
  for (auto& c : made->captured) captured_tracer = captured_tracer || c.is_tracer();
  if (!captured_tracer) {
    std::lock_guard lock(mutex_);
    traces_.emplace(h, entry);
  }
  return made;
}

JitCore::Entry* JitCore::find(const JitCall& call, std::size_t hash) {
  auto [begin, end] = entries_.equal_range(hash);
  for (auto it = begin; it != end; ++it)
    if (it->second->matches(call)) return it->second.get();
  return nullptr;
}

const void* JitCore::call(const JitCall& call, const TraceFunction& trace_function,
                          const std::function<std::vector<bool>()>& donated, Arrays& outs) {
  if (is_staging() || any_tracer(call)) {
    auto t = trace(call, trace_function);
    Arrays args = t->captured;
    for (Value* v : call.leaves) args.emplace_back(ValueRef(v));
    outs = bind_many(jit_p, args, make_params(JitParams{settings_.name, t->closed}));
    return t->skeleton.get();
  }
  std::size_t h = hash_avals(call);
  Entry* entry;
  {
    std::lock_guard lock(mutex_);
    entry = find(call, h);
  }
  if (entry == nullptr) {
    auto made = std::make_shared<Entry>();
    made->trace = trace(call, trace_function);
    made->structure = call.structure;
    made->config = config::fingerprint();
    for (Value* v : call.leaves) {
      made->avals.push_back(v->aval());
      made->shardings.push_back(sharding_of(v));
    }
    auto request = this->request(*made->trace, made->shardings, donated());
    made->program = compile::compile(request);
    made->num_outs = made->trace->closed->outvars.size();
    log::debug("jit({}): compiled for {} leaves", settings_.name, call.leaves.size());
    std::lock_guard lock(mutex_);
    auto of_a_gang_left = [](auto& old) { return config::gang_of(old.second->config) != config::gang(); };
    std::erase_if(entries_, of_a_gang_left);
    std::erase_if(traces_, of_a_gang_left);
    latest_ = made;
    entry = entries_.emplace(h, std::move(made))->second.get();
  }
  SmallVector<Value*, 64> values;
  for (auto& c : entry->trace->captured) values.push_back(c.value());
  values.append(call.leaves.begin(), call.leaves.end());
  std::vector<ValueRef> results(entry->num_outs);
  entry->program->run(values, results.data(), settings_.where);
  outs.reserve(results.size());
  for (auto& r : results) outs.emplace_back(std::move(r));
  return entry->trace->skeleton.get();
}

compile::ProgramRequest JitCore::request(const JitTrace& trace, std::span<const Sharding* const> leaves,
                                         const std::vector<bool>& donated) const {
  LocationOverride scope(settings_.where);
  compile::ProgramRequest request;
  request.jaxpr = trace.closed;
  request.name = settings_.name;
  request.where = settings_.where;
  request.keep_unused = settings_.keep_unused;
  std::size_t num_captured = trace.captured.size();
  request.donated.assign(num_captured, false);
  request.donated.insert(request.donated.end(), donated.begin(), donated.end());
  for (auto& c : trace.captured) request.in.push_back(sharding_of(c.value()));
  request.in.insert(request.in.end(), leaves.begin(), leaves.end());
  std::string operation = "jit(" + settings_.name + ")";
  if (settings_.in_shardings.given()) {
    AvalList avals = trace.jaxpr->in_avals();
    auto wanted = settings_.in_shardings.resolve(trace.in_groups, avals, trace.names, operation, "in_shardings");
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) request.in[num_captured + i] = wanted[i];
  }
  if (settings_.out_shardings.given()) {
    AvalList avals = trace.jaxpr->out_avals();
    request.out = settings_.out_shardings.resolve(trace.out_groups, avals, {}, operation, "out_shardings");
  }
  return request;
}

std::size_t JitCore::cache_size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}
std::vector<CollectiveReport> JitCore::collectives() const {
  std::lock_guard lock(mutex_);
  return latest_ ? latest_->program->collectives() : std::vector<CollectiveReport>();
}
void JitCore::clear_cache() {
  std::lock_guard lock(mutex_);
  latest_ = nullptr;
  entries_.clear();
  traces_.clear();
}

std::string JitCore::explain(const JitCall& call, std::span<const std::string> names) const {
  std::lock_guard lock(mutex_);
  std::string head = "jit(" + settings_.name + "): ";
  const Entry* nearest = nullptr;
  std::size_t fewest = ~std::size_t{0};
  for (auto& [h, e] : entries_) {
    if (e->matches(call)) return head + "would not compile: the signature is cached";
    if (e->avals.size() != call.leaves.size()) continue;
    std::size_t differences = !(e->structure == call.structure);
    for (std::size_t i = 0; i < e->avals.size(); ++i) differences += e->avals[i] != call.leaves[i]->aval();
    if (differences < fewest) fewest = differences, nearest = e.get();
  }
  if (nearest == nullptr)
    return head + (entries_.empty() ? "would compile: nothing is cached yet"
                                    : "would compile: no cached signature has the same number of arrays");
  std::string text = head + fmt::format("would compile. Nearest of {} cached signature{} differs in", entries_.size(),
                                        entries_.size() == 1 ? "" : "s");
  if (!(nearest->structure == call.structure)) text += "\n  static values or sizes of containers";
  for (std::size_t i = 0; i < nearest->avals.size(); ++i) {
    AvalP now = call.leaves[i]->aval(), was = nearest->avals[i];
    if (now != was)
      text += fmt::format("\n  {}: {}{}, was {}{}", i < names.size() ? names[i] : "", now->text,
                          now->weak_type ? " (weak)" : "", was->text, was->weak_type ? " (weak)" : "");
    else if (nearest->shardings[i] != sharding_of(call.leaves[i]))
      text += fmt::format("\n  {}: its sharding", i < names.size() ? names[i] : "");
  }
  if (nearest->config != config::fingerprint()) text += "\n  configuration (jax_enable_x64 and the like)";
  return text;
}

}  // namespace lockstep::internal

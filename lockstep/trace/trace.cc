#include "lockstep/trace/trace.h"

#include <algorithm>

#include "lockstep/support/config.h"
#include "lockstep/support/error.h"

namespace lockstep {
namespace {

struct ThreadState {
  int levels = 0;
  Trace* dynamic = nullptr;  // the innermost open staging trace
  std::vector<NamedAxis> axes;
};
thread_local ThreadState state;
EvaluateFunction evaluate_function = nullptr;

const Tracer* as_tracer(const Array& a) { return a.is_tracer() ? static_cast<const Tracer*>(a.value()) : nullptr; }

}  // namespace

Trace::Trace(std::string what) : level_(++state.levels), tag_(std::make_shared<TraceTag>()) {
  tag_->what = std::move(what);
}
Trace::~Trace() {
  tag_->alive = false;
  --state.levels;
}

void check_alive(const Array& a) {
  const Tracer* t = as_tracer(a);
  if (t == nullptr || t->tag->alive) return;
  std::string made = to_string(t->where);
  throw_error(
      ErrorCode::escaped_tracer, t->tag->what,
      "a traced value ({}) made {}was used after the trace had ended. It was probably stored in a variable that "
      "outlives the function; return it from the function instead",
      t->aval()->text, made.empty() ? "" : "at " + made + " ");
}

Arrays bind_many(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) {
  Trace* top = state.dynamic;
  for (const Array& a : in) {
    if (const Tracer* t = as_tracer(a)) {
      if (!t->tag->alive) check_alive(a);
      if (top == nullptr || t->trace->level() > top->level()) top = t->trace;
    }
  }
  if (primitive.axis_names) {
    for (auto& name : primitive.axis_names(params.get()))
      for (auto it = state.axes.rbegin(); it != state.axes.rend(); ++it)
        if (it->name == name) {
          if (it->batch && (top == nullptr || it->batch->level() > top->level())) top = it->batch;
          break;
        }
  }
  if (top == nullptr) {
    LS_CHECK(evaluate_function != nullptr);
    return evaluate_function(primitive, in, params);
  }
  return top->process(primitive, in, params);
}
Array bind_one(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) {
  Arrays out = bind_many(primitive, in, params);
  return std::move(out[0]);
}

void set_evaluator(EvaluateFunction f) { evaluate_function = f; }
bool is_staging() { return state.dynamic != nullptr; }

JaxprTrace::JaxprTrace(std::string what, Mode mode) : Trace(std::move(what)), mode_(mode) {
  if (mode_ == Mode::staging) {
    outer_dynamic_ = state.dynamic;
    state.dynamic = this;
  }
}
JaxprTrace::~JaxprTrace() {
  if (mode_ == Mode::staging) state.dynamic = outer_dynamic_;
}
Array JaxprTrace::new_input(AvalP aval, std::string description) {
  if (description.empty()) description = "argument " + std::to_string(descriptions_.size());
  descriptions_.push_back(std::move(description));
  return Array(ValueRef(new JaxprTracer(*this, aval, builder_.add_invar(aval))));
}
bool JaxprTrace::owns(const Array& a) const {
  const Tracer* t = as_tracer(a);
  return t != nullptr && t->trace == this;
}
Atom JaxprTrace::atom(const Array& a) {
  Value* v = a.value();
  if (v->kind() == Value::Kind::scalar) return builder_.literal(v->aval(), static_cast<ScalarValue*>(v)->scalar);
  if (owns(a)) return static_cast<JaxprTracer*>(v)->var;
  check_alive(a);
  for (auto& [seen, var] : const_vars_)
    if (seen == v) return var;
  VarId var = builder_.add_constvar(v->aval());
  consts_.push_back(a.ref());
  const_vars_.emplace_back(v, var);
  return var;
}
Arrays JaxprTrace::process(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) {
  AvalList in_avals, out_avals;
  SmallVector<Atom, 8> atoms;
  for (const Array& a : in) {
    in_avals.push_back(a.aval());
    atoms.push_back(atom(a));
  }
  primitive.abstract_eval(params.get(), in_avals, out_avals);
  auto ids = builder_.add(primitive, params, atoms, out_avals, current_location());
  Arrays out;
  out.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) out.emplace_back(ValueRef(new JaxprTracer(*this, out_avals[i], ids[i])));
  return out;
}
std::vector<std::string> JaxprTrace::arguments_behind(VarId var) const {
  const Jaxpr& j = builder_.jaxpr();
  std::vector<bool> needed(j.num_vars());
  needed[var] = true;
  for (auto e = j.eqns.rbegin(); e != j.eqns.rend(); ++e) {
    auto outs = j.out(*e);
    if (std::none_of(outs.begin(), outs.end(), [&](VarId v) { return needed[v]; })) continue;
    for (Atom a : j.in(*e))
      if (!is_literal(a)) needed[a] = true;
  }
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < j.invars.size(); ++i)
    if (needed[j.invars[i]]) arguments.push_back(descriptions_[i]);
  return arguments;
}
ClosedJaxpr JaxprTrace::finish(std::span<const Array> outs, std::string name) {
  for (const Array& a : outs) builder_.jaxpr().outvars.push_back(atom(a));
  builder_.jaxpr().name = std::move(name);
  tag()->alive = false;
  ClosedJaxpr closed(builder_.finish(), std::move(consts_));
  if (config::enable_checks()) check_jaxpr(*closed);
  return closed;
}

namespace {

class JvpTracer final : public Tracer {
 public:
  JvpTracer(JvpTrace& trace, Array primal, Array tangent)
      : Tracer(trace, primal.aval()), primal(std::move(primal)), tangent(std::move(tangent)) {}
  Array underlying() const override { return primal; }
  const Array primal, tangent;
};
class BatchTracer final : public Tracer {
 public:
  BatchTracer(BatchTrace& trace, Array value, int dim)
      : Tracer(trace, with_shape(value.aval(), value.shape().without(dim))), value(std::move(value)), dim(dim) {}
  const Array value;
  const int dim;
};

}  // namespace

JvpTrace::JvpTrace(std::string what, JaxprTrace* linear) : Trace(std::move(what)), linear_(linear) {}
Array JvpTrace::dual(Array primal, Array tangent) {
  if (!tangent.has_value() || tangent.dtype() == DType::float0) return primal;
  return Array(ValueRef(new JvpTracer(*this, std::move(primal), std::move(tangent))));
}
std::pair<Array, Array> JvpTrace::split(const Array& a) const {
  const Tracer* t = as_tracer(a);
  if (t == nullptr || t->trace != this) return {a, Array()};
  auto* dual = static_cast<const JvpTracer*>(t);
  return {dual->primal, dual->tangent};
}
Arrays JvpTrace::process(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) {
  Arrays primals(in.size()), tangents(in.size());
  bool any = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::tie(primals[i], tangents[i]) = split(in[i]);
    any = any || tangents[i].has_value();
  }
  if (!any) return bind_many(primitive, primals, params);
  Arrays outs, out_tangents;
  if (linear_ != nullptr && primitive.linearize != nullptr) {
    auto out = primitive.linearize(params.get(), primals, tangents);
    outs = std::move(out.primals);
    out_tangents = std::move(out.tangents);
  } else if (primitive.jvp != nullptr) {
    auto out = primitive.jvp(params.get(), primals, tangents);
    outs = std::move(out.primals);
    out_tangents = std::move(out.tangents);
  } else {
    throw_error(ErrorCode::missing_rule, primitive.name, "has no differentiation rule (jvp), needed by {}",
                tag()->what);
  }
  LS_CHECK(outs.size() == out_tangents.size(), "{}", primitive.name);
  for (std::size_t i = 0; i < outs.size(); ++i) outs[i] = dual(std::move(outs[i]), std::move(out_tangents[i]));
  return outs;
}

BatchTrace::BatchTrace(std::string what, std::int64_t size, std::string axis_name)
    : Trace(std::move(what)), size_(size), axis_name_(std::move(axis_name)) {
  if (!axis_name_.empty()) state.axes.push_back({axis_name_, size_, this});
}
BatchTrace::~BatchTrace() {
  if (!axis_name_.empty()) state.axes.pop_back();
}
Array BatchTrace::batched(Array value, int dim) {
  if (dim == kNotMapped) return value;
  return Array(ValueRef(new BatchTracer(*this, std::move(value), dim)));
}
std::pair<Array, int> BatchTrace::split(const Array& a) const {
  const Tracer* t = as_tracer(a);
  if (t == nullptr || t->trace != this) return {a, kNotMapped};
  auto* batched = static_cast<const BatchTracer*>(t);
  return {batched->value, batched->dim};
}
Arrays BatchTrace::process(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) {
  Arrays values(in.size());
  std::vector<int> dims(in.size());
  bool any = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::tie(values[i], dims[i]) = split(in[i]);
    any = any || dims[i] != kNotMapped;
  }
  if (!any && primitive.axis_names == nullptr) return bind_many(primitive, values, params);
  if (primitive.batch == nullptr)
    throw_error(ErrorCode::missing_rule, primitive.name, "has no batching rule, needed by {}", tag()->what);
  BatchOut out = primitive.batch(params.get(), {size_, axis_name_, values, dims});
  LS_CHECK(out.outs.size() == out.dims.size(), "{}", primitive.name);
  for (std::size_t i = 0; i < out.outs.size(); ++i) out.outs[i] = batched(std::move(out.outs[i]), out.dims[i]);
  return std::move(out.outs);
}

AxisScope::AxisScope(std::vector<NamedAxis> axes) : count_(axes.size()) {
  for (auto& a : axes) state.axes.push_back(std::move(a));
}
AxisScope::~AxisScope() { state.axes.resize(state.axes.size() - count_); }
const NamedAxis& find_axis(const std::string& operation, const std::string& name) {
  std::string known;
  for (auto it = state.axes.rbegin(); it != state.axes.rend(); ++it) {
    if (it->name == name) return *it;
    known += (known.empty() ? "" : ", ") + it->name;
  }
  throw_error(ErrorCode::axis, operation,
              "axis name \"{}\" is not bound here; {}. Bind it with vmap's axis_name or shard_map", name,
              known.empty() ? "no axis is" : "bound are " + known);
}
std::vector<NamedAxis> axes_in_scope() { return state.axes; }

ClosedJaxpr trace_to_jaxpr(const FlatFunction& f, std::span<const AvalP> in, std::string what,
                           std::span<const std::string> descriptions) {
  JaxprTrace trace(what, JaxprTrace::Mode::staging);
  Arrays args;
  args.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i)
    args.push_back(trace.new_input(in[i], i < descriptions.size() ? descriptions[i] : std::string()));
  Arrays outs = f(args);
  return trace.finish(outs, std::move(what));
}

Arrays eval_jaxpr(const Jaxpr& j, std::span<const Array> consts, std::span<const Array> args) {
  LS_CHECK(consts.size() == j.constvars.size() && args.size() == j.invars.size());
  Arrays env(j.num_vars());
  auto read = [&](Atom a) {
    if (!is_literal(a)) return env[a];
    auto& l = j.literals[~a];
    return Array(ValueRef(new ScalarValue(l.value, l.aval->weak_type)));
  };
  for (std::size_t i = 0; i < consts.size(); ++i) env[j.constvars[i]] = consts[i];
  for (std::size_t i = 0; i < args.size(); ++i) env[j.invars[i]] = args[i];
  Arrays in;
  for (const Eqn& e : j.eqns) {
    in.clear();
    for (Atom a : j.in(e)) in.push_back(read(a));
    LocationOverride where(e.where);
    Arrays out = bind_many(*e.primitive, in, e.params);
    for (std::size_t i = 0; i < out.size(); ++i) env[j.out(e)[i]] = std::move(out[i]);
  }
  Arrays outs;
  outs.reserve(j.outvars.size());
  for (Atom a : j.outvars) outs.push_back(read(a));
  return outs;
}
Arrays eval_jaxpr(const ClosedJaxpr& j, std::span<const Array> args) {
  Arrays consts;
  consts.reserve(j.consts->size());
  for (auto& c : *j.consts) consts.emplace_back(c);
  return eval_jaxpr(*j, consts, args);
}
std::pair<ClosedJaxpr, Arrays> hoist_consts(const ClosedJaxpr& j) {
  if (j->constvars.empty()) return {j, {}};
  auto copy = std::make_shared<Jaxpr>(*j);
  copy->invars.insert(copy->invars.begin(), copy->constvars.begin(), copy->constvars.end());
  copy->constvars.clear();
  Arrays values;
  for (auto& c : *j.consts) values.emplace_back(c);
  return {ClosedJaxpr(std::move(copy)), std::move(values)};
}

}  // namespace lockstep

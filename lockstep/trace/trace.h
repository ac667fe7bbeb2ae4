// Traces and bind.
//
// A trace is an interpreter of primitives with a level. bind() hands an equation to the trace of the highest level
// among its operands' tracers, or to the innermost staging trace if that is higher (under jit everything is recorded,
// as in JAX); with neither, it is evaluated at once. There are three kinds: JaxprTrace records, JvpTrace carries
// tangents, BatchTrace carries a mapped axis. Everything else (grad, vjp, linearize, the transformations of jaxprs) is
// made of these, eval_jaxpr and trace_to_jaxpr.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/jaxpr.h"
#include "lockstep/trace/array.h"
#include "lockstep/trace/rules.h"

namespace lockstep {

Arrays bind_many(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params = {});
// The only result of a primitive that has one.
Array bind_one(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params = {});
inline Array bind_one(const Primitive& primitive, std::initializer_list<Array> in, const ParamsRef& params = {}) {
  return bind_one(primitive, std::span<const Array>(in.begin(), in.size()), params);
}

// Outlives its trace in every tracer made by it, so that an escaped tracer is told from a live one.
struct TraceTag {
  std::string what;  // "jit(step)", "grad(loss)"
  bool alive = true;
};

class Trace {
 public:
  explicit Trace(std::string what);
  virtual ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  virtual Arrays process(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) = 0;
  int level() const { return level_; }
  const std::shared_ptr<TraceTag>& tag() const { return tag_; }

 private:
  int level_;
  std::shared_ptr<TraceTag> tag_;
};

class Tracer : public Value {
 public:
  Tracer(Trace& trace, AvalP aval) : Value(Kind::tracer, aval), trace(&trace), tag(trace.tag()) {}
  // The value itself where the trace only adds to it (the primal of a dual); else empty.
  virtual Array underlying() const { return {}; }

  Trace* const trace;  // valid while tag->alive
  const std::shared_ptr<TraceTag> tag;
  LocationId where = current_location();
};

// Throws Error(escaped_tracer) if the value is a tracer of a trace that has ended.
void check_alive(const Array& a);
// The array below the transformations that leave its value known: concrete, or a number on the host. Errors on behalf
// of `operation`: concretization if it is not known, which names the arguments that it depends on; invalid_argument if
// the array is empty.
Array known_value(const Array& a, const char* operation);

// Records equations. While a staging JaxprTrace is open, equations without tracers are recorded too.
class JaxprTrace final : public Trace {
 public:
  enum class Mode { staging, linear };
  JaxprTrace(std::string what, Mode mode);
  ~JaxprTrace() override;

  // `description` names the argument in messages ("argument 0, field w1").
  Array new_input(AvalP aval, std::string description = {});
  Arrays process(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) override;
  // The atom of any value: a variable of this trace, a literal for a host number, a constant for all else.
  Atom atom(const Array& a);
  bool owns(const Array& a) const;
  // The descriptions of the arguments that a variable is computed from, in order.
  std::vector<std::string> arguments_behind(VarId var) const;
  // Ends the recording. Its constants' values are in the result's consts, in order.
  ClosedJaxpr finish(std::span<const Array> outs, std::string name = {});

 private:
  JaxprBuilder builder_;
  Mode mode_;
  Trace* outer_dynamic_ = nullptr;
  std::vector<ValueRef> consts_;
  std::vector<std::pair<const Value*, VarId>> const_vars_;
  std::vector<std::string> descriptions_;  // of the inputs
};

class JaxprTracer final : public Tracer {
 public:
  JaxprTracer(JaxprTrace& trace, AvalP aval, VarId var) : Tracer(trace, aval), var(var) {}
  const VarId var;
};

// Carries tangents forward. With `linear`, tangents are tracers of that trace, and primitives with a linearize rule use
// it.
class JvpTrace final : public Trace {
 public:
  JvpTrace(std::string what, JaxprTrace* linear);
  Array dual(Array primal, Array tangent);  // the primal itself if the tangent is null
  std::pair<Array, Array> split(const Array& a) const;
  Arrays process(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) override;

 private:
  JaxprTrace* linear_;
};

class BatchTrace final : public Trace {
 public:
  BatchTrace(std::string what, std::int64_t size, std::string axis_name);
  ~BatchTrace() override;
  Array batched(Array value, int dim);  // the value itself if dim is kNotMapped
  std::pair<Array, int> split(const Array& a) const;
  Arrays process(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params) override;
  std::int64_t size() const { return size_; }

 private:
  std::int64_t size_;
  std::string axis_name_;
};

// Named axes in scope: bound by vmap (a BatchTrace), by shard_map, or declared while a jaxpr that uses them is
// rewritten.
struct NamedAxis {
  std::string name;
  std::int64_t size;
  BatchTrace* batch;  // null for a mesh axis
};
class AxisScope {
 public:
  explicit AxisScope(std::vector<NamedAxis> axes);
  ~AxisScope();
  AxisScope(const AxisScope&) = delete;
  AxisScope& operator=(const AxisScope&) = delete;

 private:
  std::size_t count_;
};
// Throws Error(axis) with the names in scope if it is not bound.
const NamedAxis& find_axis(const std::string& operation, const std::string& name);
std::vector<NamedAxis> axes_in_scope();

using FlatFunction = std::function<Arrays(std::span<const Array>)>;

// Traces a function of flat arrays. Values it captured are the result's consts (tracers among them where an outer
// transformation is open).
ClosedJaxpr trace_to_jaxpr(const FlatFunction& f, std::span<const AvalP> in, std::string what,
                           std::span<const std::string> descriptions = {});
// Runs the equations through bind, each with its own location.
Arrays eval_jaxpr(const ClosedJaxpr& j, std::span<const Array> args);
Arrays eval_jaxpr(const Jaxpr& j, std::span<const Array> consts, std::span<const Array> args);
// The consts as leading inputs instead: a jaxpr without consts, and their values.
std::pair<ClosedJaxpr, Arrays> hoist_consts(const ClosedJaxpr& j);

// True while a staging trace is open on this thread: values may be unknown.
bool is_staging();

// What bind does when there is nothing to trace: runs one equation (installed by the eager evaluator in api/).
using EvaluateFunction = Arrays (*)(const Primitive& primitive, std::span<const Array> in, const ParamsRef& params);
void set_evaluator(EvaluateFunction f);

}  // namespace lockstep

#include "lockstep/ops/iterative.h"

#include <limits>

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/support/error.h"

namespace lockstep::iterative {

Expr number(In like, double v) { return {scalar_like(like.a, v)}; }
Expr fill(In like, double v) { return {full(like.a.aval(), Scalar(v, DType::float64))}; }
Expr where(In condition, In yes, In no) { return {lax::select(condition.a, yes.a, no.a)}; }
Expr any(In condition) {
  Ints axes;
  for (int i = 0; i < condition.a.ndim(); ++i) axes.push_back(i);
  return axes.empty() ? condition : Expr{lax::reduce_or(condition.a, axes)};
}

double epsilon(DType t) {
  return t == DType::float64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}
double smallest(DType t) {
  return t == DType::float64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
}
double largest(DType t) {
  return t == DType::float64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}

namespace {

ClosedJaxpr traced(const Function& f, const NamedList& in) {
  AvalList avals;
  for (auto& n : in) avals.push_back(n.aval);
  return trace_to_jaxpr(
      [&f](std::span<const Array> args) {
        Exprs values;
        for (const Array& a : args) values.push_back({a});
        Arrays out;
        for (auto& v : f(values)) out.push_back(v.a);
        return out;
      },
      avals, "iterative");
}
std::vector<std::string> names_of(const NamedList& list) {
  std::vector<std::string> out;
  for (auto& n : list) out.push_back(n.name);
  return out;
}

}  // namespace

NamedList emit(LowerContext& ctx, const Function& f, const NamedList& in) {
  auto jaxpr = traced(f, in);
  auto names = ctx.inline_jaxpr(jaxpr, names_of(in));
  AvalList avals = jaxpr->out_avals();
  NamedList out;
  for (std::size_t i = 0; i < names.size(); ++i) out.push_back({names[i], avals[i]});
  return out;
}
NamedList emit_while(LowerContext& ctx, const Function& condition, const Function& body, const NamedList& init) {
  std::string bindings, types;
  NamedList state;
  for (auto& n : init) {
    state.push_back({ctx.fresh(), n.aval});
    bindings += (bindings.empty() ? "" : ", ") + state.back().name + " = " + n.name;
    types += (types.empty() ? "" : ", ") + n.aval->mlir;
  }
  ctx.begin_region();
  ctx.line("stablehlo.return " + emit(ctx, condition, state)[0].name + " : tensor<i1>");
  std::string condition_text = ctx.end_region();
  ctx.begin_region();
  std::string results;
  for (auto& n : emit(ctx, body, state)) results += (results.empty() ? "" : ", ") + n.name;
  ctx.line("stablehlo.return " + results + " : " + types);
  std::string body_text = ctx.end_region();
  auto names = ctx.emit_many(init.size(), "stablehlo.while(" + bindings + ") : " + types + "\n    cond {\n" +
                                              condition_text + "    } do {\n" + body_text + "    }");
  NamedList out;
  for (std::size_t i = 0; i < names.size(); ++i) out.push_back({names[i], init[i].aval});
  return out;
}

void lower_float_function(LowerContext& ctx, std::span<const AvalP> in_avals, AvalP out_aval,
                          std::span<const std::string> in, std::vector<std::string>& out,
                          const std::function<Named(LowerContext&, const NamedList&)>& f) {
  AvalP computed = itemsize(out_aval->dtype) >= 4 ? make_aval(out_aval->shape, out_aval->dtype)
                                                  : make_aval(out_aval->shape, DType::float32);
  NamedList operands;
  for (std::size_t i = 0; i < in.size(); ++i) {
    std::string x = ctx.broadcast_to(in[i], in_avals[i], out_aval);
    operands.push_back({ctx.convert(x, with_dtype(computed, out_aval->dtype), computed), computed});
  }
  Named result = f(ctx, operands);
  out.push_back(ctx.convert(result.name, computed, out_aval));
}

}  // namespace lockstep::iterative

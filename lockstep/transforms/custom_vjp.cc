// custom_vjp_call and checkpoint.
#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/core/printer.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/batching.h"
#include "lockstep/transforms/call.h"

namespace lockstep {
namespace {

// custom_lin: a linear map known only by its transpose. Operands: residuals, then tangents; results: tangents.
struct CustomLinParams {
  std::string name;
  Hidden<FlatVjpRule> rule;
  int num_residuals;
  Hidden<std::vector<AvalP>> out_avals;
};
extern const Primitive custom_lin_p;

void custom_lin_abstract_eval(const Params* p, std::span<const AvalP>, AvalList& out) {
  for (AvalP a : *p->get<CustomLinParams>().out_avals.value) out.push_back(a);
}
std::vector<Array> custom_lin_transpose(const Params* p, std::span<const Array> cts, std::span<const TransposeIn> in) {
  const auto& params = p->get<CustomLinParams>();
  Arrays residuals, full;
  for (int i = 0; i < params.num_residuals; ++i) residuals.push_back(in[static_cast<std::size_t>(i)].value);
  for (std::size_t i = 0; i < cts.size(); ++i) full.push_back(instantiate_zeros(cts[i], (*params.out_avals.value)[i]));
  Arrays out;
  {
    UserCode scope;
    out = params.rule.value->bwd(residuals, full);
  }
  Arrays result(in.size());
  std::size_t n = in.size() - residuals.size();
  if (out.size() != n)
    throw_error(ErrorCode::tree, params.name, "the bwd rule gave {} cotangents for {} arguments", out.size(), n);
  for (std::size_t i = 0; i < n; ++i) {
    if (!out[i].has_value()) continue;
    AvalP want = in[residuals.size() + i].aval;
    if (out[i].shape() != want->shape)
      throw_error(ErrorCode::shape, params.name, "the bwd rule gave a cotangent {} for an argument {}",
                  out[i].aval()->text, want->text);
    result[residuals.size() + i] = convert(out[i], want->dtype);
  }
  return result;
}
[[noreturn]] void refuse_forward(const std::string& name) {
  throw_error(
      ErrorCode::missing_rule, name,
      "forward-mode differentiation (jvp) does not apply to a function with a custom_vjp rule; give it a custom_jvp "
      "rule, or use reverse mode");
}
void custom_lin_lower(LowerContext&, const Params* p, std::span<const AvalP>, std::span<const AvalP>,
                      std::span<const std::string>, std::vector<std::string>&) {
  refuse_forward(p->get<CustomLinParams>().name);
}
BatchOut custom_lin_batch(const Params* p, const BatchIn& in) {
  const auto& params = p->get<CustomLinParams>();
  auto rule = params.rule.value;
  std::size_t num_res = static_cast<std::size_t>(params.num_residuals), n = in.args.size();
  std::vector<bool> res_mapped;
  for (std::size_t i = 0; i < num_res; ++i) res_mapped.push_back(in.dims[i] != kNotMapped);
  auto batched = std::make_shared<FlatVjpRule>();
  batched->bwd = [rule, res_mapped, size = in.size, axis = in.axis_name, name = params.name](
                     std::span<const Array> residuals, std::span<const Array> cts) {
    Arrays args = concat({residuals, cts});
    std::vector<int> dims = dims_of(res_mapped);
    dims.resize(args.size(), 0);
    std::vector<bool> present;
    auto out = batch_flat(
        [&](std::span<const Array> a) {
          Arrays r = rule->bwd(a.first(residuals.size()), a.subspan(residuals.size()));
          present = nonzero(r);
          return select_nonnull(r);
        },
        args, dims, size, axis, "vmap(" + name + ")");
    Arrays result(present.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < present.size(); ++i)
      if (present[i]) {
        result[i] = batch_axis_at_front(out.outs[next], out.dims[next], size);
        ++next;
      }
    return result;
  };
  std::vector<bool> force(n, true);
  for (std::size_t i = 0; i < num_res; ++i) force[i] = false;
  auto avals = std::make_shared<std::vector<AvalP>>();
  for (AvalP a : *params.out_avals.value) avals->push_back(with_shape(a, a->shape.with(0, in.size)));
  Arrays outs = bind_many(custom_lin_p, bdims_at_front(in, force),
                          make_params(CustomLinParams{params.name, {batched}, params.num_residuals, {avals}}));
  std::vector<int> dims(outs.size(), 0);
  return {std::move(outs), std::move(dims)};
}

void custom_vjp_abstract_eval(const Params* p, std::span<const AvalP>, AvalList& out) {
  out = p->get<CustomVjpParams>().call_jaxpr->out_avals();
}
JvpOut custom_vjp_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& params = p->get<CustomVjpParams>();
  std::size_t n = primals.size() - static_cast<std::size_t>(params.num_captured);
  for (std::size_t i = n; i < primals.size(); ++i)
    if (tangents[i].has_value())
      throw_error(ErrorCode::invalid_argument, params.name,
                  "a function with a custom_vjp rule captured a value that is being differentiated; pass it as an "
                  "argument instead");
  auto [outs, residuals] = [&] {
    UserCode scope;
    return params.rule.value->fwd(primals.first(n));
  }();
  Arrays operands = residuals;
  for (std::size_t i = 0; i < n; ++i) {
    AvalP t = tangent_aval(primals[i].aval());
    operands.push_back(t->dtype == DType::float0 ? scalar(Scalar(false), DType::bool_)
                                                 : instantiate_zeros(tangents[i], t));
  }
  auto avals = std::make_shared<std::vector<AvalP>>();
  std::vector<bool> active;
  for (auto& o : outs) {
    active.push_back(is_inexact(o.dtype()));
    if (active.back()) avals->push_back(strong(o.aval()));
  }
  // bwd gets a cotangent for every result; those of integers are zeros of bool.
  auto rule = params.rule.value;
  auto full = std::make_shared<FlatVjpRule>();
  full->bwd = [rule, active, out_avals = avals](std::span<const Array> res, std::span<const Array> cts) {
    Arrays all;
    std::size_t next = 0;
    for (bool a : active) all.push_back(a ? cts[next++] : Array());
    return rule->bwd(res, all);
  };
  Arrays ts = bind_many(custom_lin_p, operands,
                        make_params(CustomLinParams{params.name, {full}, static_cast<int>(residuals.size()), {avals}}));
  JvpOut out{std::move(outs), {}};
  std::size_t next = 0;
  for (bool a : active) out.tangents.push_back(a ? ts[next++] : Array());
  return out;
}
BatchOut custom_vjp_batch(const Params* p, const BatchIn& in) {
  const auto& params = p->get<CustomVjpParams>();
  auto t = batch_jaxpr(params.call_jaxpr, mapped(in), {}, in.size, in.axis_name);
  std::size_t n = in.args.size() - static_cast<std::size_t>(params.num_captured);
  std::vector<bool> in_mapped = mapped(in);
  in_mapped.resize(n);
  auto rule = params.rule.value;
  auto batched = std::make_shared<FlatVjpRule>();
  // Both halves are mapped; cotangents of arguments that were not mapped are summed over the axis.
  auto residual_dims = std::make_shared<std::vector<bool>>();
  std::size_t num_outs = t.mapped_out.size();
  batched->fwd = [=, out_mapped = t.mapped_out, size = in.size, axis = in.axis_name,
                  name = params.name](std::span<const Array> primals) {
    auto out = batch_flat(
        [&](std::span<const Array> a) {
          auto [outs, res] = rule->fwd(a);
          return concat({outs, res});
        },
        primals, dims_of(in_mapped), size, axis, "vmap(" + name + ")");
    Arrays outs, residuals;
    residual_dims->clear();
    for (std::size_t i = 0; i < out.outs.size(); ++i) {
      bool is_mapped = i < num_outs ? out_mapped[i] : out.dims[i] != kNotMapped;
      Array v = is_mapped ? batch_axis_at_front(out.outs[i], out.dims[i], size) : out.outs[i];
      if (i >= num_outs) residual_dims->push_back(is_mapped);
      (i < num_outs ? outs : residuals).push_back(std::move(v));
    }
    return std::pair{outs, residuals};
  };
  batched->bwd = [=, out_mapped = t.mapped_out, size = in.size, axis = in.axis_name, name = params.name](
                     std::span<const Array> residuals, std::span<const Array> cts) {
    std::vector<bool> ct_present = nonzero(cts), present;
    Arrays args = concat({residuals, select_nonnull(cts)});
    std::vector<int> dims = dims_of(*residual_dims);
    for (std::size_t i = 0; i < cts.size(); ++i)
      if (ct_present[i]) dims.push_back(out_mapped[i] ? 0 : kNotMapped);
    auto out = batch_flat(
        [&](std::span<const Array> a) {
          Arrays full(ct_present.size());
          std::size_t next = residuals.size();
          for (std::size_t i = 0; i < full.size(); ++i)
            if (ct_present[i]) full[i] = a[next++];
          Arrays r = rule->bwd(a.first(residuals.size()), full);
          present = nonzero(r);
          return select_nonnull(r);
        },
        args, dims, size, axis, "vmap(" + name + ")");
    Arrays result(present.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < present.size(); ++i) {
      if (!present[i]) continue;
      Array v = batch_axis_at_front(out.outs[next], out.dims[next], size);
      ++next;
      result[i] = in_mapped[i] ? v : lax::reduce_sum(v, {0});
    }
    return result;
  };
  int captured = params.num_captured + static_cast<int>(t.captured.size());
  Arrays args = concat({bdims_at_front(in), t.captured});
  ClosedJaxpr call = t.jaxpr;
  if (!t.captured.empty()) {
    auto copy = std::make_shared<Jaxpr>(*t.jaxpr);
    std::rotate(copy->invars.begin(), copy->invars.begin() + static_cast<std::ptrdiff_t>(t.captured.size()),
                copy->invars.end());
    call = ClosedJaxpr(std::move(copy));
  }
  return {bind_many(custom_vjp_call_p, args, make_params(CustomVjpParams{params.name, call, {batched}, captured})),
          dims_of(t.mapped_out)};
}
void custom_vjp_lower(LowerContext& ctx, const Params* p, std::span<const AvalP>, std::span<const AvalP>,
                      std::span<const std::string> in, std::vector<std::string>& out) {
  out = ctx.inline_jaxpr(p->get<CustomVjpParams>().call_jaxpr, in);
}
void print_custom_vjp(Printer& p, const Params* params) {
  const auto& v = params->get<CustomVjpParams>();
  p.text += "name=" + v.name + "\x01" +
            "bwd=<rule>\x01"
            "call_jaxpr=";
  p.print(v.call_jaxpr, p.indent());
  p.text +=
      "\x01"
      "fwd=<rule>\x01num_consts=0\x01symbolic_zeros=False";
}

LOCKSTEP_PRIMITIVE(custom_lin_p, {.name = "custom_lin",
                                  .abstract_eval = custom_lin_abstract_eval,
                                  .transpose = custom_lin_transpose,
                                  .batch = custom_lin_batch,
                                  .lower = custom_lin_lower,
                                  .multiple_results = true});

}  // namespace

LOCKSTEP_PRIMITIVE(custom_vjp_call_p, {.name = "custom_vjp_call",
                                       .abstract_eval = custom_vjp_abstract_eval,
                                       .jvp = custom_vjp_jvp,
                                       .batch = custom_vjp_batch,
                                       .lower = custom_vjp_lower,
                                       .multiple_results = true,
                                       .print = print_custom_vjp});

Arrays bind_custom_vjp(const FlatFunction& f, std::shared_ptr<FlatVjpRule> rule, std::span<const Array> args,
                       const std::string& name) {
  AvalList avals;
  for (auto& a : args) avals.push_back(a.aval());
  auto [closed, captured] = hoist_consts(trace_to_jaxpr(f, avals, name));
  if (!captured.empty()) {
    auto copy = std::make_shared<Jaxpr>(*closed);
    std::rotate(copy->invars.begin(), copy->invars.end() - static_cast<std::ptrdiff_t>(args.size()),
                copy->invars.end());
    closed = ClosedJaxpr(std::move(copy));
  }
  return bind_many(custom_vjp_call_p, concat({args, captured}),
                   make_params(CustomVjpParams{name, closed, {std::move(rule)}, static_cast<int>(captured.size())}));
}

// checkpoint. Its tangent is a checkpoint too, of the linearised function: (primals, tangents) -> tangents. Transposing
// that runs the equations on primals again, which is the recomputation.
namespace {

void checkpoint_abstract_eval(const Params* p, std::span<const AvalP>, AvalList& out) {
  out = p->get<CheckpointParams>().jaxpr->out_avals();
}
Arrays call_checkpoint(const Transformed& t, CheckpointParams params, bool differentiated,
                       std::span<const Array> args) {
  params.jaxpr = t.jaxpr;
  params.differentiated = params.differentiated || differentiated;
  return bind_many(checkpoint_p, concat({t.captured, args}), make_params(std::move(params)));
}
JvpOut checkpoint_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& params = p->get<CheckpointParams>();
  auto t = jvp_jaxpr(params.jaxpr, nonzero(tangents));
  Arrays outs = call_checkpoint(t, params, false, concat({primals, select_nonnull(tangents)}));
  std::size_t n = t.nonzero_out.size(), next = n;
  JvpOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n)), Arrays(n)};
  for (std::size_t i = 0; i < n; ++i)
    if (t.nonzero_out[i]) out.tangents[i] = outs[next++];
  return out;
}
LinearizeOut checkpoint_linearize(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& params = p->get<CheckpointParams>();
  std::vector<bool> active = nonzero(tangents), nonzero_out;
  AvalList avals;
  for (auto& x : primals) avals.push_back(x.aval());
  for (auto& t : tangents)
    if (t.has_value()) avals.push_back(t.aval());
  auto traced = trace_to_jaxpr(
      [&](std::span<const Array> args) {
        auto lin = linearize_flat([&](std::span<const Array> a) { return eval_jaxpr(params.jaxpr, a); },
                                  args.first(primals.size()), active, "checkpoint");
        nonzero_out = lin.nonzero_out;
        return eval_jaxpr(lin.linear, args.subspan(primals.size()));
      },
      avals, "checkpoint");
  Transformed t;
  std::tie(t.jaxpr, t.captured) = hoist_consts(traced);
  LinearizeOut out{bind_many(checkpoint_p, primals, ParamsRef(p)), Arrays(nonzero_out.size())};
  Arrays ts = call_checkpoint(t, params, true, concat({primals, select_nonnull(tangents)}));
  std::size_t next = 0;
  for (std::size_t i = 0; i < nonzero_out.size(); ++i)
    if (nonzero_out[i]) out.tangents[i] = ts[next++];
  return out;
}
std::vector<Array> checkpoint_transpose(const Params* p, std::span<const Array> cts, std::span<const TransposeIn> in) {
  const auto& params = p->get<CheckpointParams>();
  std::vector<bool> linear;
  Arrays known;
  for (auto& x : in) {
    linear.push_back(x.linear());
    if (!x.linear()) known.push_back(x.value);
  }
  auto t = transpose_jaxpr(params.jaxpr, linear, nonzero(cts));
  Arrays outs = call_checkpoint(t, params, true, concat({known, select_nonnull(cts)})), result(in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (linear[i]) result[i] = outs[next++];
  return result;
}
BatchOut checkpoint_batch(const Params* p, const BatchIn& in) {
  const auto& params = p->get<CheckpointParams>();
  auto t = batch_jaxpr(params.jaxpr, mapped(in), {}, in.size, in.axis_name);
  return {call_checkpoint(t, params, false, bdims_at_front(in)), dims_of(t.mapped_out)};
}
void checkpoint_lower(LowerContext& ctx, const Params* p, std::span<const AvalP> ins, std::span<const AvalP>,
                      std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& params = p->get<CheckpointParams>();
  std::vector<std::string> args(in.begin(), in.end());
  if (params.prevent_cse && params.differentiated && !args.empty()) {
    std::string operands, types;
    for (std::size_t i = 0; i < args.size(); ++i) {
      operands += (i ? ", " : "") + args[i];
      types += (i ? ", " : "") + ins[i]->mlir;
    }
    args = ctx.emit_many(args.size(), "stablehlo.optimization_barrier " + operands + " : " + types);
  }
  out = ctx.inline_jaxpr(params.jaxpr, args);
}

}  // namespace

Arrays bind_checkpoint(const FlatFunction& f, std::span<const Array> args, bool prevent_cse, const std::string& name) {
  AvalList avals;
  for (auto& a : args) avals.push_back(a.aval());
  auto [closed, captured] = hoist_consts(trace_to_jaxpr(f, avals, name));
  return bind_many(checkpoint_p, concat({captured, args}),
                   make_params(CheckpointParams{closed, prevent_cse, false, {}}));
}

LOCKSTEP_PRIMITIVE(checkpoint_p, {.name = "checkpoint",
                                  .abstract_eval = checkpoint_abstract_eval,
                                  .jvp = checkpoint_jvp,
                                  .linearize = checkpoint_linearize,
                                  .transpose = checkpoint_transpose,
                                  .batch = checkpoint_batch,
                                  .lower = checkpoint_lower,
                                  .multiple_results = true});

}  // namespace lockstep

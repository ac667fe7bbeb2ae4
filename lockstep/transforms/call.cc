#include "lockstep/transforms/call.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/core/printer.h"
#include "lockstep/lower/context.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/batching.h"

namespace lockstep {
namespace {

const ClosedJaxpr& jaxpr_of(const Params* p) { return p->get<JitParams>().jaxpr; }

void call_abstract_eval(const Params* p, std::span<const AvalP>, AvalList& out) { out = jaxpr_of(p)->out_avals(); }

Arrays call(const Transformed& t, const std::string& name, std::span<const Array> args) {
  Arrays all = concat({t.captured, args});
  return bind_many(jit_p, all, make_params(JitParams{name, t.jaxpr}));
}
Arrays call(const ClosedJaxpr& j, const std::string& name, std::span<const Array> args) {
  return bind_many(jit_p, args, make_params(JitParams{name, j}));
}

JvpOut call_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& params = p->get<JitParams>();
  auto t = jvp_jaxpr(params.jaxpr, nonzero(tangents));
  Arrays outs = call(t, params.name, concat({primals, select_nonnull(tangents)}));
  std::size_t n = t.nonzero_out.size(), next = n;
  JvpOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n)), Arrays(n)};
  for (std::size_t i = 0; i < n; ++i)
    if (t.nonzero_out[i]) out.tangents[i] = outs[next++];
  return out;
}

LinearizeOut call_linearize(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& params = p->get<JitParams>();
  auto lin = linearize_jaxpr(params.jaxpr, nonzero(tangents));
  Arrays outs = call(lin.primal, params.name, primals);
  std::size_t n = lin.nonzero_out.size();
  Arrays residuals(outs.begin() + static_cast<std::ptrdiff_t>(n), outs.end());
  for (std::size_t i = 0; i < residuals.size(); ++i)
    if (lin.residual_is_input[i] >= 0) residuals[i] = primals[static_cast<std::size_t>(lin.residual_is_input[i])];
  LinearizeOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n)), Arrays(n)};
  Arrays out_tangents = call(lin.tangent, params.name, concat({residuals, select_nonnull(tangents)}));
  std::size_t next = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (lin.nonzero_out[i]) out.tangents[i] = out_tangents[next++];
  return out;
}

std::vector<Array> call_transpose(const Params* p, std::span<const Array> cts, std::span<const TransposeIn> in) {
  const auto& params = p->get<JitParams>();
  std::vector<bool> linear;
  Arrays known;
  for (auto& x : in) {
    linear.push_back(x.linear());
    if (!x.linear()) known.push_back(x.value);
  }
  auto t = transpose_jaxpr(params.jaxpr, linear, nonzero(cts));
  Arrays outs = call(t, params.name, concat({known, select_nonnull(cts)})), result(in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (linear[i]) result[i] = outs[next++];
  return result;
}

BatchOut call_batch(const Params* p, const BatchIn& in) {
  const auto& params = p->get<JitParams>();
  auto t = batch_jaxpr(params.jaxpr, mapped(in), {}, in.size, in.axis_name);
  BatchOut out{call(t, params.name, bdims_at_front(in)), dims_of(t.mapped_out)};
  return out;
}

void lower_call(LowerContext& ctx, const ClosedJaxpr& j, const std::string& name, std::span<const std::string> in,
                std::vector<std::string>& out) {
  AvalList ins = j->in_avals(), outs = j->out_avals();
  std::string symbol = ctx.function_for(j, name.empty() ? "fn" : name), args;
  for (std::size_t i = 0; i < in.size(); ++i) args += (i ? ", " : "") + in[i];
  out = ctx.emit_many(outs.size(), "call @" + symbol + "(" + args + ") : " + function_type(ins, outs));
}
void call_lower(LowerContext& ctx, const Params* p, std::span<const AvalP>, std::span<const AvalP>,
                std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& params = p->get<JitParams>();
  lower_call(ctx, params.jaxpr, params.name, in, out);
}

void print_call(Printer& p, const Params* params) {
  const auto& v = params->get<JitParams>();
  p.text += "name=" + v.name + '\x01' + "jaxpr=";
  p.print(v.jaxpr, p.indent());
}

}  // namespace

Arrays bind_jit(const ClosedJaxpr& j, const std::string& name, std::span<const Array> args) {
  auto [closed, captured] = hoist_consts(j);
  return bind_many(jit_p, concat({captured, args}), make_params(JitParams{name, closed}));
}

LOCKSTEP_PRIMITIVE(jit_p, {.name = "jit",
                           .abstract_eval = call_abstract_eval,
                           .jvp = call_jvp,
                           .linearize = call_linearize,
                           .transpose = call_transpose,
                           .batch = call_batch,
                           .lower = call_lower,
                           .multiple_results = true,
                           .print = print_call});

// custom_jvp_call: the function as a jaxpr, and the user's rule to use instead of differentiating it.
namespace {

void custom_jvp_abstract_eval(const Params* p, std::span<const AvalP>, AvalList& out) {
  out = p->get<CustomJvpParams>().call_jaxpr->out_avals();
}
JvpOut custom_jvp_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& params = p->get<CustomJvpParams>();
  std::size_t n = primals.size() - static_cast<std::size_t>(params.num_captured);
  for (std::size_t i = n; i < primals.size(); ++i)
    if (tangents[i].has_value())
      throw_error(ErrorCode::invalid_argument, params.name,
                  "a function with a custom_jvp rule captured a value that is being differentiated; pass it as an "
                  "argument instead");
  Arrays full(n);
  for (std::size_t i = 0; i < n; ++i)
    if (is_inexact(primals[i].dtype())) full[i] = instantiate_zeros(tangents[i], primals[i].aval());
  UserCode scope;
  return (*params.jvp.value)(primals.first(n), full);
}
BatchOut custom_jvp_batch(const Params* p, const BatchIn& in) {
  const auto& params = p->get<CustomJvpParams>();
  auto t = batch_jaxpr(params.call_jaxpr, mapped(in), {}, in.size, in.axis_name);
  std::size_t n = in.args.size() - static_cast<std::size_t>(params.num_captured);
  std::vector<bool> in_mapped = mapped(in);
  in_mapped.resize(n);
  auto rule = params.jvp.value;
  auto batched = std::make_shared<FlatJvpRule>(
      [rule, in_mapped, out_mapped = t.mapped_out, size = in.size, axis = in.axis_name, name = params.name](
          std::span<const Array> primals, std::span<const Array> tangents) {
        std::vector<bool> active = nonzero(tangents);
        Arrays args = concat({primals, select_nonnull(tangents)});
        std::vector<int> dims = dims_of(in_mapped);
        for (std::size_t i = 0; i < primals.size(); ++i)
          if (active[i]) dims.push_back(in_mapped[i] ? 0 : kNotMapped);
        std::size_t num_outs = out_mapped.size();
        std::vector<bool> out_active;
        auto out = batch_flat(
            [&](std::span<const Array> a) {
              Arrays ts(primals.size());
              std::size_t next = primals.size();
              for (std::size_t i = 0; i < primals.size(); ++i)
                if (active[i]) ts[i] = a[next++];
              JvpOut r = (*rule)(a.first(primals.size()), ts);
              out_active = nonzero(r.tangents);
              return concat({r.primals, select_nonnull(r.tangents)});
            },
            args, dims, size, axis, "vmap(" + name + ")");
        JvpOut result{Arrays(num_outs), Arrays(num_outs)};
        auto place = [&](std::size_t at, bool want) {
          return want ? batch_axis_at_front(out.outs[at], out.dims[at], size) : out.outs[at];
        };
        std::size_t next = num_outs;
        for (std::size_t i = 0; i < num_outs; ++i) {
          result.primals[i] = place(i, out_mapped[i]);
          if (out_active[i]) result.tangents[i] = place(next++, out_mapped[i]);
        }
        return result;
      });
  int captured = params.num_captured + static_cast<int>(t.captured.size());
  Arrays args = concat({bdims_at_front(in), t.captured});
  // captured values of the batched jaxpr are leading inputs there; move them behind the arguments.
  ClosedJaxpr call = t.jaxpr;
  if (!t.captured.empty()) {
    auto copy = std::make_shared<Jaxpr>(*t.jaxpr);
    std::rotate(copy->invars.begin(), copy->invars.begin() + static_cast<std::ptrdiff_t>(t.captured.size()),
                copy->invars.end());
    call = ClosedJaxpr(std::move(copy));
  }
  return {bind_many(custom_jvp_call_p, args, make_params(CustomJvpParams{params.name, call, {batched}, captured})),
          dims_of(t.mapped_out)};
}
void custom_jvp_lower(LowerContext& ctx, const Params* p, std::span<const AvalP>, std::span<const AvalP>,
                      std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& params = p->get<CustomJvpParams>();
  lower_call(ctx, params.call_jaxpr, params.name, in, out);
}
void print_custom_jvp(Printer& p, const Params* params) {
  const auto& v = params->get<CustomJvpParams>();
  p.text += "name=" + v.name + '\x01' + "call_jaxpr=";
  p.print(v.call_jaxpr, p.indent());
  p.text += "\x01jvp=<rule>\x01num_consts=0\x01symbolic_zeros=False";
}

// Puts a jaxpr's captured values behind its arguments.
std::pair<ClosedJaxpr, Arrays> captured_last(const ClosedJaxpr& j, std::size_t num_args) {
  auto [closed, captured] = hoist_consts(j);
  if (captured.empty()) return {closed, {}};
  auto copy = std::make_shared<Jaxpr>(*closed);
  std::rotate(copy->invars.begin(), copy->invars.end() - static_cast<std::ptrdiff_t>(num_args), copy->invars.end());
  return {ClosedJaxpr(std::move(copy)), captured};
}
AvalList avals_of(std::span<const Array> args) {
  AvalList out;
  for (auto& a : args) out.push_back(a.aval());
  return out;
}

}  // namespace

Arrays bind_custom_jvp(const FlatFunction& f, std::shared_ptr<FlatJvpRule> jvp, std::span<const Array> args,
                       const std::string& name) {
  auto [closed, captured] = captured_last(trace_to_jaxpr(f, avals_of(args), name), args.size());
  return bind_many(custom_jvp_call_p, concat({args, captured}),
                   make_params(CustomJvpParams{name, closed, {std::move(jvp)}, static_cast<int>(captured.size())}));
}

LOCKSTEP_PRIMITIVE(custom_jvp_call_p, {.name = "custom_jvp_call",
                                       .abstract_eval = custom_jvp_abstract_eval,
                                       .jvp = custom_jvp_jvp,
                                       .batch = custom_jvp_batch,
                                       .lower = custom_jvp_lower,
                                       .multiple_results = true,
                                       .print = print_custom_jvp});

}  // namespace lockstep

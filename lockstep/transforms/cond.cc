// cond: one of several jaxprs, chosen by a scalar int32 that is clamped to their number.
#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/batching.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep {
namespace {

using Mask = std::vector<bool>;

void cond_abstract_eval(const Params* p, std::span<const AvalP>, AvalList& out) {
  out = p->get<CondParams>().branches[0]->out_avals();
}
Arrays bind_branches(std::vector<ClosedJaxpr> branches, const Arrays& args) {
  return bind_many(cond_p, args, make_params(CondParams{std::move(branches)}));
}

JvpOut cond_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& branches = p->get<CondParams>().branches;
  Mask nz = nonzero(tangents.subspan(1));
  std::size_t n = branches[0]->outvars.size();
  Mask out_nz(n, false);
  for (auto& b : branches) out_nz = or_masks(out_nz, jvp_jaxpr(b, nz).nonzero_out);
  std::vector<ClosedJaxpr> made;
  for (auto& b : branches) {
    auto t = jvp_jaxpr(b, nz, out_nz);
    LS_CHECK(t.captured.empty());
    made.push_back(t.jaxpr);
  }
  Arrays outs = bind_branches(std::move(made), concat({primals, select_nonnull(tangents.subspan(1))}));
  JvpOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n)), Arrays(n)};
  std::size_t next = n;
  for (std::size_t i = 0; i < n; ++i)
    if (out_nz[i]) out.tangents[i] = outs[next++];
  return out;
}

// Every branch returns the residuals of all branches, zeros for those of the others.
LinearizeOut cond_linearize(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& branches = p->get<CondParams>().branches;
  Mask nz = nonzero(tangents.subspan(1));
  std::size_t n = branches[0]->outvars.size();
  Mask out_nz(n, false);
  for (auto& b : branches) out_nz = or_masks(out_nz, linearize_jaxpr(b, nz).nonzero_out);
  std::vector<LinearizedJaxpr> lins;
  AvalList residuals, tangent_avals;
  std::vector<std::size_t> begin;
  for (auto& b : branches) {
    lins.push_back(linearize_jaxpr(b, nz, out_nz));
    LS_CHECK(lins.back().primal.captured.empty());
    begin.push_back(residuals.size());
    for (AvalP a : lins.back().residuals) residuals.push_back(a);
  }
  for (auto& t : tangents)
    if (t.has_value()) tangent_avals.push_back(t.aval());
  std::vector<ClosedJaxpr> forward, linear;
  for (std::size_t k = 0; k < branches.size(); ++k) {
    std::size_t first = begin[k], count = lins[k].residuals.size();
    forward.push_back(trace_to_jaxpr(
        [&](std::span<const Array> a) {
          Arrays outs = eval_jaxpr(lins[k].primal.jaxpr, a);
          Arrays all(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n));
          for (std::size_t i = 0; i < residuals.size(); ++i)
            all.push_back(i >= first && i < first + count ? outs[n + i - first] : zeros(residuals[i]));
          return all;
        },
        branches[k]->in_avals(), branches[k]->name));
    AvalList ins = residuals;
    for (AvalP a : tangent_avals) ins.push_back(a);
    linear.push_back(trace_to_jaxpr(
        [&](std::span<const Array> a) {
          return eval_jaxpr(lins[k].tangent, concat({a.subspan(first, count), a.subspan(residuals.size())}));
        },
        ins, branches[k]->name));
  }
  Arrays outs = bind_branches(std::move(forward), Arrays(primals.begin(), primals.end()));
  Arrays args{primals[0]};
  args.insert(args.end(), outs.begin() + static_cast<std::ptrdiff_t>(n), outs.end());
  Arrays ts = bind_branches(std::move(linear), concat({args, select_nonnull(tangents.subspan(1))}));
  LinearizeOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n)), Arrays(n)};
  std::size_t next = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (out_nz[i]) out.tangents[i] = ts[next++];
  return out;
}

std::vector<Array> cond_transpose(const Params* p, std::span<const Array> cts, std::span<const TransposeIn> in) {
  const auto& branches = p->get<CondParams>().branches;
  Mask linear;
  Arrays args{in[0].value};
  for (auto& x : in.subspan(1)) {
    linear.push_back(x.linear());
    if (!x.linear()) args.push_back(x.value);
  }
  std::vector<ClosedJaxpr> made;
  for (auto& b : branches) {
    auto t = transpose_jaxpr(b, linear, nonzero(cts));
    LS_CHECK(t.captured.empty());
    made.push_back(t.jaxpr);
  }
  Arrays outs = bind_branches(std::move(made), concat({args, select_nonnull(cts)})), result(in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < linear.size(); ++i)
    if (linear[i]) result[i + 1] = outs[next++];
  return result;
}

BatchOut cond_batch(const Params* p, const BatchIn& in) {
  const auto& branches = p->get<CondParams>().branches;
  Mask m = mapped(in);
  Mask operands(m.begin() + 1, m.end());
  std::size_t n = branches[0]->outvars.size();
  if (m[0]) {  // each element chooses for itself: run all branches, select
    Arrays args = bdims_at_front(in);
    Array index = lax::clamp(0, args[0], static_cast<int>(branches.size()) - 1);
    Mask all(n, true);
    std::vector<Arrays> results;
    for (auto& b : branches) {
      auto t = batch_jaxpr(b, operands, all, in.size, in.axis_name);
      results.push_back(eval_jaxpr(t.jaxpr, concat({t.captured, std::span<const Array>(args).subspan(1)})));
    }
    BatchOut out;
    for (std::size_t i = 0; i < n; ++i) {
      Array chosen = results.back()[i];
      for (std::size_t k = branches.size() - 1; k-- > 0;) {
        Array is_k = lax::eq(index, static_cast<int>(k));
        const Shape& shape = chosen.shape();
        Array which = chosen.ndim() > 1 ? lax::broadcast_in_dim(is_k, shape, {0}) : is_k;
        chosen = lax::select(which, results[k][i], chosen);
      }
      out.outs.push_back(chosen);
      out.dims.push_back(0);
    }
    return out;
  }
  Mask out_mapped(n, false);
  for (auto& b : branches)
    out_mapped = or_masks(out_mapped, batch_jaxpr(b, operands, {}, in.size, in.axis_name).mapped_out);
  std::vector<ClosedJaxpr> made;
  for (auto& b : branches) {
    auto t = batch_jaxpr(b, operands, out_mapped, in.size, in.axis_name);
    LS_CHECK(t.captured.empty());
    made.push_back(t.jaxpr);
  }
  return {bind_branches(std::move(made), bdims_at_front(in)), dims_of(out_mapped)};
}

void cond_lower(LowerContext& ctx, const Params* p, std::span<const AvalP>, std::span<const AvalP> out_avals,
                std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& branches = p->get<CondParams>().branches;
  std::vector<std::string> args(in.begin() + 1, in.end());
  std::string types, regions;
  for (std::size_t i = 0; i < out_avals.size(); ++i) types += (i ? ", " : "") + out_avals[i]->mlir;
  for (std::size_t k = 0; k < branches.size(); ++k) {
    ctx.begin_region();
    auto results = ctx.inline_jaxpr(branches[k], args);
    std::string list;
    for (std::size_t i = 0; i < results.size(); ++i) list += (i ? ", " : "") + results[i];
    ctx.line("stablehlo.return " + (results.empty() ? "" : list + " : " + types));
    regions += (k ? ", {\n" : "{\n") + ctx.end_region() + "    }";
  }
  out = ctx.emit_many(out_avals.size(), "\"stablehlo.case\"(" + in[0] + ") (" + regions + ") : (tensor<i32>) -> " +
                                            (out_avals.size() == 1 ? types : "(" + types + ")"));
}

}  // namespace

LOCKSTEP_PRIMITIVE(cond_p, {.name = "cond",
                            .abstract_eval = cond_abstract_eval,
                            .jvp = cond_jvp,
                            .linearize = cond_linearize,
                            .transpose = cond_transpose,
                            .batch = cond_batch,
                            .lower = cond_lower,
                            .multiple_results = true});

Arrays bind_cond(const Array& index, std::vector<FlatFunction> functions, std::span<const Array> operands,
                 const std::string& operation) {
  AvalList avals;
  for (auto& o : operands) avals.push_back(o.aval());
  std::vector<ClosedJaxpr> traced;
  for (auto& f : functions) traced.push_back(trace_to_jaxpr(f, avals, operation));
  // What branches return must agree; weakly typed results become strong where another branch's are.
  std::size_t n = traced[0]->outvars.size();
  AvalList want = traced[0]->out_avals();
  for (auto& t : traced) {
    AvalList have = t->out_avals();
    if (have.size() != n)
      throw_error(ErrorCode::tree, operation, "the branches must return the same structure: {} results and {}", n,
                  have.size());
    for (std::size_t i = 0; i < n; ++i) {
      if (strong(have[i]) != strong(want[i]))
        throw_error(ErrorCode::shape, operation,
                    "the branches must return the same types: result {} is {} in the first and {} in another", i,
                    want[i]->text, have[i]->text);
      if (!have[i]->weak_type) want[i] = strong(want[i]);
    }
  }
  // Values that any branch captured are operands of all.
  Arrays captured;
  std::vector<std::vector<std::size_t>> places;
  for (auto& t : traced) {
    auto& place = places.emplace_back();
    for (auto& c : *t.consts) {
      std::size_t at = 0;
      while (at < captured.size() && captured[at].value() != c.get()) ++at;
      if (at == captured.size()) captured.emplace_back(c);
      place.push_back(at);
    }
  }
  AvalList all;
  for (auto& c : captured) all.push_back(c.aval());
  for (AvalP a : avals) all.push_back(a);
  std::vector<ClosedJaxpr> branches;
  for (std::size_t k = 0; k < traced.size(); ++k) {
    auto& t = traced[k];
    if (captured.empty() && t->out_avals() == want) {
      branches.push_back(t);
      continue;
    }
    branches.push_back(trace_to_jaxpr(
        [&](std::span<const Array> a) {
          Arrays consts;
          for (auto at : places[k]) consts.push_back(a[at]);
          Arrays outs = eval_jaxpr(*t, consts, a.subspan(captured.size()));
          for (std::size_t i = 0; i < n; ++i) outs[i] = convert(outs[i], want[i]->dtype, want[i]->weak_type);
          return outs;
        },
        all, operation));
  }
  // A cond's index is a bool; StableHLO's case takes the last branch for negative numbers.
  Arrays index_and{operation == "cond" ? index : lax::clamp(0, index, static_cast<int>(branches.size()) - 1)};
  return bind_branches(std::move(branches), concat({index_and, captured, operands}));
}

}  // namespace lockstep

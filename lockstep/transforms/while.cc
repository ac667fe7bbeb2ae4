// while: a body repeated as long as a condition on its carry holds.
#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/batching.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep {
namespace {

using Mask = std::vector<bool>;

void while_abstract_eval(const Params* p, std::span<const AvalP>, AvalList& out) {
  out = p->get<WhileParams>().body_jaxpr->out_avals();
}

struct Parts {
  std::size_t cond_consts, body_consts, carry;
  explicit Parts(const WhileParams& p)
      : cond_consts(static_cast<std::size_t>(p.cond_nconsts)),
        body_consts(static_cast<std::size_t>(p.body_nconsts)),
        carry(p.body_jaxpr->outvars.size()) {}
};

JvpOut while_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& w = p->get<WhileParams>();
  Parts n(w);
  Mask nz = nonzero(tangents);
  Mask consts(nz.begin() + static_cast<std::ptrdiff_t>(n.cond_consts),
              nz.begin() + static_cast<std::ptrdiff_t>(n.cond_consts + n.body_consts));
  Mask carry(nz.end() - static_cast<std::ptrdiff_t>(n.carry), nz.end());
  auto inputs = [&] {
    Mask all = consts;
    all.insert(all.end(), carry.begin(), carry.end());
    return all;
  };
  for (;;) {
    Mask next = or_masks(carry, jvp_jaxpr(w.body_jaxpr, inputs(), carry).nonzero_out);
    if (next == carry) break;
    carry = next;
  }
  auto body = jvp_jaxpr(w.body_jaxpr, inputs(), carry);
  LS_CHECK(body.captured.empty());
  // New body: (consts, consts', carry, carry'); the jvp jaxpr takes (consts, carry, consts', carry').
  std::size_t nc = static_cast<std::size_t>(std::count(consts.begin(), consts.end(), true)), nt = 0;
  for (bool b : carry) nt += b;
  auto reordered = std::make_shared<Jaxpr>(*body.jaxpr);
  std::vector<VarId> in;
  auto from = [&](std::size_t begin, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) in.push_back(body.jaxpr->invars[begin + i]);
  };
  from(0, n.body_consts), from(n.body_consts + n.carry, nc), from(n.body_consts, n.carry),
      from(n.body_consts + n.carry + nc, nt);
  reordered->invars = in;
  // The condition ignores the tangents.
  AvalList cond_avals = w.cond_jaxpr->in_avals();
  for (std::size_t i = 0; i < n.carry; ++i)
    if (carry[i]) cond_avals.push_back(tangent_aval(w.body_jaxpr->aval(w.body_jaxpr->outvars[i])));
  auto cond = trace_to_jaxpr(
      [&](std::span<const Array> a) { return eval_jaxpr(w.cond_jaxpr, a.first(n.cond_consts + n.carry)); }, cond_avals,
      w.cond_jaxpr->name);
  Arrays args;
  for (std::size_t i = 0; i < n.cond_consts + n.body_consts; ++i) args.push_back(primals[i]);
  for (std::size_t i = 0; i < n.body_consts; ++i)
    if (consts[i]) args.push_back(tangents[n.cond_consts + i]);
  std::size_t at = n.cond_consts + n.body_consts;
  for (std::size_t i = 0; i < n.carry; ++i) args.push_back(primals[at + i]);
  for (std::size_t i = 0; i < n.carry; ++i)
    if (carry[i]) args.push_back(instantiate_zeros(tangents[at + i], tangent_aval(primals[at + i].aval())));
  Arrays outs = bind_many(while_p, args,
                          make_params(WhileParams{ClosedJaxpr(std::move(reordered)),
                                                  static_cast<int>(n.body_consts + nc), cond, w.cond_nconsts}));
  JvpOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n.carry)), Arrays(n.carry)};
  std::size_t next = n.carry;
  for (std::size_t i = 0; i < n.carry; ++i)
    if (carry[i]) out.tangents[i] = outs[next++];
  return out;
}

LinearizeOut while_linearize(const Params*, std::span<const Array>, std::span<const Array>) {
  throw_error(
      ErrorCode::missing_rule, "while_loop",
      "reverse-mode differentiation does not work for while_loop, nor for fori_loop with bounds that are traced, "
      "since the number of steps to remember is not known; use scan, or fori_loop with fixed bounds");
}

BatchOut while_batch(const Params* p, const BatchIn& in) {
  const auto& w = p->get<WhileParams>();
  Parts n(w);
  Mask m = mapped(in);
  auto slice = [&](std::size_t begin, std::size_t count) {
    return Mask(m.begin() + static_cast<std::ptrdiff_t>(begin), m.begin() + static_cast<std::ptrdiff_t>(begin + count));
  };
  Mask cc = slice(0, n.cond_consts), bc = slice(n.cond_consts, n.body_consts),
       carry = slice(n.cond_consts + n.body_consts, n.carry);
  auto with = [](Mask a, const Mask& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  bool pred_mapped = false;
  for (;;) {
    auto body = batch_jaxpr(w.body_jaxpr, with(bc, carry), carry, in.size, in.axis_name);
    auto cond = batch_jaxpr(w.cond_jaxpr, with(cc, carry), {}, in.size, in.axis_name);
    pred_mapped = cond.mapped_out[0];
    Mask next = pred_mapped ? Mask(n.carry, true) : or_masks(carry, body.mapped_out);
    if (next == carry) break;
    carry = next;
  }
  auto body = batch_jaxpr(w.body_jaxpr, with(bc, carry), carry, in.size, in.axis_name);
  auto cond = batch_jaxpr(w.cond_jaxpr, with(cc, carry), {pred_mapped}, in.size, in.axis_name);
  LS_CHECK(body.captured.empty() && cond.captured.empty());
  Mask force = Mask(n.cond_consts + n.body_consts, false);
  force = with(force, carry);
  Arrays args = bdims_at_front(in, force);
  ClosedJaxpr new_body = body.jaxpr, new_cond = cond.jaxpr;
  int body_nconsts = w.body_nconsts;
  if (pred_mapped) {
    // As long as any element goes on; those that are done keep their values.
    AvalList cond_avals = cond.jaxpr->in_avals(), body_avals = body.jaxpr->in_avals(), avals;
    new_cond = trace_to_jaxpr(
        [&](std::span<const Array> a) { return Arrays{lax::reduce_or(eval_jaxpr(cond.jaxpr, a)[0], {0})}; }, cond_avals,
        w.cond_jaxpr->name);
    for (std::size_t i = 0; i < n.cond_consts; ++i) avals.push_back(cond_avals[i]);
    for (AvalP a : body_avals) avals.push_back(a);
    new_body = trace_to_jaxpr(
        [&](std::span<const Array> a) {
          auto old = a.subspan(n.cond_consts + n.body_consts);
          Array going = eval_jaxpr(cond.jaxpr, concat({a.first(n.cond_consts), old}))[0];
          Arrays fresh = eval_jaxpr(body.jaxpr, a.subspan(n.cond_consts));
          for (std::size_t i = 0; i < fresh.size(); ++i) {
            Array which = fresh[i].ndim() > 1 ? lax::broadcast_in_dim(going, fresh[i].shape(), {0}) : going;
            fresh[i] = lax::select(which, fresh[i], old[i]);
          }
          return fresh;
        },
        avals, w.body_jaxpr->name);
    body_nconsts += w.cond_nconsts;
    args.insert(args.begin() + static_cast<std::ptrdiff_t>(n.cond_consts), args.begin(),
                args.begin() + static_cast<std::ptrdiff_t>(n.cond_consts));
  }
  return {bind_many(while_p, args, make_params(WhileParams{new_body, body_nconsts, new_cond, w.cond_nconsts})),
          dims_of(carry)};
}

void while_lower(LowerContext& ctx, const Params* p, std::span<const AvalP> in_avals, std::span<const AvalP>,
                 std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& w = p->get<WhileParams>();
  Parts n(w);
  std::size_t num_consts = n.cond_consts + n.body_consts;
  std::vector<std::string> args;
  std::string bindings, types;
  for (std::size_t i = 0; i < in.size(); ++i) {
    args.push_back(ctx.fresh());
    bindings += (i ? ", " : "") + args[i] + " = " + in[i];
    types += (i ? ", " : "") + in_avals[i]->mlir;
  }
  auto operands = [&](std::size_t begin, std::size_t count) {
    std::vector<std::string> list(args.begin() + static_cast<std::ptrdiff_t>(begin),
                                  args.begin() + static_cast<std::ptrdiff_t>(begin + count));
    list.insert(list.end(), args.begin() + static_cast<std::ptrdiff_t>(num_consts), args.end());
    return list;
  };
  ctx.begin_region();
  ctx.line("stablehlo.return " + ctx.inline_jaxpr(w.cond_jaxpr, operands(0, n.cond_consts))[0] + " : tensor<i1>");
  std::string cond = ctx.end_region();
  ctx.begin_region();
  auto results = ctx.inline_jaxpr(w.body_jaxpr, operands(n.cond_consts, n.body_consts));
  std::string ret;
  for (std::size_t i = 0; i < num_consts; ++i) ret += (i ? ", " : "") + args[i];
  for (auto& r : results) ret += (ret.empty() ? "" : ", ") + r;
  ctx.line("stablehlo.return " + ret + " : " + types);
  std::string body = ctx.end_region();
  auto got = ctx.emit_many(args.size(), "stablehlo.while(" + bindings + ") : " + types + "\n    cond {\n" + cond +
                                            "    } do {\n" + body + "    }");
  out.assign(got.begin() + static_cast<std::ptrdiff_t>(num_consts), got.end());
}

}  // namespace

LOCKSTEP_PRIMITIVE(while_p, {.name = "while",
                             .abstract_eval = while_abstract_eval,
                             .jvp = while_jvp,
                             .linearize = while_linearize,
                             .batch = while_batch,
                             .lower = while_lower,
                             .multiple_results = true});

Arrays bind_while(const FlatFunction& cond, const FlatFunction& body, std::span<const Array> init,
                  std::span<const std::string> names) {
  Arrays carry(init.begin(), init.end());
  ClosedJaxpr traced;
  for (int round = 0;; ++round) {
    AvalList avals;
    for (auto& c : carry) avals.push_back(c.aval());
    traced = trace_to_jaxpr(body, avals, "while_loop", names);
    AvalList outs = traced->out_avals();
    bool again = false;
    for (std::size_t i = 0; i < carry.size(); ++i) {
      AvalP was = carry[i].aval(), now = outs[i];
      if (was == now) continue;
      if (round < 4 && was->weak_type && was->shape == now->shape) {
        carry[i] = convert(carry[i], now->dtype, now->weak_type);
        again = true;
      } else if (strong(was) != strong(now)) {
        throw_error(ErrorCode::shape, "while_loop",
                    "the body must return the carry with the types it came with: {} went in as {} and came out as {}",
                    i < names.size() ? names[i] : "leaf " + std::to_string(i), was->text, now->text);
      }
    }
    if (!again) break;
  }
  AvalList avals;
  for (auto& c : carry) avals.push_back(c.aval());
  auto test = trace_to_jaxpr(cond, avals, "while_loop", names);
  if (test->outvars.size() != 1 || test->out_avals()[0]->rank() != 0 || test->out_avals()[0]->dtype != DType::bool_)
    throw_error(ErrorCode::dtype, "while_loop", "the condition must return one bool scalar, it returns {}",
                to_string(std::span<const AvalP>(test->out_avals())));
  auto [closed_cond, cond_consts] = hoist_consts(test);
  auto [closed_body, body_consts] = hoist_consts(traced);
  return bind_many(while_p, concat({cond_consts, body_consts, carry}),
                   make_params(WhileParams{closed_body, static_cast<int>(body_consts.size()), closed_cond,
                                           static_cast<int>(cond_consts.size())}));
}

}  // namespace lockstep

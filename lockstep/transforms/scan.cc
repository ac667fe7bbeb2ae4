// scan: (consts, carry, xs) -> (carry, ys), xs and ys stacked along a leading axis.
#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/batching.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep {
namespace {

using Mask = std::vector<bool>;

struct Parts {
  std::size_t consts, carry, xs, ys;
  explicit Parts(const ScanParams& p)
      : consts(static_cast<std::size_t>(p.num_consts)),
        carry(static_cast<std::size_t>(p.num_carry)),
        xs(p.jaxpr->invars.size() - consts - carry),
        ys(p.jaxpr->outvars.size() - carry) {}
};
template <class T>
std::vector<T> sub(const std::vector<T>& v, std::size_t begin, std::size_t n) {
  return std::vector<T>(v.begin() + static_cast<std::ptrdiff_t>(begin),
                        v.begin() + static_cast<std::ptrdiff_t>(begin + n));
}
std::size_t count(const Mask& m) { return static_cast<std::size_t>(std::count(m.begin(), m.end(), true)); }
Mask ones(std::size_t n) { return Mask(n, true); }
Mask join(std::initializer_list<Mask> masks) {
  Mask out;
  for (auto& m : masks) out.insert(out.end(), m.begin(), m.end());
  return out;
}

// The jaxpr with its inputs and outputs in another order: in[i] of the new is in[order_in[i]] of the old.
ClosedJaxpr permute(const ClosedJaxpr& j, const std::vector<std::size_t>& order_in,
                    const std::vector<std::size_t>& order_out) {
  auto copy = std::make_shared<Jaxpr>(*j);
  for (std::size_t i = 0; i < order_in.size(); ++i) copy->invars[i] = j->invars[order_in[i]];
  copy->outvars.clear();
  for (auto o : order_out) copy->outvars.push_back(j->outvars[o]);
  return ClosedJaxpr(std::move(copy));
}
// Indices of the primals and the nonzero tangents of three groups, interleaved group by group.
std::vector<std::size_t> interleave(const std::vector<std::size_t>& sizes, const Mask& nonzero) {
  std::vector<std::size_t> order, tangent_at(nonzero.size());
  std::size_t next = nonzero.size(), at = 0;
  for (std::size_t i = 0; i < nonzero.size(); ++i)
    if (nonzero[i]) tangent_at[i] = next++;
  for (std::size_t n : sizes) {
    for (std::size_t i = 0; i < n; ++i) order.push_back(at + i);
    for (std::size_t i = 0; i < n; ++i)
      if (nonzero[at + i]) order.push_back(tangent_at[at + i]);
    at += n;
  }
  return order;
}

void scan_abstract_eval(const Params* p, std::span<const AvalP> in, AvalList& out) {
  const auto& s = p->get<ScanParams>();
  Parts n(s);
  AvalList ins = s.jaxpr->in_avals(), outs = s.jaxpr->out_avals();
  for (std::size_t i = 0; i < in.size(); ++i) {
    AvalP want = i < n.consts + n.carry ? ins[i] : with_shape(ins[i], ins[i]->shape.with(0, s.length));
    LS_CHECK(in[i]->shape == want->shape && in[i]->dtype == want->dtype, "scan operand {}: {} for {}", i, in[i]->text,
             want->text);
  }
  for (std::size_t i = 0; i < outs.size(); ++i)
    out.push_back(i < n.carry ? outs[i] : with_shape(outs[i], outs[i]->shape.with(0, s.length)));
}

Arrays bind_params(const ScanParams& p, const Arrays& args) { return bind_many(scan_p, args, make_params(p)); }

// The carry tangents that are nonzero once those of consts, carry and xs are: a fixpoint.
template <class Step>
Mask carry_fixpoint(Mask carry, Step&& step) {
  for (;;) {
    Mask next = or_masks(carry, step(carry));
    if (next == carry) return carry;
    carry = next;
  }
}

JvpOut scan_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& s = p->get<ScanParams>();
  Parts n(s);
  Mask nz = nonzero(tangents), nz_consts = sub(nz, 0, n.consts), nz_xs = sub(nz, n.consts + n.carry, n.xs);
  JvpJaxpr body;
  auto inputs = [&](const Mask& carry) { return join({nz_consts, carry, nz_xs}); };
  Mask carry = carry_fixpoint(sub(nz, n.consts, n.carry), [&](const Mask& c) {
    return sub(jvp_jaxpr(s.jaxpr, inputs(c), join({c, Mask(n.ys, false)})).nonzero_out, 0, n.carry);
  });
  Mask all = inputs(carry);
  body = jvp_jaxpr(s.jaxpr, all, join({carry, Mask(n.ys, false)}));
  LS_CHECK(body.captured.empty());
  Mask nz_ys = sub(body.nonzero_out, n.carry, n.ys);
  ScanParams q = s;
  q.jaxpr =
      permute(body.jaxpr, interleave({n.consts, n.carry, n.xs}, all), interleave({n.carry, n.ys}, body.nonzero_out));
  q.num_consts = static_cast<int>(n.consts + count(nz_consts));
  q.num_carry = static_cast<int>(n.carry + count(carry));
  Arrays args;
  std::size_t at = 0;
  for (std::size_t group : {n.consts, n.carry, n.xs}) {
    for (std::size_t i = at; i < at + group; ++i) args.push_back(primals[i]);
    for (std::size_t i = at; i < at + group; ++i)
      if (all[i]) args.push_back(instantiate_zeros(tangents[i], tangent_aval(primals[i].aval())));
    at += group;
  }
  Arrays outs = bind_params(q, args);
  JvpOut out;
  std::size_t next = 0;
  auto take = [&](std::size_t m) {
    for (std::size_t i = 0; i < m; ++i) out.primals.push_back(outs[next++]);
  };
  auto take_tangents = [&](const Mask& mask) {
    for (bool b : mask) out.tangents.push_back(b ? outs[next++] : Array());
  };
  take(n.carry), take_tangents(carry), take(n.ys), take_tangents(nz_ys);
  return out;
}

LinearizeOut scan_linearize(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& s = p->get<ScanParams>();
  Parts n(s);
  Mask nz = nonzero(tangents), nz_consts = sub(nz, 0, n.consts), nz_xs = sub(nz, n.consts + n.carry, n.xs);
  auto inputs = [&](const Mask& carry) { return join({nz_consts, carry, nz_xs}); };
  Mask carry = carry_fixpoint(sub(nz, n.consts, n.carry), [&](const Mask& c) {
    return sub(linearize_jaxpr(s.jaxpr, inputs(c), join({c, Mask(n.ys, false)})).nonzero_out, 0, n.carry);
  });
  auto lin = linearize_jaxpr(s.jaxpr, inputs(carry), join({carry, Mask(n.ys, false)}));
  LS_CHECK(lin.primal.captured.empty());

  // Residuals that are consts of the loop stay consts; the others are stacked.
  std::size_t num_res = lin.residuals.size();
  std::vector<std::size_t> outs_kept, invariant, stacked;
  for (std::size_t i = 0; i < n.carry + n.ys; ++i) outs_kept.push_back(i);
  for (std::size_t i = 0; i < num_res; ++i) {
    int from = lin.residual_is_input[i];
    if (from >= 0 && static_cast<std::size_t>(from) < n.consts) {
      invariant.push_back(i);
    } else {
      stacked.push_back(i);
      outs_kept.push_back(n.carry + n.ys + i);
    }
  }
  std::vector<std::size_t> same_in;
  for (std::size_t i = 0; i < lin.primal.jaxpr->invars.size(); ++i) same_in.push_back(i);
  ScanParams fwd = s;
  fwd.jaxpr = permute(lin.primal.jaxpr, same_in, outs_kept);
  Arrays outs = bind_params(fwd, Arrays(primals.begin(), primals.end()));

  // tangent: (residuals, consts', carry', xs') with the residuals split to both ends.
  std::size_t nc = count(nz_consts), ncarry = count(carry), nx = count(nz_xs);
  std::vector<std::size_t> order_in, order_out;
  for (auto i : invariant) order_in.push_back(i);
  for (std::size_t i = 0; i < nc + ncarry; ++i) order_in.push_back(num_res + i);
  for (auto i : stacked) order_in.push_back(i);
  for (std::size_t i = 0; i < nx; ++i) order_in.push_back(num_res + nc + ncarry + i);
  for (std::size_t i = 0; i < lin.tangent->outvars.size(); ++i) order_out.push_back(i);
  ScanParams tan = s;
  tan.jaxpr = permute(lin.tangent, order_in, order_out);
  tan.num_consts = static_cast<int>(invariant.size() + nc);
  tan.num_carry = static_cast<int>(ncarry);
  Arrays args;
  for (auto i : invariant) args.push_back(primals[static_cast<std::size_t>(lin.residual_is_input[i])]);
  for (std::size_t i = 0; i < n.consts; ++i)
    if (nz_consts[i]) args.push_back(tangents[i]);
  for (std::size_t i = 0; i < n.carry; ++i)
    if (carry[i]) args.push_back(instantiate_zeros(tangents[n.consts + i], tangent_aval(primals[n.consts + i].aval())));
  for (std::size_t i = 0; i < stacked.size(); ++i) args.push_back(outs[n.carry + n.ys + i]);
  for (std::size_t i = 0; i < n.xs; ++i)
    if (nz_xs[i]) args.push_back(tangents[n.consts + n.carry + i]);
  Arrays ts = bind_params(tan, args);
  LinearizeOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n.carry + n.ys)), {}};
  std::size_t next = 0;
  for (std::size_t i = 0; i < n.carry + n.ys; ++i) out.tangents.push_back(lin.nonzero_out[i] ? ts[next++] : Array());
  return out;
}

// The backward loop: runs the other way; its carry is the cotangents of the linear consts (sums) and of the carry.
std::vector<Array> scan_transpose(const Params* p, std::span<const Array> cts, std::span<const TransposeIn> in) {
  const auto& s = p->get<ScanParams>();
  Parts n(s);
  Mask linear;
  for (auto& x : in) linear.push_back(x.linear());
  // A carry that starts from a known value is linear all the same: the value can only be an instantiated zero.
  Mask lin_consts = sub(linear, 0, n.consts), lin_xs = sub(linear, n.consts + n.carry, n.xs);
  AvalList ins = s.jaxpr->in_avals(), outs = s.jaxpr->out_avals();
  Mask ct_ys;
  for (std::size_t i = 0; i < n.ys; ++i) ct_ys.push_back(cts[n.carry + i].has_value());

  // Body: (known consts, ct of linear consts, ct carry, known xs, ct ys) -> (ct consts, ct carry, ct of linear xs).
  AvalList avals;
  auto add = [&](std::size_t begin, const Mask& mask, bool want, const AvalList& from) {
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i] == want) avals.push_back(from[begin + i]);
  };
  std::size_t known_consts = n.consts - count(lin_consts), known_xs = n.xs - count(lin_xs);
  add(0, lin_consts, false, ins);
  add(0, lin_consts, true, ins);
  add(0, ones(n.carry), true, outs);
  add(n.consts + n.carry, lin_xs, false, ins);
  add(n.carry, ct_ys, true, outs);
  auto traced = trace_to_jaxpr(
      [&](std::span<const Array> a) {
        std::vector<TransposeIn> args;
        std::size_t kc = 0, sum_at = known_consts, ct_at = sum_at + count(lin_consts), kx = ct_at + n.carry,
                    y_at = kx + known_xs;
        for (std::size_t i = 0; i < n.consts; ++i) args.push_back({ins[i], lin_consts[i] ? Array() : a[kc++]});
        for (std::size_t i = 0; i < n.carry; ++i) args.push_back({ins[n.consts + i], Array()});
        std::size_t x = kx;
        for (std::size_t i = 0; i < n.xs; ++i)
          args.push_back({ins[n.consts + n.carry + i], lin_xs[i] ? Array() : a[x++]});
        Arrays body_cts;
        for (std::size_t i = 0; i < n.carry; ++i) body_cts.push_back(a[ct_at + i]);
        for (std::size_t i = 0; i < n.ys; ++i) body_cts.push_back(ct_ys[i] ? a[y_at++] : Array());
        Arrays all = backward_pass(*s.jaxpr, {}, args, body_cts), result;
        std::size_t sum = sum_at;
        for (std::size_t i = 0; i < n.consts; ++i)
          if (lin_consts[i]) result.push_back(add_any(a[sum++], all[i]));
        for (std::size_t i = 0; i < n.carry; ++i)
          result.push_back(instantiate_zeros(all[n.consts + i], ins[n.consts + i]));
        for (std::size_t i = 0; i < n.xs; ++i)
          if (lin_xs[i]) result.push_back(instantiate_zeros(all[n.consts + n.carry + i], ins[n.consts + n.carry + i]));
        return result;
      },
      avals, "scan");
  LS_CHECK(traced->constvars.empty());
  ScanParams back = s;
  back.jaxpr = traced;
  back.reverse = !s.reverse;
  back.num_consts = static_cast<int>(known_consts);
  back.num_carry = static_cast<int>(count(lin_consts) + n.carry);
  Arrays args;
  for (std::size_t i = 0; i < n.consts; ++i)
    if (!lin_consts[i]) args.push_back(in[i].value);
  for (std::size_t i = 0; i < n.consts; ++i)
    if (lin_consts[i]) args.push_back(zeros(ins[i]));
  for (std::size_t i = 0; i < n.carry; ++i) args.push_back(instantiate_zeros(cts[i], outs[i]));
  for (std::size_t i = 0; i < n.xs; ++i)
    if (!lin_xs[i]) args.push_back(in[n.consts + n.carry + i].value);
  for (std::size_t i = 0; i < n.ys; ++i)
    if (ct_ys[i]) args.push_back(cts[n.carry + i]);
  Arrays got = bind_params(back, args), result(in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    bool is_carry = i >= n.consts && i < n.consts + n.carry;
    if (!linear[i] && !is_carry) continue;
    if (linear[i]) result[i] = got[next];
    ++next;
  }
  return result;
}

BatchOut scan_batch(const Params* p, const BatchIn& in) {
  const auto& s = p->get<ScanParams>();
  Parts n(s);
  Mask m = mapped(in), m_consts = sub(m, 0, n.consts), m_xs = sub(m, n.consts + n.carry, n.xs);
  auto body = [&](const Mask& carry) {
    return batch_jaxpr(s.jaxpr, join({m_consts, carry, m_xs}), join({carry, Mask(n.ys, false)}), in.size, in.axis_name);
  };
  Mask carry =
      carry_fixpoint(sub(m, n.consts, n.carry), [&](const Mask& c) { return sub(body(c).mapped_out, 0, n.carry); });
  auto t = body(carry);
  LS_CHECK(t.captured.empty());
  ScanParams q = s;
  q.jaxpr = t.jaxpr;
  Arrays args;
  for (std::size_t i = 0; i < in.args.size(); ++i) {
    bool is_x = i >= n.consts + n.carry, is_carry = !is_x && i >= n.consts;
    if (in.dims[i] != kNotMapped)
      args.push_back(moveaxis(in.args[i], in.dims[i], is_x ? 1 : 0));
    else
      args.push_back(is_carry && carry[i - n.consts] ? broadcast_new_axis(in.args[i], in.size, 0) : in.args[i]);
  }
  BatchOut out{bind_params(q, args), {}};
  for (std::size_t i = 0; i < n.carry; ++i) out.dims.push_back(carry[i] ? 0 : kNotMapped);
  for (std::size_t i = 0; i < n.ys; ++i) out.dims.push_back(t.mapped_out[n.carry + i] ? 1 : kNotMapped);
  return out;
}

void scan_lower(LowerContext& ctx, const Params* p, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& s = p->get<ScanParams>();
  Parts n(s);
  AvalList ins = s.jaxpr->in_avals(), outs = s.jaxpr->out_avals();
  AvalP index = make_aval({}, DType::int32);
  // Loop state: counter, carry, ys, then what does not change: consts, xs.
  std::vector<std::string> init{ctx.constant(Scalar(std::int64_t{0}, DType::int32))};
  AvalList types{index};
  for (std::size_t i = 0; i < n.carry; ++i) init.push_back(in[n.consts + i]), types.push_back(in_avals[n.consts + i]);
  for (std::size_t i = 0; i < n.ys; ++i) {
    AvalP y = out_avals[n.carry + i];
    init.push_back(ctx.constant(Scalar(std::int64_t{0}, y->dtype), y));
    types.push_back(y);
  }
  for (std::size_t i = 0; i < n.consts; ++i) init.push_back(in[i]), types.push_back(in_avals[i]);
  for (std::size_t i = 0; i < n.xs; ++i)
    init.push_back(in[n.consts + n.carry + i]), types.push_back(in_avals[n.consts + n.carry + i]);
  std::vector<std::string> args;
  std::string bindings, type_list;
  for (std::size_t i = 0; i < init.size(); ++i) {
    args.push_back(ctx.fresh());
    bindings += (i ? ", " : "") + args[i] + " = " + init[i];
    type_list += (i ? ", " : "") + types[i]->mlir;
  }
  ctx.begin_region();
  std::string length = ctx.constant(Scalar(s.length, DType::int32));
  std::string less =
      ctx.emit("stablehlo.compare LT, {}, {}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>", args[0], length);
  ctx.line("stablehlo.return " + less + " : tensor<i1>");
  std::string cond = ctx.end_region();
  ctx.begin_region();
  std::string at = args[0];
  if (s.reverse) {
    std::string last = ctx.constant(Scalar(s.length - 1, DType::int32));
    at = ctx.emit("stablehlo.subtract {}, {} : tensor<i32>", last, args[0]);
  }
  std::string zero = ctx.constant(Scalar(std::int64_t{0}, DType::int32));
  auto starts = [&](int rank, std::string& names, std::string& kinds) {
    names = at, kinds = "tensor<i32>";
    for (int i = 1; i < rank; ++i) names += ", " + zero, kinds += ", tensor<i32>";
  };
  std::vector<std::string> body_args;
  std::size_t ys_at = 1 + n.carry, consts_at = ys_at + n.ys, xs_at = consts_at + n.consts;
  for (std::size_t i = 0; i < n.consts; ++i) body_args.push_back(args[consts_at + i]);
  for (std::size_t i = 0; i < n.carry; ++i) body_args.push_back(args[1 + i]);
  for (std::size_t i = 0; i < n.xs; ++i) {
    AvalP whole = types[xs_at + i], one = ins[n.consts + n.carry + i], row = with_shape(whole, one->shape.with(0, 1));
    std::string names, kinds;
    starts(whole->rank(), names, kinds);
    std::string slice = ctx.emit("stablehlo.dynamic_slice {}, {}, sizes = {} : ({}, {}) -> {}", args[xs_at + i], names,
                                 int_list(row->shape), whole->mlir, kinds, row->mlir);
    body_args.push_back(ctx.emit("stablehlo.reshape {} : ({}) -> {}", slice, row->mlir, one->mlir));
  }
  auto results = ctx.inline_jaxpr(s.jaxpr, body_args);
  std::string one = ctx.constant(Scalar(std::int64_t{1}, DType::int32));
  std::string ret = ctx.emit("stablehlo.add {}, {} : tensor<i32>", args[0], one);
  for (std::size_t i = 0; i < n.carry; ++i) ret += ", " + results[i];
  for (std::size_t i = 0; i < n.ys; ++i) {
    AvalP whole = types[ys_at + i], y = outs[n.carry + i], row = with_shape(y, y->shape.with(0, 1));
    std::string names, kinds;
    starts(whole->rank(), names, kinds);
    std::string update = ctx.emit("stablehlo.reshape {} : ({}) -> {}", results[n.carry + i], y->mlir, row->mlir);
    ret += ", " + ctx.emit("stablehlo.dynamic_update_slice {}, {}, {} : ({}, {}, {}) -> {}", args[ys_at + i], update,
                           names, whole->mlir, row->mlir, kinds, whole->mlir);
  }
  for (std::size_t i = consts_at; i < args.size(); ++i) ret += ", " + args[i];
  ctx.line("stablehlo.return " + ret + " : " + type_list);
  std::string body = ctx.end_region();
  auto got = ctx.emit_many(args.size(), "stablehlo.while(" + bindings + ") : " + type_list + "\n    cond {\n" + cond +
                                            "    } do {\n" + body + "    }");
  out.assign(got.begin() + 1, got.begin() + static_cast<std::ptrdiff_t>(1 + n.carry + n.ys));
}

}  // namespace

LOCKSTEP_PRIMITIVE(scan_p, {.name = "scan",
                            .abstract_eval = scan_abstract_eval,
                            .jvp = scan_jvp,
                            .linearize = scan_linearize,
                            .transpose = scan_transpose,
                            .batch = scan_batch,
                            .lower = scan_lower,
                            .multiple_results = true});

ScanOut bind_scan(const FlatFunction& body, std::span<const Array> init, std::span<const Array> xs, std::int64_t length,
                  bool reverse, std::int64_t unroll, std::span<const std::string> names) {
  Arrays carry(init.begin(), init.end());
  ClosedJaxpr traced;
  for (int round = 0;; ++round) {
    AvalList avals;
    for (auto& c : carry) avals.push_back(c.aval());
    for (auto& x : xs) avals.push_back(with_shape(x.aval(), x.shape().without(0)));
    traced = trace_to_jaxpr(body, avals, "scan", names);
    AvalList outs = traced->out_avals();
    bool again = false;
    for (std::size_t i = 0; i < carry.size(); ++i) {
      AvalP was = carry[i].aval(), now = outs[i];
      if (was == now) continue;
      // A weakly typed start (a C++ number) takes the type that the body gives it.
      if (round < 4 && was->weak_type && was->shape == now->shape) {
        carry[i] = convert(carry[i], now->dtype, now->weak_type);
        again = true;
      } else if (!(strong(was) == strong(now))) {
        throw_error(ErrorCode::shape, "scan",
                    "the body must return the carry with the types it came with: {} went in as {} and came out as {}",
                    i < names.size() ? names[i] : "leaf " + std::to_string(i), was->text, now->text);
      }
    }
    if (!again) break;
  }
  auto [closed, captured] = hoist_consts(traced);
  ScanParams p{closed, length, static_cast<int>(init.size()), static_cast<int>(captured.size()), reverse, unroll};
  Arrays outs = bind_many(scan_p, concat({captured, carry, xs}), make_params(p));
  auto split = outs.begin() + static_cast<std::ptrdiff_t>(init.size());
  return {Arrays(outs.begin(), split), Arrays(split, outs.end())};
}

}  // namespace lockstep

#include "lockstep/transforms/autodiff.h"

#include <list>
#include <map>

#include "lockstep/core/basic_ops.h"
#include "lockstep/support/error.h"

namespace lockstep {
namespace {

// Transformed jaxprs by (kind, jaxpr, masks). Only results that captured nothing are kept. Bounded: emptied when full.
template <class Result>
class TransformCache {
 public:
  template <class Make>
  const Result get(const ClosedJaxpr& j, std::vector<bool> key, Make&& make) {
    auto it = entries_.find({j.jaxpr.get(), key});
    if (it != entries_.end()) return it->second.result;
    Result made = make();
    if (!keepable(made)) return made;
    if (entries_.size() >= 2048) entries_.clear();
    entries_.emplace(std::pair{j.jaxpr.get(), std::move(key)}, Entry{j, made});
    return made;
  }

 private:
  static bool keepable(const Transformed& t) { return t.captured.empty(); }
  static bool keepable(const LinearizedJaxpr& t) { return t.primal.captured.empty(); }
  struct Entry {
    ClosedJaxpr key;  // keeps the address from being used again
    Result result;
  };
  std::map<std::pair<const Jaxpr*, std::vector<bool>>, Entry> entries_;
};

std::vector<bool> join_masks(std::initializer_list<const std::vector<bool>*> masks) {
  std::vector<bool> key;
  for (auto* m : masks) {
    key.insert(key.end(), m->begin(), m->end());
    key.push_back(true);
    key.push_back(m->empty());
  }
  return key;
}

void accumulate(Array& slot, const Array& ct) {
  if (!ct.has_value()) return;
  slot = slot.has_value() ? add_any(slot, ct) : ct;
}

}  // namespace

std::vector<bool> nonzero(std::span<const Array> tangents) {
  std::vector<bool> mask;
  for (auto& t : tangents) mask.push_back(t.has_value());
  return mask;
}
Arrays select_nonnull(std::span<const Array> values) {
  Arrays out;
  for (auto& v : values)
    if (v.has_value()) out.push_back(v);
  return out;
}
std::vector<bool> or_masks(const std::vector<bool>& a, const std::vector<bool>& b) {
  std::vector<bool> out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] || b[i];
  return out;
}
Arrays concat(std::initializer_list<std::span<const Array>> groups) {
  Arrays out;
  for (auto g : groups) out.insert(out.end(), g.begin(), g.end());
  return out;
}

JvpOut jvp_flat(const FlatFunction& f, std::span<const Array> primals, std::span<const Array> tangents,
                std::string what) {
  JvpTrace trace(std::move(what), nullptr);
  Arrays duals;
  for (std::size_t i = 0; i < primals.size(); ++i) duals.push_back(trace.dual(primals[i], tangents[i]));
  JvpOut out;
  for (auto& o : f(duals)) {
    auto [p, t] = trace.split(o);
    out.primals.push_back(std::move(p));
    out.tangents.push_back(std::move(t));
  }
  return out;
}

Linearized linearize_flat(const FlatFunction& f, std::span<const Array> primals, const std::vector<bool>& active,
                          std::string what) {
  JaxprTrace linear(what, JaxprTrace::Mode::linear);
  Linearized out;
  Arrays tangents;
  {
    JvpTrace jvp(std::move(what), &linear);
    Arrays duals;
    for (std::size_t i = 0; i < primals.size(); ++i)
      duals.push_back(active[i] ? jvp.dual(primals[i], linear.new_input(tangent_aval(primals[i].aval()))) : primals[i]);
    for (auto& o : f(duals)) {
      auto [p, t] = jvp.split(o);
      out.outs.push_back(std::move(p));
      out.nonzero_out.push_back(t.has_value());
      if (t.has_value()) tangents.push_back(std::move(t));
    }
  }
  out.linear = linear.finish(tangents, "linear");
  return out;
}

Arrays backward_pass(const Jaxpr& j, std::span<const Array> consts, std::span<const TransposeIn> args,
                     std::span<const Array> cotangents) {
  std::vector<bool> linear(j.num_vars(), false);
  Arrays env(j.num_vars()), cts(j.num_vars());
  for (std::size_t i = 0; i < consts.size(); ++i) env[j.constvars[i]] = consts[i];
  for (std::size_t i = 0; i < args.size(); ++i) {
    linear[j.invars[i]] = args[i].linear();
    env[j.invars[i]] = args[i].value;
  }
  auto read = [&](Atom a) {
    if (!is_literal(a)) return env[a];
    auto& l = j.literals[~a];
    return Array(ValueRef(new ScalarValue(l.value, l.aval->weak_type)));
  };
  std::vector<const Eqn*> linear_eqns;
  Arrays in;
  for (const Eqn& e : j.eqns) {
    bool any = false;
    for (Atom a : j.in(e)) any = any || (!is_literal(a) && linear[a]);
    if (any) {
      for (VarId v : j.out(e)) linear[v] = true;
      linear_eqns.push_back(&e);
      continue;
    }
    in.clear();
    for (Atom a : j.in(e)) in.push_back(read(a));
    LocationOverride where(e.where);
    Arrays out = bind_many(*e.primitive, in, e.params);
    for (std::size_t i = 0; i < out.size(); ++i) env[j.out(e)[i]] = std::move(out[i]);
  }
  for (std::size_t i = 0; i < j.outvars.size(); ++i)
    if (!is_literal(j.outvars[i]) && linear[j.outvars[i]]) accumulate(cts[j.outvars[i]], cotangents[i]);

  std::vector<TransposeIn> operands;
  Arrays ct_in;
  for (std::size_t n = linear_eqns.size(); n-- > 0;) {
    const Eqn& e = *linear_eqns[n];
    ct_in.clear();
    bool any = false;
    for (VarId v : j.out(e)) {
      ct_in.push_back(std::move(cts[v]));
      any = any || ct_in.back().has_value();
    }
    if (!any) continue;
    LocationOverride where(e.where);
    if (e.primitive->transpose == nullptr)
      throw_error(ErrorCode::missing_rule, e.primitive->name, "has no transposition rule, needed for reverse mode");
    operands.clear();
    for (Atom a : j.in(e)) operands.push_back({j.aval(a), !is_literal(a) && linear[a] ? Array() : read(a)});
    Arrays out = e.primitive->transpose(e.params, ct_in, operands);
    LS_CHECK(out.size() == operands.size(), "transpose of {}", e.primitive->name);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (operands[i].linear()) accumulate(cts[j.in(e)[i]], out[i]);
  }
  Arrays result;
  for (std::size_t i = 0; i < args.size(); ++i)
    result.push_back(args[i].linear() ? std::move(cts[j.invars[i]]) : Array());
  return result;
}
Arrays backward_pass(const ClosedJaxpr& linear, std::span<const Array> cotangents) {
  Arrays consts;
  for (auto& c : *linear.consts) consts.emplace_back(c);
  std::vector<TransposeIn> args;
  for (VarId v : linear->invars) args.push_back({linear->vars[v], Array()});
  return backward_pass(*linear, consts, args, cotangents);
}

JvpJaxpr jvp_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& nonzero_in, const std::vector<bool>& instantiate) {
  thread_local TransformCache<JvpJaxpr> cache;
  return cache.get(j, join_masks({&nonzero_in, &instantiate}), [&] {
    JvpJaxpr result;
    AvalList avals = j->in_avals();
    std::size_t n = avals.size();
    for (std::size_t i = 0; i < n; ++i)
      if (nonzero_in[i]) avals.push_back(tangent_aval(avals[i]));
    auto traced = trace_to_jaxpr(
        [&](std::span<const Array> args) {
          Arrays tangents(n);
          std::size_t next = n;
          for (std::size_t i = 0; i < n; ++i)
            if (nonzero_in[i]) tangents[i] = args[next++];
          auto out = jvp_flat([&](std::span<const Array> a) { return eval_jaxpr(j, a); }, args.first(n), tangents,
                              "jvp(" + j->name + ")");
          Arrays outs = out.primals;
          for (std::size_t i = 0; i < out.tangents.size(); ++i) {
            Array t = out.tangents[i];
            if (!t.has_value() && !instantiate.empty() && instantiate[i])
              t = zeros(tangent_aval(out.primals[i].aval()));
            result.nonzero_out.push_back(t.has_value());
            if (t.has_value()) outs.push_back(t);
          }
          return outs;
        },
        avals, j->name);
    std::tie(result.jaxpr, result.captured) = hoist_consts(traced);
    return result;
  });
}

LinearizedJaxpr linearize_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& nonzero_in,
                                const std::vector<bool>& instantiate) {
  thread_local TransformCache<LinearizedJaxpr> cache;
  return cache.get(j, join_masks({&nonzero_in, &instantiate}), [&] {
    LinearizedJaxpr result;
    AvalList avals = j->in_avals();
    std::size_t num_outs = j->outvars.size();
    auto traced = trace_to_jaxpr(
        [&](std::span<const Array> args) {
          auto lin = linearize_flat(
              [&](std::span<const Array> a) {
                Arrays outs = eval_jaxpr(j, a);
                return outs;
              },
              args, nonzero_in, j->name);
          result.nonzero_out = lin.nonzero_out;
          Arrays outs = lin.outs;
          for (auto& r : *lin.linear.consts) {
            outs.emplace_back(r);
            result.residuals.push_back(r->aval());
            int is_input = -1;
            for (std::size_t i = 0; i < args.size(); ++i)
              if (args[i].value() == r.get()) is_input = static_cast<int>(i);
            result.residual_is_input.push_back(is_input);
          }
          result.tangent = hoist_consts(lin.linear).first;
          return outs;
        },
        avals, j->name);
    std::tie(result.primal.jaxpr, result.primal.captured) = hoist_consts(traced);
    bool missing = false;
    for (std::size_t i = 0; i < num_outs; ++i)
      missing = missing || (!instantiate.empty() && instantiate[i] && !result.nonzero_out[i]);
    if (missing) {  // the tangent jaxpr again, with zeros where they are wanted
      auto plain = result.tangent;
      auto had = result.nonzero_out;
      AvalList out_avals = j->out_avals();
      result.tangent = trace_to_jaxpr(
          [&](std::span<const Array> args) {
            Arrays computed = eval_jaxpr(plain, args), outs;
            std::size_t next = 0;
            for (std::size_t i = 0; i < num_outs; ++i) {
              if (had[i])
                outs.push_back(computed[next++]);
              else if (instantiate[i])
                outs.push_back(zeros(tangent_aval(out_avals[i])));
            }
            return outs;
          },
          plain->in_avals(), j->name);
      for (std::size_t i = 0; i < num_outs; ++i) result.nonzero_out[i] = had[i] || instantiate[i];
    }
    return result;
  });
}

Transformed transpose_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& linear_in,
                            const std::vector<bool>& nonzero_cotangents) {
  thread_local TransformCache<Transformed> cache;
  return cache.get(j, join_masks({&linear_in, &nonzero_cotangents}), [&] {
    AvalList ins = j->in_avals(), outs = j->out_avals(), avals;
    for (std::size_t i = 0; i < ins.size(); ++i)
      if (!linear_in[i]) avals.push_back(ins[i]);
    std::size_t known = avals.size();
    for (std::size_t i = 0; i < outs.size(); ++i)
      if (nonzero_cotangents[i]) avals.push_back(outs[i]);
    auto traced = trace_to_jaxpr(
        [&](std::span<const Array> args) {
          std::vector<TransposeIn> operands;
          std::size_t next = 0;
          for (std::size_t i = 0; i < ins.size(); ++i)
            operands.push_back({ins[i], linear_in[i] ? Array() : args[next++]});
          Arrays cts(outs.size());
          next = known;
          for (std::size_t i = 0; i < outs.size(); ++i)
            if (nonzero_cotangents[i]) cts[i] = args[next++];
          Arrays consts;
          for (auto& c : *j.consts) consts.emplace_back(c);
          Arrays all = backward_pass(*j, consts, operands, cts), wanted;
          for (std::size_t i = 0; i < ins.size(); ++i)
            if (linear_in[i]) wanted.push_back(all[i].has_value() ? all[i] : zeros(ins[i]));
          return wanted;
        },
        avals, "transpose(" + j->name + ")");
    Transformed result;
    std::tie(result.jaxpr, result.captured) = hoist_consts(traced);
    return result;
  });
}

}  // namespace lockstep

#include "lockstep/core/jaxpr.h"

#include "lockstep/core/printer.h"

namespace lockstep {

AvalList Jaxpr::in_avals() const {
  AvalList out;
  for (VarId v : invars) out.push_back(vars[v]);
  return out;
}
AvalList Jaxpr::out_avals() const {
  AvalList out;
  for (Atom a : outvars) out.push_back(aval(a));
  return out;
}

std::size_t hash_param(const ClosedJaxpr& v) { return std::hash<const void*>()(v.jaxpr.get()); }
void internal::collect_jaxprs(const ClosedJaxpr& j, std::vector<const ClosedJaxpr*>& out) { out.push_back(&j); }

VarId JaxprBuilder::add_invar(AvalP aval) {
  VarId v = new_var(aval);
  jaxpr_->invars.push_back(v);
  return v;
}
VarId JaxprBuilder::add_constvar(AvalP aval) {
  VarId v = new_var(aval);
  jaxpr_->constvars.push_back(v);
  return v;
}
Atom JaxprBuilder::literal(AvalP aval, Scalar value) {
  jaxpr_->literals.push_back({aval, value});
  return ~static_cast<Atom>(jaxpr_->literals.size() - 1);
}
std::span<const VarId> JaxprBuilder::add(const Primitive& primitive, const ParamsRef& params, std::span<const Atom> in,
                                         std::span<const AvalP> out, LocationId where) {
  Jaxpr& j = *jaxpr_;
  auto begin = static_cast<std::uint32_t>(j.arena.size());
  j.arena.insert(j.arena.end(), in.begin(), in.end());
  for (AvalP a : out) j.arena.push_back(new_var(a));
  if (params && !params->interned()) j.owned_params.push_back(params);
  j.eqns.push_back({&primitive, params.get(), begin, static_cast<std::uint16_t>(in.size()),
                    static_cast<std::uint16_t>(out.size()), where});
  return j.out(j.eqns.back());
}

void check_jaxpr(const Jaxpr& j) {
  std::vector<bool> defined(j.num_vars(), false);
  auto context = [&](std::size_t at) {
    std::string text;
    for (std::size_t i = at < 3 ? 0 : at - 3; i < std::min(at + 3, j.eqns.size()); ++i)
      text += (i == at ? "\n >> " : "\n    ") + to_string(j, j.eqns[i]);
    return text;
  };
  auto define = [&](VarId v, std::size_t at) {
    LS_CHECK(v >= 0 && v < static_cast<VarId>(j.num_vars()) && !defined[v], "variable {} is defined twice{}", v,
             context(at));
    defined[v] = true;
  };
  for (VarId v : j.constvars) define(v, 0);
  for (VarId v : j.invars) define(v, 0);
  for (std::size_t i = 0; i < j.eqns.size(); ++i) {
    const Eqn& e = j.eqns[i];
    AvalList in, want;
    for (Atom a : j.in(e)) {
      LS_CHECK(is_literal(a) || defined[a], "operand {} of {} is not defined{}", a, e.primitive->name, context(i));
      in.push_back(j.aval(a));
    }
    if (e.params && !e.primitive->mesh) {  // a mesh's axes are bound only while its jaxpr is traced, which checks it
      std::vector<const ClosedJaxpr*> inner;
      e.params->jaxprs(inner);
      for (auto* c : inner)
        if (*c) check_jaxpr(**c);
    }
    e.primitive->abstract_eval(e.params, in, want);
    LS_CHECK(want.size() == e.num_out, "{} has {} results, its rule gives {}{}", e.primitive->name, e.num_out,
             want.size(), context(i));
    for (std::size_t k = 0; k < want.size(); ++k) {
      AvalP have = j.vars[j.out(e)[k]];
      LS_CHECK(strong(want[k]) == strong(have), "result {} of {} is {}, its rule gives {}{}", k, e.primitive->name,
               have->text, want[k]->text, context(i));
      define(j.out(e)[k], i);
    }
  }
  for (Atom a : j.outvars) LS_CHECK(is_literal(a) || defined[a], "a result is not defined");
}

std::shared_ptr<const Jaxpr> dead_code_eliminate(const Jaxpr& j, const std::vector<bool>& used) {
  std::vector<bool> live(j.num_vars(), false);
  auto mark = [&](Atom a) {
    if (!is_literal(a)) live[a] = true;
  };
  auto out = std::make_shared<Jaxpr>();
  for (std::size_t i = 0; i < j.outvars.size(); ++i)
    if (used.empty() || used[i]) {
      mark(j.outvars[i]);
      out->outvars.push_back(j.outvars[i]);
    }
  std::vector<bool> keep(j.eqns.size());
  for (std::size_t i = j.eqns.size(); i-- > 0;) {
    const Eqn& e = j.eqns[i];
    bool needed = e.primitive->has_effects;
    for (VarId v : j.out(e)) needed = needed || live[v];
    keep[i] = needed;
    if (needed)
      for (Atom a : j.in(e)) mark(a);
  }
  out->vars = j.vars;
  out->literals = j.literals;
  out->arena = j.arena;
  out->constvars = j.constvars;
  out->invars = j.invars;
  out->owned_params = j.owned_params;
  out->name = j.name;
  for (std::size_t i = 0; i < j.eqns.size(); ++i)
    if (keep[i]) out->eqns.push_back(j.eqns[i]);
  return out;
}

std::size_t count_equations(const Jaxpr& j) {
  std::size_t n = j.eqns.size();
  for (const Eqn& e : j.eqns) {
    if (!e.params) continue;
    std::vector<const ClosedJaxpr*> inner;
    e.params->jaxprs(inner);
    for (auto* c : inner)
      if (*c) n += count_equations(**c);
  }
  return n;
}

}  // namespace lockstep

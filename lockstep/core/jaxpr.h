// The typed program: equations of primitives in single assignment, JAX's jaxpr.
//
// Flat: equations of fixed size in one vector, operand and result ids in one arena, avals interned, parameters interned
// or owned by the jaxpr. A finished jaxpr is immutable and shared.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/core/value.h"
#include "lockstep/support/location.h"

namespace lockstep {

using VarId = std::int32_t;
using Atom = std::int32_t;  // a variable (>= 0), or the literal ~atom (< 0)
inline bool is_literal(Atom a) { return a < 0; }

struct Eqn {
  const Primitive* primitive;
  const Params* params;  // null if the primitive has none; kept alive by the jaxpr
  std::uint32_t arena;   // operands, then results, from here in the arena
  std::uint16_t num_in, num_out;
  LocationId where;
};

struct LiteralValue {
  AvalP aval;
  Scalar value;
};

class Jaxpr {
 public:
  std::span<const Atom> in(const Eqn& e) const { return {arena.data() + e.arena, e.num_in}; }
  std::span<const VarId> out(const Eqn& e) const { return {arena.data() + e.arena + e.num_in, e.num_out}; }
  AvalP aval(Atom a) const { return is_literal(a) ? literals[~a].aval : vars[a]; }
  std::size_t num_vars() const { return vars.size(); }
  AvalList in_avals() const;
  AvalList out_avals() const;

  std::vector<AvalP> vars;  // by VarId
  std::vector<LiteralValue> literals;
  std::vector<std::int32_t> arena;
  std::vector<Eqn> eqns;
  std::vector<VarId> constvars, invars;
  std::vector<Atom> outvars;
  std::vector<ParamsRef> owned_params;
  std::string name;  // of the function it was traced from, for printing
};

// A jaxpr and the values of its constvars. A cheap shared value.
class ClosedJaxpr {
 public:
  ClosedJaxpr() = default;
  ClosedJaxpr(std::shared_ptr<const Jaxpr> j, std::vector<ValueRef> consts = {})
      : jaxpr(std::move(j)), consts(std::make_shared<const std::vector<ValueRef>>(std::move(consts))) {}
  const Jaxpr& operator*() const { return *jaxpr; }
  const Jaxpr* operator->() const { return jaxpr.get(); }
  explicit operator bool() const { return jaxpr != nullptr; }
  bool operator==(const ClosedJaxpr&) const = default;

  std::shared_ptr<const Jaxpr> jaxpr;
  std::shared_ptr<const std::vector<ValueRef>> consts;
};

// Appends equations to a jaxpr under construction.
class JaxprBuilder {
 public:
  JaxprBuilder() : jaxpr_(std::make_shared<Jaxpr>()) {}
  VarId new_var(AvalP aval) {
    jaxpr_->vars.push_back(aval);
    return static_cast<VarId>(jaxpr_->vars.size() - 1);
  }
  VarId add_invar(AvalP aval);
  VarId add_constvar(AvalP aval);
  Atom literal(AvalP aval, Scalar value);
  // Returns the ids of the results, valid until the next call.
  std::span<const VarId> add(const Primitive& primitive, const ParamsRef& params, std::span<const Atom> in,
                             std::span<const AvalP> out, LocationId where);
  Jaxpr& jaxpr() { return *jaxpr_; }
  const Jaxpr& jaxpr() const { return *jaxpr_; }
  std::shared_ptr<const Jaxpr> finish() { return std::move(jaxpr_); }

 private:
  std::shared_ptr<Jaxpr> jaxpr_;
};

std::string to_string(const ClosedJaxpr& j);
std::string to_string(const Jaxpr& j);
// One equation, with its operands' types, for messages.
std::string to_string(const Jaxpr& j, const Eqn& e);

// Verifies single assignment, that operands are defined before use, and that every equation's abstract_eval gives the
// avals it states; recurses into the jaxprs in parameters. Aborts (LS_CHECK) quoting the bad equation and its
// neighbours.
void check_jaxpr(const Jaxpr& j);

// The equations that `used` results (all if empty) or effects need; unused variables stay numbered. `keep_inputs`: the
// invars are kept as they are.
std::shared_ptr<const Jaxpr> dead_code_eliminate(const Jaxpr& j, const std::vector<bool>& used = {});

// Total number of equations, those in parameters included.
std::size_t count_equations(const Jaxpr& j);

}  // namespace lockstep

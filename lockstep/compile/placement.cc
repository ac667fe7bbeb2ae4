#include "lockstep/compile/placement.h"

#include <cctype>

#include "lockstep/lower/context.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

// Each donated input to the first result of its type that is still free, as JAX does; the rest may be reused anyhow.
void assign_aliases(const Jaxpr& j, const std::vector<bool>& donated, std::vector<LowerArgument>& in) {
  std::vector<bool> taken(j.outvars.size(), false);
  for (std::size_t i = 0; i < j.invars.size(); ++i) {
    if (!donated[i]) continue;
    in[i].donated = true;
    AvalP want = strong(j.vars[j.invars[i]]);
    for (std::size_t k = 0; k < j.outvars.size(); ++k)
      if (!taken[k] && strong(j.aval(j.outvars[k])) == want) {
        taken[k] = true;
        in[i].aliased_output = static_cast<int>(k);
        break;
      }
  }
}

}  // namespace

Lowered lower_program(const ProgramRequest& request) {
  Lowered out;
  out.name = request.name;
  out.donated = request.donated;
  auto live = dead_code_eliminate(*request.jaxpr);
  auto trimmed = std::make_shared<Jaxpr>(*live);
  std::vector<bool> used(live->num_vars(), request.keep_unused);
  for (const Eqn& e : live->eqns)
    for (Atom a : live->in(e))
      if (!is_literal(a)) used[a] = true;
  for (Atom a : live->outvars)
    if (!is_literal(a)) used[a] = true;

  ModuleOptions options;
  options.name = "jit_" + (request.name.empty() ? std::string("fn") : request.name);
  for (char& c : options.name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  trimmed->invars.clear();
  std::vector<bool> donated;
  for (std::size_t i = 0; i < live->invars.size(); ++i) {
    bool keep = used[live->invars[i]];
    out.kept.push_back(keep);
    if (!keep) continue;
    trimmed->invars.push_back(live->invars[i]);
    options.in.emplace_back();
    donated.push_back(!request.donated.empty() && request.donated[i]);
  }
  assign_aliases(*trimmed, donated, options.in);
  options.out.resize(trimmed->outvars.size());
  for (Atom a : trimmed->outvars) out.weak_types += trimmed->aval(a)->weak_type ? 'w' : '.';
  out.text = lower_to_stablehlo(ClosedJaxpr(std::move(trimmed)), options);
  return out;
}

}  // namespace lockstep::compile

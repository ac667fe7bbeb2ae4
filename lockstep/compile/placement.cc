#include "lockstep/compile/placement.h"

#include <cctype>

#include "lockstep/lower/context.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

void use_mesh(Mesh& mesh, const Mesh& other, const std::string& name) {
  if (!other) return;
  if (mesh && !(mesh == other))
    throw_error(ErrorCode::sharding, "jit(" + name + ")",
                "arrays and shardings of one program must be over one mesh; here are {} and {}", to_string(mesh),
                to_string(other));
  mesh = other;
}

// Each donated input to the first result of its type that is still free, as JAX does; the rest may be reused anyhow.
// Over a mesh the layouts must be equal as well, where they are known.
void assign_aliases(const Jaxpr& j, const std::vector<bool>& donated, std::vector<LowerArgument>& in,
                    const std::vector<LowerArgument>& out) {
  std::vector<bool> taken(j.outvars.size(), false);
  for (std::size_t i = 0; i < j.invars.size(); ++i) {
    if (!donated[i]) continue;
    in[i].donated = true;
    AvalP want = strong(j.vars[j.invars[i]]);
    for (std::size_t k = 0; k < j.outvars.size(); ++k)
      if (!taken[k] && strong(j.aval(j.outvars[k])) == want &&
          (out[k].sharding.empty() || out[k].sharding == in[i].sharding)) {
        taken[k] = true;
        in[i].aliased_output = static_cast<int>(k);
        break;
      }
  }
}

// The mesh of the equations that name one.
void find_mesh(const Jaxpr& j, Mesh& mesh, const std::string& name) {
  for (const Eqn& e : j.eqns) {
    if (e.primitive->mesh)
      if (const Mesh* m = e.primitive->mesh(e.params)) use_mesh(mesh, *m, name);
    if (!e.params) continue;
    std::vector<const ClosedJaxpr*> inner;
    e.params->jaxprs(inner);
    for (auto* c : inner)
      if (*c) find_mesh(**c, mesh, name);
  }
}

// What an argument or result is on the mesh: a default device's array is copied to all of it.
const Sharding* on_mesh(const Sharding* s, const Mesh& mesh) {
  if (s == nullptr || s->kind() == Sharding::Kind::single_device) return &named_sharding(mesh, PartitionSpec());
  return s->canonical();
}

}  // namespace

std::string Lowered::key() const {
  std::string k = weak_types + "|" + text;
  if (mesh) {
    k += "|" + to_string(mesh);
    for (int id : mesh.device_ids()) k += "," + std::to_string(id);
  }
  return k;
}

Lowered lower_program(const ProgramRequest& request) {
  Lowered out;
  out.name = request.name;
  out.donated = request.donated;
  out.where = request.where;
  for (auto* list : {&request.in, &request.out})
    for (const Sharding* s : *list)
      if (s && s->kind() == Sharding::Kind::named) use_mesh(out.mesh, s->mesh(), request.name);
  find_mesh(*request.jaxpr, out.mesh, request.name);
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
  options.out.resize(trimmed->outvars.size());
  if (out.mesh) {
    options.num_partitions = out.mesh.size();
    options.meshes = {out.mesh};
    for (auto& a : out.mesh.axes()) options.axes.push_back({a.name, a.size, false});
    auto attribute = [](const Sharding& s, int rank) { return "#sdy.sharding" + sdy_sharding(s.spec(), rank); };
    std::size_t next = 0;
    for (std::size_t i = 0; i < live->invars.size(); ++i) {
      out.in.push_back(on_mesh(i < request.in.size() ? request.in[i] : nullptr, out.mesh));
      if (out.kept[i]) options.in[next++].sharding = attribute(*out.in[i], live->vars[live->invars[i]]->rank());
    }
    for (std::size_t i = 0; i < options.out.size(); ++i) {
      const Sharding* s = i < request.out.size() ? request.out[i] : nullptr;
      out.out.push_back(s ? on_mesh(s, out.mesh) : nullptr);
      if (s) options.out[i].sharding = attribute(*out.out[i], trimmed->aval(trimmed->outvars[i])->rank());
    }
  }
  assign_aliases(*trimmed, donated, options.in, options.out);
  for (Atom a : trimmed->outvars) out.weak_types += trimmed->aval(a)->weak_type ? 'w' : '.';
  if (!out.mesh) {
    out.text = lower_to_stablehlo(ClosedJaxpr(std::move(trimmed)), options);
  } else {
    options.locations = &out.locations;
    out.located_text = lower_to_stablehlo(ClosedJaxpr(std::move(trimmed)), options);
    out.text = without_locations(out.located_text);
  }
  return out;
}

}  // namespace lockstep::compile

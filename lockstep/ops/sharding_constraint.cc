#include "lockstep/ops/sharding_constraint.h"

#include "lockstep/core/printer.h"
#include "lockstep/lower/context.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

struct ConstraintParams {
  // `mapped`: a dimension that vmap put in front of those that the spec speaks of; the compiler decides about it.
  const Sharding* sharding;
  int mapped = 0;
};
std::size_t hash_param(const Sharding* s) { return std::hash<const void*>()(s); }
void print_param(Printer& p, const Sharding* s) { p.text += to_string(*s); }

void constraint_abstract_eval(const Params*, std::span<const AvalP> in, AvalList& out) { out.push_back(in[0]); }
Array constrain(const Params* p, const Array& x) { return bind_one(sharding_constraint_p, {x}, ParamsRef(p)); }

JvpOut constraint_jvp(const Params* p, std::span<const Array> primals, std::span<const Array> tangents) {
  return {{constrain(p, primals[0])}, {constrain(p, tangents[0])}};
}
std::vector<Array> constraint_transpose(const Params* p, std::span<const Array> cts, std::span<const TransposeIn>) {
  return {cts[0].has_value() ? constrain(p, cts[0]) : Array()};
}
BatchOut constraint_batch(const Params* p, const BatchIn& in) {
  const auto& c = p->get<ConstraintParams>();
  int dim = in.dims[0];
  std::vector<SpecEntry> entries = c.sharding->spec().entries();
  if (dim <= static_cast<int>(entries.size())) entries.insert(entries.begin() + dim, SpecEntry(unconstrained));
  const Sharding& s = named_sharding(c.sharding->mesh(), PartitionSpec(std::move(entries)));
  return {{bind_one(sharding_constraint_p, {in.args[0]}, make_params(ConstraintParams{&s, c.mapped + 1}))}, {dim}};
}
void constraint_lower(LowerContext& ctx, const Params* p, std::span<const AvalP> in_avals, std::span<const AvalP>,
                      std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& c = p->get<ConstraintParams>();
  // <@mesh, [...]> without the attribute's name
  std::string attribute = sdy_sharding(c.sharding->spec(), in_avals[0]->rank(), ctx.mesh_symbol);
  out.push_back(ctx.emit("sdy.sharding_constraint {} {} : {}", in[0], attribute, in_avals[0]->mlir));
}
const Mesh* constraint_mesh(const Params* p) { return &p->get<ConstraintParams>().sharding->mesh(); }

}  // namespace

LOCKSTEP_PRIMITIVE(sharding_constraint_p, {.name = "sharding_constraint",
                                           .abstract_eval = constraint_abstract_eval,
                                           .jvp = constraint_jvp,
                                           .transpose = constraint_transpose,
                                           .batch = constraint_batch,
                                           .lower = constraint_lower,
                                           .mesh = constraint_mesh});

namespace lax {

Array with_sharding_constraint(const Array& x, const ShardingLike& sharding, std::source_location where) {
  LocationScope scope(where);
  const Sharding& s = sharding.resolve("with_sharding_constraint");
  s.check(x.shape(), "with_sharding_constraint", "the array");
  if (s.kind() == Sharding::Kind::single_device) return x;
  return bind_one(sharding_constraint_p, {x}, make_params(ConstraintParams{&s}));
}

}  // namespace lax
}  // namespace lockstep

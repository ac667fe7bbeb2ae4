#include "lockstep/ops/sharding.h"

#include "lockstep/compile/program.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/examples.h"
#include "lockstep/runtime/arrays.h"
#include "lockstep/support/error.h"

namespace lockstep {
namespace {

ParamsRef constraint_params(const Mesh& mesh, PartitionSpec spec) {
  Ints open;
  for (std::size_t d = 0; d < spec.size(); ++d)
    if (spec[d].unconstrained) open.push_back(static_cast<std::int64_t>(d));
  return make_params(ShardingConstraintParams{current_mesh(), {}, {mesh, std::move(spec)}, {open}});
}
const NamedSpec& spec_of(const Params* params) { return params->get<ShardingConstraintParams>().sharding; }

Array constrain(const Array& x, const Mesh& mesh, const PartitionSpec& spec) {
  check_spec(mesh, spec, x.shape(), "with_sharding_constraint");
  return bind_one(sharding_constraint_p, {x}, constraint_params(mesh, spec));
}

// An identity program, which all processes of the two shardings run together.
Array place_by_program(const Array& x, const Sharding& target) {
  JaxprBuilder builder;
  builder.jaxpr().outvars.push_back(builder.add_invar(x.aval()));
  compile::ProgramRequest request{.jaxpr = ClosedJaxpr(builder.finish()), .name = "device_put"};
  request.in = {runtime::as_concrete(x.value())->sharding()};
  request.out = {&target};
  ValueRef out;
  Value* in = x.value();
  compile::compile(request)->run({&in, 1}, &out, current_location());
  return Array(out);
}

}  // namespace

Array place(const Array& x, const Sharding& target, const char* operation) {
  if (x.value()->kind() == Value::Kind::scalar) {
    auto* s = static_cast<const ScalarValue*>(x.value());
    ValueRef array = runtime::scalar_array(s->scalar, s->aval()->weak_type);
    return Array(runtime::reshard(*runtime::as_concrete(array.get()), target, operation));
  }
  auto& array = *runtime::as_concrete(x.value());
  bool readable = runtime::is_fully_addressable(array) || runtime::sharding_of(array).is_fully_replicated();
  if (!readable && runtime::sharding_of(array).canonical() != target.canonical()) return place_by_program(x, target);
  return Array(runtime::reshard(array, target, operation));
}

// ---- sharding_constraint ----

Array lax::with_sharding_constraint(const Operand& x, const ShardingLike& sharding) {
  LocationScope scope(x.where);
  if (!sharding.is_bare())
    return with_sharding_constraint(x, sharding.resolve("with_sharding_constraint").mesh(), sharding.spec());
  Mesh mesh = current_mesh();
  if (!mesh) sharding.resolve("with_sharding_constraint");
  return constrain(x.array, mesh, sharding.spec());
}
Array lax::with_sharding_constraint(const Operand& x, const Mesh& mesh, const PartitionSpec& spec) {
  LocationScope scope(x.where);
  return constrain(x.array, mesh, spec);
}

namespace {

void constraint_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_spec(spec_of(params).mesh, spec_of(params).spec, in[0]->shape, "sharding_constraint");
  out.push_back(in[0]);
}
JvpOut constraint_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& s = spec_of(params);
  return {{constrain(primals[0], s.mesh, s.spec)}, {constrain(tangents[0], s.mesh, s.spec)}};
}
std::vector<Array> constraint_transpose(const Params* params, std::span<const Array> cotangents,
                                        std::span<const TransposeIn>) {
  if (!cotangents[0].has_value()) return {Array()};
  return {constrain(cotangents[0], spec_of(params).mesh, spec_of(params).spec)};
}
BatchOut constraint_batch(const Params* params, const BatchIn& in) {
  auto& s = spec_of(params);
  auto entries = s.spec.entries();
  auto dim = static_cast<std::size_t>(in.dims[0]);
  if (entries.size() < dim) entries.resize(dim, SpecEntry(none));
  entries.insert(entries.begin() + in.dims[0], SpecEntry(unconstrained));
  return {{constrain(in.args[0], s.mesh, PartitionSpec(std::move(entries)))}, {in.dims[0]}};
}
void constraint_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals, std::span<const AvalP>,
                      std::span<const std::string> in, std::vector<std::string>& out) {
  auto& s = spec_of(params);
  out.push_back(ctx.emit("sdy.sharding_constraint {} {} : {}", in[0],
                         sdy_sharding(s.spec, in_avals[0]->rank(), ctx.symbol_of(s.mesh)), in_avals[0]->mlir));
}
std::vector<Array> constraint_evaluate(const Params* params, std::span<const Array> in) {
  std::vector<SpecEntry> entries;
  for (const SpecEntry& e : spec_of(params).spec.entries()) entries.push_back(e.unconstrained ? SpecEntry(none) : e);
  return {place(in[0], named_sharding(spec_of(params).mesh, PartitionSpec(std::move(entries))), "sharding_constraint")};
}
const Mesh* constraint_mesh(const Params* params) { return &spec_of(params).mesh; }
std::vector<Example> constraint_examples() {
  Mesh one({{"x", 1}, {"y", 1}}, {0});
  return {{.label = "split", .in = {examples::array({4, 3}, DType::float32)}, .params = constraint_params(one, P("x"))},
          {.label = "open",
           .in = {examples::array({2, 3}, DType::float32)},
           .params = constraint_params(one, P(unconstrained, {"y", "x"}))},
          {.label = "scalar", .in = {examples::array({}, DType::int32)}, .params = constraint_params(one, P())}};
}

}  // namespace
LOCKSTEP_PRIMITIVE(sharding_constraint_p, {.name = "sharding_constraint",
                                           .abstract_eval = constraint_aval,
                                           .jvp = constraint_jvp,
                                           .transpose = constraint_transpose,
                                           .batch = constraint_batch,
                                           .lower = constraint_lower,
                                           .evaluate = constraint_evaluate,
                                           .examples = constraint_examples,
                                           .mesh = constraint_mesh});

}  // namespace lockstep

#include "lockstep/transforms/shard_map.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/core/printer.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/collectives.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/structural.h"
#include "lockstep/sharding/params.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/batching.h"

namespace lockstep {
namespace {

using Mask = std::vector<bool>;
using Specs = std::vector<PartitionSpec>;

struct ShardMapParams {
  bool check_vma = false;
  Specs in_specs;
  ClosedJaxpr jaxpr;
  Mesh mesh;
  Specs out_specs;
};

// The mesh's axes are bound while its jaxpr is traced or rewritten.
std::vector<NamedAxis> axes_of(const Mesh& mesh) {
  std::vector<NamedAxis> out;
  for (auto& a : mesh.axes()) out.push_back({a.name, a.size, nullptr});
  return out;
}
AvalP part(AvalP whole, const Mesh& mesh, const PartitionSpec& spec) {
  return with_shape(whole, named_sharding(mesh, spec).shard_shape(whole->shape));
}
AvalP whole(AvalP part, const Mesh& mesh, const PartitionSpec& spec) {
  const Sharding& s = named_sharding(mesh, spec);
  Shape shape = part->shape;
  for (int d = 0; d < shape.rank(); ++d) shape[static_cast<std::size_t>(d)] *= s.parts(d);
  return with_shape(part, shape);
}
std::vector<std::string> unmentioned(const Mesh& mesh, const PartitionSpec& spec) {
  std::vector<std::string> out;
  for (auto& a : mesh.axes())
    if (!spec.mentions(a.name)) out.push_back(a.name);
  return out;
}
PartitionSpec all_axes(const Mesh& mesh) {
  std::vector<std::string> names;
  for (auto& a : mesh.axes()) names.push_back(a.name);
  return PartitionSpec({SpecEntry(names)});
}
Arrays bind_params(ShardMapParams p, const Arrays& args) {
  return bind_many(shard_map_p, args, make_params(std::move(p)));
}
ShardMapParams with(const ShardMapParams& p, const Transformed& t, Specs in, Specs out) {
  LS_CHECK(t.captured.empty());
  return {p.check_vma, std::move(in), t.jaxpr, p.mesh, std::move(out)};
}
void append_masked(Specs& to, const Specs& from, const Mask& mask) {
  for (std::size_t i = 0; i < from.size(); ++i)
    if (mask[i]) to.push_back(from[i]);
}

void shard_map_aval(const Params* params, std::span<const AvalP>, AvalList& out) {
  const auto& p = params->get<ShardMapParams>();
  AvalList parts = p.jaxpr->out_avals();
  for (std::size_t i = 0; i < parts.size(); ++i) out.push_back(whole(parts[i], p.mesh, p.out_specs[i]));
}
JvpOut shard_map_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  const auto& p = params->get<ShardMapParams>();
  AxisScope scope(axes_of(p.mesh));
  Mask nz = nonzero(tangents);
  auto t = jvp_jaxpr(p.jaxpr, nz);
  Specs in = p.in_specs, out_specs = p.out_specs;
  append_masked(in, p.in_specs, nz);
  append_masked(out_specs, p.out_specs, t.nonzero_out);
  Arrays outs = bind_params(with(p, t, in, out_specs), concat({primals, select_nonnull(tangents)}));
  std::size_t n = p.out_specs.size(), next = n;
  JvpOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n)), Arrays(n)};
  for (std::size_t i = 0; i < n; ++i)
    if (t.nonzero_out[i]) out.tangents[i] = outs[next++];
  return out;
}

// Residuals differ between devices in ways that no spec says: they leave the first half stacked over all devices along
// their first dimension, and come into the second half the same way.
LinearizeOut shard_map_linearize(const Params* params, std::span<const Array> primals,
                                 std::span<const Array> tangents) {
  const auto& p = params->get<ShardMapParams>();
  AxisScope scope(axes_of(p.mesh));
  Mask nz = nonzero(tangents);
  auto lin = linearize_jaxpr(p.jaxpr, nz);
  LS_CHECK(lin.primal.captured.empty());
  std::size_t n = p.out_specs.size(), num_res = lin.residuals.size();
  Specs out_specs = p.out_specs;
  for (std::size_t i = 0; i < num_res; ++i) out_specs.push_back(all_axes(p.mesh));
  auto stacked = [](AvalP a) { return a->rank() == 0 ? with_shape(a, Shape{1}) : a; };
  ShardMapParams first = p;
  first.jaxpr = trace_to_jaxpr(
      [&](std::span<const Array> a) {
        Arrays outs = eval_jaxpr(lin.primal.jaxpr, a);
        for (std::size_t i = n; i < outs.size(); ++i)
          if (outs[i].ndim() == 0) outs[i] = lax::reshape(outs[i], {1});
        return outs;
      },
      p.jaxpr->in_avals(), p.jaxpr->name);
  first.out_specs = out_specs;
  Arrays outs = bind_params(first, Arrays(primals.begin(), primals.end()));

  AvalList ins;
  for (AvalP a : lin.residuals) ins.push_back(stacked(a));
  AvalList tangent_ins = lin.tangent->in_avals();
  for (std::size_t i = num_res; i < tangent_ins.size(); ++i) ins.push_back(tangent_ins[i]);
  ShardMapParams second = p;
  second.jaxpr = trace_to_jaxpr(
      [&](std::span<const Array> a) {
        Arrays args(a.begin(), a.end());
        for (std::size_t i = 0; i < num_res; ++i)
          if (lin.residuals[i]->rank() == 0) args[i] = lax::reshape(args[i], {});
        return eval_jaxpr(lin.tangent, args);
      },
      ins, p.jaxpr->name);
  second.in_specs.assign(num_res, all_axes(p.mesh));
  append_masked(second.in_specs, p.in_specs, nz);
  second.out_specs.clear();
  append_masked(second.out_specs, p.out_specs, lin.nonzero_out);
  Arrays residuals(outs.begin() + static_cast<std::ptrdiff_t>(n), outs.end());
  Arrays ts = bind_params(second, concat({residuals, select_nonnull(tangents)}));
  LinearizeOut out{Arrays(outs.begin(), outs.begin() + static_cast<std::ptrdiff_t>(n)), Arrays(n)};
  std::size_t next = 0;
  for (std::size_t i = 0; i < n; ++i)
    if (lin.nonzero_out[i]) out.tangents[i] = ts[next++];
  return out;
}

// A result that several devices hold is counted once: its cotangent is divided among them. An operand that several
// devices were given has the sum of their cotangents.
std::vector<Array> shard_map_transpose(const Params* params, std::span<const Array> cts,
                                       std::span<const TransposeIn> in) {
  const auto& p = params->get<ShardMapParams>();
  AxisScope scope(axes_of(p.mesh));
  Mask linear, ct_mask = nonzero(cts);
  Arrays known;
  Specs in_specs, out_specs;
  AvalList parts = p.jaxpr->in_avals(), out_parts = p.jaxpr->out_avals(), avals;
  for (std::size_t i = 0; i < in.size(); ++i) {
    linear.push_back(in[i].linear());
    if (in[i].linear()) {
      out_specs.push_back(p.in_specs[i]);
    } else {
      known.push_back(in[i].value);
      in_specs.push_back(p.in_specs[i]);
      avals.push_back(parts[i]);
    }
  }
  append_masked(in_specs, p.out_specs, ct_mask);
  for (std::size_t i = 0; i < out_parts.size(); ++i)
    if (ct_mask[i]) avals.push_back(out_parts[i]);
  auto size_of = [&](const std::vector<std::string>& names) {
    double n = 1;
    for (auto& name : names) n *= static_cast<double>(*p.mesh.axis_size(name));
    return n;
  };
  ShardMapParams back = p;
  back.jaxpr = trace_to_jaxpr(
      [&](std::span<const Array> a) {
        std::vector<TransposeIn> args;
        std::size_t next = 0;
        for (std::size_t i = 0; i < parts.size(); ++i) args.push_back({parts[i], linear[i] ? Array() : a[next++]});
        Arrays body_cts(ct_mask.size());
        for (std::size_t i = 0; i < ct_mask.size(); ++i) {
          if (!ct_mask[i]) continue;
          double copies = size_of(unmentioned(p.mesh, p.out_specs[i]));
          body_cts[i] = copies == 1 ? a[next] : lax::div(a[next], scalar_like(a[next], copies));
          ++next;
        }
        Arrays all = backward_pass(*p.jaxpr, {}, args, body_cts), wanted;
        for (std::size_t i = 0; i < parts.size(); ++i) {
          if (!linear[i]) continue;
          Array ct = instantiate_zeros(all[i], parts[i]);
          auto names = unmentioned(p.mesh, p.in_specs[i]);
          wanted.push_back(names.empty() ? ct : lax::psum(ct, lax::AxisName(names)));
        }
        return wanted;
      },
      avals, "transpose(" + p.jaxpr->name + ")");
  LS_CHECK(back.jaxpr->constvars.empty());
  back.in_specs = in_specs;
  back.out_specs = out_specs;
  Arrays outs = bind_params(back, concat({known, select_nonnull(cts)})), result(in.size());
  std::size_t next = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (linear[i]) result[i] = outs[next++];
  return result;
}
BatchOut shard_map_batch(const Params* params, const BatchIn& in) {
  const auto& p = params->get<ShardMapParams>();
  AxisScope scope(axes_of(p.mesh));
  Mask m = mapped(in);
  auto t = batch_jaxpr(p.jaxpr, m, {}, in.size, in.axis_name);
  auto shifted = [](const Specs& specs, const Mask& mask) {
    Specs out;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      auto entries = specs[i].entries();
      if (mask[i]) entries.insert(entries.begin(), SpecEntry(none));
      out.emplace_back(std::move(entries));
    }
    return out;
  };
  Arrays outs = bind_params(with(p, t, shifted(p.in_specs, m), shifted(p.out_specs, t.mapped_out)), bdims_at_front(in));
  return {std::move(outs), dims_of(t.mapped_out)};
}

void shard_map_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                     std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  const auto& p = params->get<ShardMapParams>();
  std::string mesh = ctx.symbol_of(p.mesh), in_shardings, out_shardings, manual, bindings, operands, out_types;
  AvalList parts = p.jaxpr->in_avals(), out_parts = p.jaxpr->out_avals();
  std::vector<std::string> args;
  auto sep = [](const std::string& s) { return std::string(s.empty() ? "" : ", "); };
  for (std::size_t i = 0; i < in.size(); ++i) {
    in_shardings += sep(in_shardings) + sdy_sharding(p.in_specs[i], in_avals[i]->rank(), mesh);
    args.push_back(ctx.fresh());
    bindings += sep(bindings) + args.back() + ": " + parts[i]->mlir;
    operands += sep(operands) + in[i];
  }
  for (std::size_t i = 0; i < out_avals.size(); ++i) {
    out_shardings += sep(out_shardings) + sdy_sharding(p.out_specs[i], out_avals[i]->rank(), mesh);
    out_types += sep(out_types) + out_parts[i]->mlir;
  }
  for (auto& a : p.mesh.axes()) manual += sep(manual) + "\"" + a.name + "\"";
  auto saved_axes = std::move(ctx.axes);
  auto saved_symbol = std::exchange(ctx.mesh_symbol, mesh);
  ctx.axes.clear();
  for (auto& a : p.mesh.axes()) ctx.axes.push_back({a.name, a.size, true});
  ctx.begin_region(true);
  auto results = ctx.inline_jaxpr(p.jaxpr, args);
  std::string list;
  for (auto& r : results) list += sep(list) + r;
  ctx.line(results.empty() ? "sdy.return" : "sdy.return " + list + " : " + out_types);
  std::string body = ctx.end_region();
  ctx.axes = std::move(saved_axes);
  ctx.mesh_symbol = std::move(saved_symbol);
  out =
      ctx.emit_many(out_avals.size(), "sdy.manual_computation(" + operands + ") in_shardings=[" + in_shardings +
                                          "] out_shardings=[" + out_shardings + "] manual_axes={" + manual + "} (" +
                                          bindings + ") {\n" + body + "    } : " + function_type(in_avals, out_avals));
}
const Mesh* shard_map_mesh(const Params* params) { return &params->get<ShardMapParams>().mesh; }

}  // namespace

LOCKSTEP_PRIMITIVE(shard_map_p, {.name = "shard_map",
                                 .abstract_eval = shard_map_aval,
                                 .jvp = shard_map_jvp,
                                 .linearize = shard_map_linearize,
                                 .transpose = shard_map_transpose,
                                 .batch = shard_map_batch,
                                 .lower = shard_map_lower,
                                 .mesh = shard_map_mesh,
                                 .multiple_results = true});

Arrays bind_shard_map(const FlatFunction& f, const Mesh& mesh, std::vector<PartitionSpec> in_specs,
                      const std::function<std::vector<PartitionSpec>(const AvalList& results)>& out_specs,
                      std::span<const Array> args, std::span<const std::string> names) {
  AvalList avals;
  for (std::size_t i = 0; i < args.size(); ++i) {
    check_spec(mesh, in_specs[i], args[i].shape(), "shard_map", i < names.size() ? names[i] : "an argument");
    avals.push_back(part(args[i].aval(), mesh, in_specs[i]));
  }
  ClosedJaxpr traced;
  {
    AxisScope scope(axes_of(mesh));
    traced = trace_to_jaxpr(f, avals, "shard_map", names);
  }
  // Captured values are whole on every device.
  auto [closed, captured] = hoist_consts(traced);
  Specs in(captured.size(), PartitionSpec());
  in.insert(in.end(), in_specs.begin(), in_specs.end());
  AvalList results = closed->out_avals();
  Specs out = out_specs(results);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (out[i].size() > static_cast<std::size_t>(results[i]->rank()))
      throw_error(ErrorCode::sharding, "shard_map",
                  "out_specs has {} for result {}, whose part on a device is {}; it has more entries than "
                  "the result has dimensions",
                  to_string(out[i]), i, results[i]->text);
  return bind_params({false, in, closed, mesh, out}, concat({captured, args}));
}

}  // namespace lockstep

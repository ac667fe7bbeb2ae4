#include "lockstep/transforms/batching.h"

#include "lockstep/core/basic_ops.h"
#include "lockstep/support/error.h"

namespace lockstep {

BatchOut batch_flat(const FlatFunction& f, std::span<const Array> args, std::span<const int> in_dims, std::int64_t size,
                    std::string axis_name, std::string what) {
  BatchTrace trace(std::move(what), size, std::move(axis_name));
  Arrays mapped;
  for (std::size_t i = 0; i < args.size(); ++i) mapped.push_back(trace.batched(args[i], in_dims[i]));
  BatchOut out;
  for (auto& o : f(mapped)) {
    auto [value, dim] = trace.split(o);
    out.outs.push_back(std::move(value));
    out.dims.push_back(dim);
  }
  return out;
}

BatchedJaxpr batch_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& mapped, const std::vector<bool>& force_out,
                         std::int64_t size, const std::string& axis_name) {
  BatchedJaxpr result;
  AvalList avals = j->in_avals();
  for (std::size_t i = 0; i < avals.size(); ++i)
    if (mapped[i]) avals[i] = with_shape(avals[i], avals[i]->shape.with(0, size));
  auto traced = trace_to_jaxpr(
      [&](std::span<const Array> args) {
        auto out = batch_flat([&](std::span<const Array> a) { return eval_jaxpr(j, a); }, args, dims_of(mapped), size,
                              axis_name, "vmap(" + j->name + ")");
        for (std::size_t i = 0; i < out.outs.size(); ++i) {
          bool is_mapped = out.dims[i] != kNotMapped;
          if (is_mapped)
            out.outs[i] = moveaxis(out.outs[i], out.dims[i], 0);
          else if (!force_out.empty() && force_out[i])
            out.outs[i] = broadcast_new_axis(out.outs[i], size, 0);
          result.mapped_out.push_back(is_mapped || (!force_out.empty() && force_out[i]));
        }
        return std::move(out.outs);
      },
      avals, j->name);
  std::tie(result.jaxpr, result.captured) = hoist_consts(traced);
  return result;
}

Arrays bdims_at_front(const BatchIn& in, const std::vector<bool>& force) {
  Arrays out;
  for (std::size_t i = 0; i < in.args.size(); ++i) {
    if (in.dims[i] != kNotMapped)
      out.push_back(moveaxis(in.args[i], in.dims[i], 0));
    else
      out.push_back(!force.empty() && force[i] ? broadcast_new_axis(in.args[i], in.size, 0) : in.args[i]);
  }
  return out;
}
std::vector<bool> mapped(const BatchIn& in) {
  std::vector<bool> out;
  for (int d : in.dims) out.push_back(d != kNotMapped);
  return out;
}
std::vector<int> dims_of(const std::vector<bool>& mapped) {
  std::vector<int> out;
  for (bool m : mapped) out.push_back(m ? 0 : kNotMapped);
  return out;
}

}  // namespace lockstep

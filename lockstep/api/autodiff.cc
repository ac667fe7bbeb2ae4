#include "lockstep/api/autodiff.h"

#include "lockstep/support/error.h"

namespace lockstep::internal {

void check_scalar_loss(const std::string& operation, const Array& value) {
  if (!value.has_value())
    throw_error(ErrorCode::invalid_argument, operation, "the function returned an array that was never assigned");
  if (value.ndim() != 0)
    throw_error(ErrorCode::shape, operation,
                "only functions with a scalar result have a gradient, this one returns {}; "
                "reduce it (numpy::sum, numpy::mean), or use vjp or a Jacobian",
                value.aval()->text);
  if (!is_floating(value.dtype()))
    throw_error(ErrorCode::dtype, operation,
                "only real floating-point results have a gradient, this function returns {}", value.aval()->text);
}
void check_differentiable(const std::string& operation, const Array& leaf, const std::string& name) {
  if (!leaf.has_value())
    throw_error(ErrorCode::invalid_argument, operation, "{} holds an array that was never assigned", name);
  if (!is_inexact(leaf.dtype()))
    throw_error(ErrorCode::dtype, operation,
                "{} is {}: gradients are taken with respect to floating-point or complex values "
                "only; convert it with astype, or choose other arguments with grad<...>",
                name, leaf.aval()->text);
}
void check_tangents(std::span<const Array> primals, std::span<const Array> tangents) {
  if (primals.size() != tangents.size())
    throw_error(ErrorCode::tree, "jvp", "the tangents have {} leaves, the primals {}", tangents.size(), primals.size());
  for (std::size_t i = 0; i < primals.size(); ++i)
    if (primals[i].shape() != tangents[i].shape() ||
        (primals[i].dtype() != tangents[i].dtype() && is_inexact(primals[i].dtype())))
      throw_error(ErrorCode::shape, "jvp", "tangent {} is {} for a primal {}; they must agree in shape and dtype", i,
                  tangents[i].aval()->text, primals[i].aval()->text);
}
Arrays backward_from_one(const Linearized& linearized, std::span<const Array> active) {
  Arrays cts;
  for (std::size_t i = 0; i < linearized.outs.size(); ++i)
    if (linearized.nonzero_out[i])
      cts.push_back(i == 0 ? full(linearized.outs[0].aval(), Scalar(1.0, linearized.outs[0].dtype())) : Array());
  Arrays got = backward_pass(linearized.linear, cts), out;
  for (std::size_t i = 0; i < active.size(); ++i) out.push_back(instantiate_zeros(got[i], active[i].aval()));
  return out;
}

}  // namespace lockstep::internal

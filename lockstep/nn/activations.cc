// Activation functions of nn/nn.h that are made of numpy's functions.
#include <cmath>

#include "lockstep/core/basic_ops.h"
#include "lockstep/nn/nn.h"
#include "lockstep/numpy/jitted.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/call.h"

namespace lockstep::nn {

namespace np = numpy;

Array Identity::operator()(const Operand& x) const { return x.array; }
Array Relu6::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("relu6", "", {x.array}, [](auto in) { return np::minimum(np::maximum(in[0], 0), 6.0); });
}
Array leaky_relu(const Operand& x, const Operand& negative_slope) {
  LocationScope scope(x.where);
  return np::jitted("leaky_relu", "", {x.array, negative_slope.array},
                    [](auto in) { return np::select_where(in[0] >= 0, in[0], in[1] * in[0]); });
}
Array elu(const Operand& x, const Operand& alpha) {
  LocationScope scope(x.where);
  return np::jitted("elu", "", {x.array, alpha.array}, [](auto in) {
    Array safe = np::select_where(in[0] > 0, 0.0, in[0]);  // keeps exp of large values out of the gradient
    return np::select_where(in[0] > 0, in[0], in[1] * np::expm1(safe));
  });
}
Array LogSigmoid::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("log_sigmoid", "", {x.array}, [](auto in) { return -softplus(-in[0]); });
}
Array Log1mexp::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  // Each formula where it is exact; their derivative is 1 / (exp(x) - 1).
  auto value = [](const Array& v) {
    Array small = np::log(-np::expm1(-v)), large = np::log1p(-np::exp(-v));
    return np::select_where(v < std::log(2.0), small, large);
  };
  static const auto rule = std::make_shared<FlatJvpRule>([value](auto primals, auto tangents) {
    return JvpOut{{value(primals[0])}, {tangents[0] / np::expm1(primals[0])}};
  });
  Arrays operand{x.array};
  return bind_custom_jvp([value](auto in) { return Arrays{value(in[0])}; }, rule, operand, "log1mexp")[0];
}
Array SoftSign::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("soft_sign", "", {x.array}, [](auto in) { return in[0] / (np::abs(in[0]) + 1); });
}
Array SparsePlus::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("sparse_plus", "", {x.array}, [](auto in) {
    const Array& v = in[0];
    Array curve = np::power(v + 1.0, 2) / 4;
    return np::select_where(v <= -1.0, 0.0, np::select_where(v >= 1.0, v, curve));
  });
}
Array SparseSigmoid::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("sparse_sigmoid", "", {x.array}, [](auto in) { return 0.5 * np::clip(in[0] + 1.0, 0.0, 2.0); });
}
Array Mish::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("mish", "", {x.array}, [](auto in) { return in[0] * np::tanh(softplus(in[0])); });
}
Array Selu::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("selu", "", {x.array}, [](auto in) { return 1.0507009873554805 * elu(in[0], 1.6732632423543772); });
}
Array HardTanh::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("hard_tanh", "", {x.array},
                    [](auto in) { return np::select_where(in[0] > 1, 1, np::select_where(in[0] < -1, -1, in[0])); });
}
Array HardSigmoid::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("hard_sigmoid", "", {x.array}, [](auto in) { return relu6(in[0] + 3.0) / 6.0; });
}
Array HardSilu::operator()(const Operand& x) const {
  LocationScope scope(x.where);
  return np::jitted("hard_silu", "", {x.array}, [](auto in) { return in[0] * hard_sigmoid(in[0]); });
}

Array celu(const Operand& x, const Operand& alpha) {
  LocationScope scope(x.where);
  return np::jitted("celu", "", {x.array, alpha.array}, [](auto in) {
    return np::maximum(in[0], 0.0) + in[1] * np::expm1(np::minimum(in[0], 0.0) / in[1]);
  });
}
Array squareplus(const Operand& x, const Operand& b) {
  LocationScope scope(x.where);
  return np::jitted("squareplus", "", {x.array, b.array},
                    [](auto in) { return (in[0] + np::sqrt(np::square(in[0]) + in[1])) / 2; });
}
Array glu(const Operand& x, int axis) {
  LocationScope scope(x.where);
  int along = canonical_axis("glu", axis, x.array.ndim());
  if (x.array.shape(along) % 2 != 0)
    throw_error(ErrorCode::shape, "glu", "wants an even size along axis {} of {}", axis, x.array.aval()->text);
  return np::jitted("glu", std::to_string(along), {x.array}, [along](auto in) {
    Arrays halves = np::split(in[0], 2, along);
    return halves[0] * sigmoid(halves[1]);
  });
}
Array logmeanexp(const Operand& x, std::optional<Ints> axis, const LogsumexpOptions& options) {
  LocationScope scope(x.where);
  Ints axes = axis ? canonical_axes("logmeanexp", *axis, x.array.ndim()) : iota_ints(x.array.ndim());
  double count = 1;
  for (auto a : axes) count *= static_cast<double>(x.array.shape(static_cast<int>(a)));
  return logsumexp(x, axis, options) - std::log(count);
}

}  // namespace lockstep::nn

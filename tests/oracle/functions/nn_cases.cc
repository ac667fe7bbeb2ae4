// Functions of nn/.
#include "lockstep/nn/nn.h"

#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {
namespace {

#define NN(name, ...) CASE("nn_" name, __VA_ARGS__)
#define NN_UNARY(name) NN(#name, nn::name(a[0]))

const RegisterCases networks(
    "nn", {
              NN_UNARY(identity),
              NN_UNARY(softmax),
              NN_UNARY(log_softmax),
              NN_UNARY(logsumexp),
              NN_UNARY(logmeanexp),
              NN_UNARY(relu),
              NN_UNARY(relu6),
              NN_UNARY(silu),
              NN_UNARY(swish),
              NN_UNARY(sigmoid),
              NN_UNARY(tanh),
              NN_UNARY(softplus),
              NN_UNARY(log_sigmoid),
              NN_UNARY(log1mexp),
              NN_UNARY(soft_sign),
              NN_UNARY(sparse_plus),
              NN_UNARY(sparse_sigmoid),
              NN_UNARY(mish),
              NN_UNARY(selu),
              NN_UNARY(hard_tanh),
              NN_UNARY(hard_sigmoid),
              NN_UNARY(hard_silu),
              NN_UNARY(hard_swish),
              NN_UNARY(celu),
              NN_UNARY(squareplus),
              NN_UNARY(gelu),
              NN_UNARY(leaky_relu),
              NN_UNARY(elu),
              NN_UNARY(standardize),
              NN("softmax_0", nn::softmax(a[0], {0})),
              NN("logsumexp_0", nn::logsumexp(a[0], Ints{0}, {.keepdims = true})),
              NN("logmeanexp_0", nn::logmeanexp(a[0], Ints{0}, {.keepdims = true})),
              NN("gelu_exact", nn::gelu(a[0], false)),
              NN("leaky_relu_slope", nn::leaky_relu(a[0], a[1])),
              NN("elu_alpha", nn::elu(a[0], a[1])),
              NN("celu_alpha", nn::celu(a[0], a[1])),
              NN("squareplus_b", nn::squareplus(a[0], a[1])),
              NN("glu", nn::glu(a[0], 0)),
              NN("standardize_axes", nn::standardize(a[0], {0, 1}, {.epsilon = 0.1})),
              NN("layer_norm", nn::layer_norm(a[0], a[1], a[2])),
              NN("one_hot", nn::one_hot(a[0], 5)),
              NN("one_hot_axis0", nn::one_hot(a[0], 5, {.axis = 0})),
              NN("one_hot_int8", nn::one_hot(a[0], 3, {.dtype = DType::int8})),
              NN("attention", nn::dot_product_attention(a[0], a[1], a[2])),
              NN("attention_causal", nn::dot_product_attention(a[0], a[1], a[2], {.is_causal = true})),
              NN("attention_mask", nn::dot_product_attention(a[0], a[1], a[2], {.mask = a[3]})),
              NN("attention_bias", nn::dot_product_attention(a[0], a[1], a[2], {.bias = a[3], .scale = 0.7})),
          });

}  // namespace
}  // namespace lockstep::oracle

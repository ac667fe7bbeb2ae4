// Functions of nn/.
#include "lockstep/nn/nn.h"

#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {
namespace {

#define NN(name, ...)                                               \
  {                                                                 \
    "nn_" name, [](const Arrays& a) { return Arrays{__VA_ARGS__}; } \
  }
const RegisterCases networks("nn",
                             {
                                 NN("softmax", nn::softmax(a[0])),
                                 NN("softmax_0", nn::softmax(a[0], {0})),
                                 NN("log_softmax", nn::log_softmax(a[0])),
                                 NN("logsumexp", nn::logsumexp(a[0])),
                                 NN("logsumexp_0", nn::logsumexp(a[0], Ints{0}, {.keepdims = true})),
                                 NN("relu", nn::relu(a[0])),
                                 NN("relu6", nn::relu6(a[0])),
                                 NN("silu", nn::silu(a[0])),
                                 NN("sigmoid", nn::sigmoid(a[0])),
                                 NN("tanh", nn::tanh(a[0])),
                                 NN("softplus", nn::softplus(a[0])),
                                 NN("gelu", nn::gelu(a[0])),
                                 NN("gelu_exact", nn::gelu(a[0], false)),
                                 NN("leaky_relu", nn::leaky_relu(a[0])),
                                 NN("elu", nn::elu(a[0])),
                                 NN("one_hot", nn::one_hot(a[0], 5)),
                                 NN("one_hot_axis0", nn::one_hot(a[0], 5, {.axis = 0})),
                                 NN("standardize", nn::standardize(a[0])),
                                 NN("attention", nn::dot_product_attention(a[0], a[1], a[2])),
                                 NN("attention_causal",
                                    nn::dot_product_attention(a[0], a[1], a[2], {.is_causal = true})),
                                 NN("attention_mask", nn::dot_product_attention(a[0], a[1], a[2], {.mask = a[3]})),
                             });

}  // namespace
}  // namespace lockstep::oracle

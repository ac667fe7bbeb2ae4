// Functions of random/.
#include "lockstep/random/random.h"
#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {
namespace {

// Every case takes the seed first.
Array key(const Arrays& a) { return random::key(a[0]); }

#define RANDOM(name, ...)                                               \
  {                                                                     \
    "random_" name, [](const Arrays& a) { return Arrays{__VA_ARGS__}; } \
  }
const RegisterCases samplers("random",
                             {
                                 RANDOM("key", random::key_data(key(a))),
                                 RANDOM("split", random::key_data(random::split(key(a)))),
                                 RANDOM("split_shape", random::key_data(random::split(key(a), {2, 3}))),
                                 RANDOM("fold_in", random::key_data(random::fold_in(key(a), a[1]))),
                                 RANDOM("bits", random::bits(key(a), {5})),
                                 RANDOM("bits8", random::bits(key(a), {7}, DType::uint8)),
                                 RANDOM("bits16", random::bits(key(a), {3, 2}, DType::uint16)),
                                 RANDOM("uniform", random::uniform(key(a), {3, 4})),
                                 RANDOM("uniform_range", random::uniform(key(a), {5}, {.minval = -2.0, .maxval = 3.0})),
                                 RANDOM("uniform_bf16", random::uniform(key(a), {6}, {.dtype = DType::bfloat16})),
                                 RANDOM("uniform_f16", random::uniform(key(a), {6}, {.dtype = DType::float16})),
                                 RANDOM("normal", random::normal(key(a), {3, 4})),
                                 RANDOM("normal_scalar", random::normal(key(a))),
                                 RANDOM("normal_bf16", random::normal(key(a), {6}, {.dtype = DType::bfloat16})),
                                 RANDOM("normal_complex", random::normal(key(a), {6}, {.dtype = DType::complex64})),
                                 RANDOM("randint", random::randint(key(a), {10}, 0, 100)),
                                 RANDOM("randint_u8", random::randint(key(a), {10}, 0, 256, {.dtype = DType::uint8})),
                                 RANDOM("randint_wide", random::randint(key(a), {10}, -2147483647, 2147483647)),
                                 RANDOM("bernoulli", random::bernoulli(key(a), 0.3, Shape{9})),
                                 RANDOM("bernoulli_p", random::bernoulli(key(a), a[1])),
                                 RANDOM("categorical", random::categorical(key(a), a[1])),
                                 RANDOM("categorical_axis0", random::categorical(key(a), a[1], 0)),
                                 RANDOM("categorical_shape", random::categorical(key(a), a[1], -1, Shape{5, 3})),
                                 RANDOM("permutation", random::permutation(key(a), 10)),
                                 RANDOM("permutation_array", random::permutation(key(a), a[1])),
                                 RANDOM("permutation_independent",
                                        random::permutation(key(a), a[1], {.axis = 1, .independent = true})),
                                 RANDOM("exponential", random::exponential(key(a), {5})),
                                 RANDOM("gumbel", random::gumbel(key(a), {5})),
                                 RANDOM("laplace", random::laplace(key(a), {5})),
                                 RANDOM("logistic", random::logistic(key(a), {5})),
                                 RANDOM("rademacher", random::rademacher(key(a), {5})),
                                 RANDOM("truncated_normal", random::truncated_normal(key(a), -1.0, 2.0, Shape{5})),
                             });

}  // namespace
}  // namespace lockstep::oracle

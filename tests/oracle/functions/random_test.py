"""random/ and nn/ against JAX: random numbers bit for bit. usage: random_test.py RUN_FUNCTIONS"""
import os
import sys
import unittest
import warnings

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np

import oracle

PROGRAM = sys.argv.pop()
warnings.simplefilter("ignore")
RNG = np.random.default_rng(0)
r = jax.random


class Against(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = oracle.Program(PROGRAM)

    @classmethod
    def tearDownClass(cls):
        cls.program.close()

    def check(self, case, function, *args, **kw):
        with self.subTest(case=case):
            oracle.check_values(self, self.program, case, function, *args, **kw)


class Random(Against):
    # What the numbers go through after their bits are made: nothing that rounds, but for log, erf_inv and division.
    EXACT = {
        "key": lambda k: r.key_data(k),
        "split": lambda k: r.key_data(r.split(k)),
        "split_shape": lambda k: r.key_data(r.split(k, (2, 3))),
        "bits": lambda k: r.bits(k, (5,)),
        "bits8": lambda k: r.bits(k, (7,), jnp.uint8),
        "bits16": lambda k: r.bits(k, (3, 2), jnp.uint16),
        "uniform": lambda k: r.uniform(k, (3, 4)),
        "uniform_range": lambda k: r.uniform(k, (5,), minval=-2.0, maxval=3.0),
        "uniform_bf16": lambda k: r.uniform(k, (6,), jnp.bfloat16),
        "uniform_f16": lambda k: r.uniform(k, (6,), jnp.float16),
        "normal": lambda k: r.normal(k, (3, 4)),
        "normal_scalar": lambda k: r.normal(k),
        "normal_bf16": lambda k: r.normal(k, (6,), jnp.bfloat16),
        "randint": lambda k: r.randint(k, (10,), 0, 100),
        "randint_u8": lambda k: r.randint(k, (10,), 0, 256, jnp.uint8),
        "randint_wide": lambda k: r.randint(k, (10,), -2147483647, 2147483647),
        "bernoulli": lambda k: r.bernoulli(k, 0.3, (9,)),
        "permutation": lambda k: r.permutation(k, 10),
        "rademacher": lambda k: r.rademacher(k, (5,)),
    }
    CLOSE = {
        "normal_complex": lambda k: r.normal(k, (6,), jnp.complex64),
        "exponential": lambda k: r.exponential(k, (5,)),
        "gumbel": lambda k: r.gumbel(k, (5,)),
        "laplace": lambda k: r.laplace(k, (5,)),
        "logistic": lambda k: r.logistic(k, (5,)),
        "truncated_normal": lambda k: r.truncated_normal(k, -1.0, 2.0, (5,)),
    }

    def test_samplers(self):
        for seed in (0, 1, 42, 2**31 - 1, -3):
            for name, f in self.EXACT.items():
                self.check(f"random_{name}", lambda s, f=f: f(r.key(s)), jnp.int32(seed), exact=True)
            for name, f in self.CLOSE.items():
                self.check(f"random_{name}", lambda s, f=f: f(r.key(s)), jnp.int32(seed))

    def test_with_arguments(self):
        seed = jnp.int32(7)
        logits = jnp.asarray(RNG.normal(size=(3, 6)).astype(np.float32))
        self.check("random_fold_in", lambda s, n: r.key_data(r.fold_in(r.key(s), n)), seed, jnp.int32(11), exact=True)
        self.check("random_bernoulli_p", lambda s, p: r.bernoulli(r.key(s), p), seed, jax.nn.sigmoid(logits), exact=True)
        self.check("random_categorical", lambda s, x: r.categorical(r.key(s), x), seed, logits, exact=True)
        self.check("random_categorical_axis0", lambda s, x: r.categorical(r.key(s), x, axis=0), seed, logits, exact=True)
        self.check("random_categorical_shape", lambda s, x: r.categorical(r.key(s), x, shape=(5, 3)), seed, logits, exact=True)
        for x in (jnp.arange(9), logits):
            self.check("random_permutation_array", lambda s, x: r.permutation(r.key(s), x), seed, x, exact=True)
        self.check("random_permutation_independent", lambda s, x: r.permutation(r.key(s), x, axis=1, independent=True), seed,
                   logits, exact=True)


class Nn(Against):
    def test_activations(self):
        x = jnp.asarray((3 * RNG.normal(size=(4, 5))).astype(np.float32))
        for a in (x, x.astype(jnp.bfloat16)):
            for name in "softmax log_softmax logsumexp relu relu6 silu sigmoid tanh softplus gelu leaky_relu elu standardize".split():
                self.check(f"nn_{name}", getattr(jax.nn, name), a)
            self.check("nn_softmax_0", lambda v: jax.nn.softmax(v, 0), a)
            self.check("nn_logsumexp_0", lambda v: jax.nn.logsumexp(v, 0, keepdims=True), a)
            self.check("nn_gelu_exact", lambda v: jax.nn.gelu(v, approximate=False), a)

    def test_one_hot(self):
        labels = jnp.asarray([[0, 4, 2], [5, -1, 1]], jnp.int32)
        self.check("nn_one_hot", lambda v: jax.nn.one_hot(v, 5), labels, exact=True)
        self.check("nn_one_hot_axis0", lambda v: jax.nn.one_hot(v, 5, axis=0), labels, exact=True)

    def test_attention(self):
        normal = lambda *shape: jnp.asarray(RNG.normal(size=shape).astype(np.float32))
        attention = jax.nn.dot_product_attention
        q, k, v, shared = normal(2, 5, 4, 8), normal(2, 6, 4, 8), normal(2, 6, 4, 8), normal(2, 6, 2, 8)
        mask = jnp.asarray(RNG.random((2, 4, 5, 6)) > 0.3)
        self.check("nn_attention", attention, q, k, v)
        self.check("nn_attention", attention, q, shared, shared)
        self.check("nn_attention_causal", lambda q, k, v: attention(q, k, v, is_causal=True), q, q, q)
        self.check("nn_attention_mask", lambda q, k, v, m: attention(q, k, v, mask=m), q, k, v, mask)


unittest.main(verbosity=1)

"""random/ against JAX: random numbers bit for bit. usage: random_test.py RUN_FUNCTIONS"""
import oracle
from oracle import jax, jnp, np

RNG = np.random.default_rng(0)
r = jax.random


class Random(oracle.Table):
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
                self.check(f"random_{name}", lambda s, f=f: f(r.key(s)), jnp.int32(seed), exact=True, vmap=seed == 1)
            for name, f in self.CLOSE.items():
                self.check(f"random_{name}", lambda s, f=f: f(r.key(s)), jnp.int32(seed), vmap=seed == 1)

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


oracle.main("random")

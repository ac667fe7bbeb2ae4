"""nn/ against jax.nn. usage: nn_test.py RUN_FUNCTIONS"""
import oracle
from oracle import jax, jnp, np

RNG = np.random.default_rng(0)


class Nn(oracle.Table):
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


oracle.main("nn")

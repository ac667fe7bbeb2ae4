"""nn/ against jax.nn. usage: nn_test.py RUN_FUNCTIONS"""
import oracle
from oracle import jax, jnp, np

RNG = np.random.default_rng(0)


class Nn(oracle.Table):
    def test_activations(self):
        x = jnp.asarray((3 * RNG.normal(size=(4, 6))).astype(np.float32))
        nn = jax.nn
        for a in (x, x.astype(jnp.bfloat16)):
            also = dict(grad=a is x, vmap=a is x)
            for name in """identity softmax log_softmax logsumexp logmeanexp relu relu6 silu swish sigmoid tanh softplus
                log_sigmoid soft_sign sparse_plus sparse_sigmoid mish selu hard_tanh hard_sigmoid hard_silu hard_swish celu
                squareplus gelu leaky_relu elu standardize""".split():
                self.check(f"nn_{name}", getattr(nn, name), a, **also)
            self.check("nn_log1mexp", nn.log1mexp, abs(a), **also)
            self.check("nn_softmax_0", lambda v: nn.softmax(v, 0), a, **also)
            self.check("nn_logsumexp_0", lambda v: nn.logsumexp(v, 0, keepdims=True), a, **also)
            self.check("nn_logmeanexp_0", lambda v: nn.logmeanexp(v, 0, keepdims=True), a, **also)
            self.check("nn_gelu_exact", lambda v: nn.gelu(v, approximate=False), a, **also)
            self.check("nn_glu", lambda v: nn.glu(v, 0), a, **also)
        for name in "relu relu6 hard_tanh soft_sign squareplus selu celu elu leaky_relu sparse_plus hard_sigmoid".split():
            self.check(f"nn_{name}", getattr(nn, name), jnp.arange(-8, 8))
        self.check("nn_standardize_axes", lambda v: nn.standardize(v, (0, 1), epsilon=0.1), x)
        for name, f in dict(leaky_relu_slope=nn.leaky_relu, elu_alpha=nn.elu, celu_alpha=nn.celu, squareplus_b=nn.squareplus).items():
            self.check(f"nn_{name}", f, x, jnp.float32(1.75))

    def test_layer_norm(self):
        # JAX has it as a library function of others; by its definition.
        layer_norm = lambda x, s, b: jax.nn.standardize(x) * s + b
        normal = lambda *shape: jnp.asarray(RNG.normal(size=shape).astype(np.float32))
        self.check("nn_layer_norm", layer_norm, normal(2, 3, 8), normal(8), normal(8))

    def test_one_hot(self):
        labels = jnp.asarray([[0, 4, 2], [5, -1, 1]], jnp.int32)
        self.check("nn_one_hot", lambda v: jax.nn.one_hot(v, 5), labels, exact=True)
        self.check("nn_one_hot_axis0", lambda v: jax.nn.one_hot(v, 5, axis=0), labels, exact=True)
        self.check("nn_one_hot_int8", lambda v: jax.nn.one_hot(v, 3, dtype=jnp.int8), labels.astype(jnp.uint8), exact=True)

    def test_attention(self):
        normal = lambda *shape: jnp.asarray(RNG.normal(size=shape).astype(np.float32))
        attention = jax.nn.dot_product_attention
        q, k, v, shared = normal(2, 5, 4, 8), normal(2, 6, 4, 8), normal(2, 6, 4, 8), normal(2, 6, 2, 8)
        mask = jnp.asarray(RNG.random((2, 4, 5, 6)) > 0.3)
        self.check("nn_attention", attention, q, k, v)
        self.check("nn_attention", attention, q, shared, shared)
        self.check("nn_attention_causal", lambda q, k, v: attention(q, k, v, is_causal=True), q, q, q)
        self.check("nn_attention_mask", lambda q, k, v, m: attention(q, k, v, mask=m), q, k, v, mask)
        self.check("nn_attention_mask", lambda q, k, v, m: attention(q, k, v, mask=m), q, shared, shared, mask[:1, :1])
        self.check("nn_attention_bias", lambda q, k, v, b: attention(q, k, v, b, scale=0.7), q, k, v, normal(2, 1, 5, 6))


oracle.main("nn")

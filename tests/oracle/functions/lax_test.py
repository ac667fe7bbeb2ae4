"""lax/ against jax.lax, what oracle/elementwise and oracle/structural leave. usage: lax_test.py RUN_FUNCTIONS"""
from functools import partial

import oracle
from jax import lax
from oracle import jax, jnp, np

RNG = np.random.default_rng(5)


def normal(*shape):
    return jnp.asarray(RNG.normal(size=shape).astype(np.float32))


def ints(low, high, *shape):
    return jnp.asarray(RNG.integers(low, high, shape).astype(np.int32))


F, I = normal(3, 4), ints(-5, 6, 3, 4)
C, B = F + 1j * normal(3, 4), ints(0, 2, 3, 4) > 0
H = F.astype(jnp.bfloat16)


class Lax(oracle.Table):
    def run_table(self, table, *args, **kw):
        for name, f in table.items():
            self.check(f"lax_{name}", f, *args, **kw)

    def test_reductions(self):
        numbers = {
            "reduce_sum": lambda x: lax.reduce_sum(x, (0,)),
            "reduce_prod": lambda x: lax.reduce_prod(x, (1,)),
            "reduce_max": lambda x: lax.reduce_max(x, (0, 1)),
            "reduce_min": lambda x: lax.reduce_min(x, (1,)),
            "argmax": lambda x: lax.argmax(x, 1, np.int32),
            "argmin": lambda x: lax.argmin(x, 0, np.uint8),
            "cumsum": lambda x: lax.cumsum(x, 1),
            "cumprod": lambda x: lax.cumprod(x, 0, reverse=True),
            "cummax": lambda x: lax.cummax(x, 1),
            "cummin": lambda x: lax.cummin(x, 0, reverse=True),
        }
        for x in (F, I, H):
            self.run_table(numbers, x, jaxpr=True)
        for name in ("reduce_sum", "reduce_prod", "cumsum", "cumprod"):
            self.check(f"lax_{name}", numbers[name], C)
        bits = {name: partial(lambda f, x: f(x, (0,)), getattr(lax, name)) for name in ("reduce_and", "reduce_or", "reduce_xor")}
        for x in (I, B):
            self.run_table(bits, x, jaxpr=True)
        self.check("lax_cumlogsumexp", lambda x: lax.cumlogsumexp(x, 1), F, jaxpr=True)
        self.check("lax_reduce", lambda x: lax.reduce(x, np.float32(1), lax.mul, (0,)), F)

        def larger(x, y):
            better = y[0] > x[0]
            return lax.select(better, y[0], x[0]), lax.select(better, y[1], x[1])

        many = lambda x, i, a, b: lax.reduce((x, i), (a, b), larger, (1,))
        self.check("lax_reduce_many", many, F, I, jnp.float32(-jnp.inf), jnp.int32(0), grad=False,
                   vmap=False)  # JAX has neither
        combine = lambda x, y: (x[0] * y[0], y[0] * x[1] + y[1])
        self.check("lax_associative_scan", lambda *x: lax.associative_scan(combine, x, reverse=True, axis=1), F, normal(3, 4))

    def test_order(self):
        for x in (F, I, H):
            self.check("lax_sort", lambda x: lax.sort(x, dimension=0), x, jaxpr=True)
            self.check("lax_top_k", lambda x: lax.top_k(x, 2), x, jaxpr=True)
            self.check("lax_top_k_0", lambda x: lax.top_k(x, 2, axis=0), x)
        self.check("lax_sort_keys", lambda *x: lax.sort(x, num_keys=2), I // 3, F, normal(3, 4), jaxpr=True)
        self.check("lax_sort_key_val", lax.sort_key_val, F, I, jaxpr=True)
        self.check("lax_select_n", lax.select_n, abs(I) % 3, F, normal(3, 4), normal(3, 4), jaxpr=True)

    def test_arrays(self):
        self.check("lax_broadcast", lambda x: lax.broadcast(x, (2, 1)), F, jaxpr=True)
        self.check("lax_broadcast_to_rank", lambda x: lax.broadcast_to_rank(x, 4), F, jaxpr=True)
        self.check("lax_iota", lambda: (lax.iota("float32", 4), lax.broadcasted_iota("int8", (2, 3), 1)), jaxpr=True)
        self.check("lax_full", lambda: (lax.full((2, 3), 1.5), lax.full((2,), 3, "bfloat16")), jaxpr=True)
        self.check("lax_full_like", lambda x: (lax.full_like(x, 2), lax.full_like(x, 3, "int32", (2,))), F, jaxpr=True)
        self.check("lax_copy", jnp.copy, F)
        self.check("lax_collapse", lambda x: (lax.collapse(x, 1), lax.collapse(x, 0, 2)), normal(2, 3, 4), jaxpr=True)
        self.check("lax_dynamic_update_slice_in_dim", lambda x, u, i: lax.dynamic_update_slice_in_dim(x, u, i, 1),
                   F, normal(3, 2), jnp.int32(1), jaxpr=True)

    def test_products(self):
        self.check("lax_dot", lax.dot, F, normal(4, 2), jaxpr=True)
        self.check("lax_dot", lax.dot, normal(4), normal(4))
        self.check("lax_batch_matmul", lax.batch_matmul, normal(2, 3, 4), normal(2, 4, 5), jaxpr=True)
        f = lambda a, b: lax.dot_general(a, b, (((2,), (1,)), ((0,), (2,))))
        self.check("lax_dot_general", f, normal(2, 3, 4), normal(5, 4, 2), jaxpr=True)
        self.check("lax_dot_general", f, ints(-3, 4, 2, 3, 4), ints(-3, 4, 5, 4, 2))
        half = lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=np.float32)
        self.check("lax_dot_general_bf16", half, H, normal(4, 2).astype(jnp.bfloat16), jaxpr=True)

    def test_scatters(self):
        rows = lax.ScatterDimensionNumbers((1,), (0,), (0,))
        for name in ("scatter", "scatter_add", "scatter_sub", "scatter_min", "scatter_max"):
            f = lambda x, i, u: getattr(lax, name)(x, i, u, rows, unique_indices=True)
            self.check(f"lax_{name}", f, normal(5, 4), jnp.asarray([[4], [0], [7]], jnp.int32), normal(3, 4), jaxpr=True)

        twice = jnp.asarray([[2], [0], [2]], jnp.int32)
        self.check("lax_scatter_apply",  # JAX's has no derivative; its equation is called scatter, as that of scatter is
                   lambda x, i: lax.scatter_apply(x, i, lambda v: v * 2 + 1, rows, update_shape=(3, 4)),
                   normal(5, 4), twice, grad=False)
        self.check("lax_at_apply", lambda x, i: x.at[i].apply(jnp.sin), normal(5, 4), jnp.asarray([2, 0, -1, 9, 2]), grad=False)

    def test_windows(self):
        conv = lambda x, k: lax.conv(x, k, (2, 1), "SAME")
        self.check("lax_conv", conv, normal(2, 3, 5, 6), normal(4, 3, 2, 3), jaxpr=True)
        self.check("lax_conv", conv, normal(1, 2, 4, 4).astype(jnp.bfloat16), normal(1, 2, 3, 3).astype(jnp.bfloat16))
        self.check("lax_conv_pairs", lambda x, k: lax.conv_general_dilated(x, k, (1, 1), [(1, 0), (0, 2)]),
                   normal(2, 3, 5, 6), normal(4, 3, 2, 3))
        self.check("lax_conv_general_dilated",
                   lambda x, k: lax.conv_general_dilated(x, k, (1, 2), "SAME", rhs_dilation=(2, 1),
                                                         dimension_numbers=("NHWC", "HWIO", "NHWC")),
                   normal(2, 5, 6, 3), normal(2, 3, 3, 4), jaxpr=True)
        self.check("lax_conv_groups", lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", feature_group_count=2),
                   normal(2, 4, 6), normal(6, 2, 3), jaxpr=True)
        self.check("lax_conv_batch_groups",
                   lambda x, k: lax.conv_general_dilated(x, k, (1,), "VALID", batch_group_count=2),
                   normal(4, 3, 6), normal(6, 3, 3), jaxpr=True)
        self.check("lax_conv_lhs_dilation",
                   lambda x, k: lax.conv_general_dilated(x, k, (1,), [(2, 1)], lhs_dilation=(2,)),
                   normal(2, 3, 5), normal(4, 3, 3), jaxpr=True)
        x, k = normal(1, 4, 4, 3), normal(3, 3, 3, 2)
        self.check("lax_conv_transpose", lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME"), x, k, jaxpr=True)
        self.check("lax_conv_transpose_kernel",
                   lambda x, k: lax.conv_transpose(x, k, (1, 2), "VALID", transpose_kernel=True), x, normal(3, 3, 2, 3))
        x = normal(5, 6)
        window = partial(lax.reduce_window, window_dimensions=(2, 2))
        self.check("lax_reduce_window_max",
                   lambda x: window(x, -np.inf, lax.max, window_strides=(1, 2), padding="SAME"), x, jaxpr=True)
        self.check("lax_reduce_window_min",
                   lambda x: lax.reduce_window(x, np.inf, lax.min, (2, 3), (1, 1), "VALID"), x, jaxpr=True)
        self.check("lax_reduce_window_add",
                   lambda x: window(x, 0.0, lax.add, window_strides=(1, 1), padding=[(1, 0), (0, 2)],
                                    base_dilation=(1, 2), window_dilation=(2, 1)), x, jaxpr=True)
        self.check("lax_reduce_window_mul",  # JAX has no reverse mode for it
                   lambda x: lax.reduce_window(x, 1.0, lax.mul, (1, 2), (1, 1), "VALID"), x, grad=False)

    def test_control_flow(self):
        def step(c, x):
            c = c * 0.5 + jnp.sin(x)
            return c, c * x

        self.check("lax_scan", lambda c, xs: lax.scan(step, c, xs), normal(4), normal(6, 4))
        self.check("lax_scan_reverse", lambda c, xs: lax.scan(lambda c, x: (c + x, c), c, xs, reverse=True, unroll=2),
                   normal(4), normal(5, 4))
        loop = lambda x: lax.while_loop(lambda x: jnp.sum(x) < 20, lambda x: x * 1.5 + 0.25, x)
        self.check("lax_while_loop", loop, abs(normal(4)), grad=False)  # no reverse mode
        self.check("lax_fori_loop", lambda x: lax.fori_loop(0, 4, lambda i, x: jnp.sin(x) * jnp.cos(x), x), normal(4))
        traced = lambda x, n: lax.fori_loop(0, n, lambda i, x: x + i, x)
        self.check("lax_fori_loop_traced", traced, jnp.int32(3), jnp.int32(5))
        cond = lambda p, x, y: lax.cond(p, lambda x, y: jnp.sin(x) * y, lambda x, y: x - y, x, y)
        for p in (True, False):
            self.check("lax_cond", cond, jnp.asarray(p), normal(4), normal(4))
        branches = [lax.neg, lax.exp, lambda x: x * x]
        for i in (-1, 0, 1, 2, 5):
            self.check("lax_switch", lambda i, x: lax.switch(i, branches, x), jnp.int32(i), normal(4))
        self.check("lax_map", lambda xs: lax.map(lambda x: x * jnp.sin(x), xs), F)

    def test_collectives(self):
        table = {
            "psum": lambda x: lax.psum(x, "i"),
            "pmean": lambda x: lax.pmean(x, "i"),
            "all_gather": lambda x: lax.all_gather(x, "i", axis=1),
            "all_gather_tiled": lambda x: lax.all_gather(x, "i", tiled=True),
            "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
            "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 1),
            "pswapaxes": lambda x: lax.pswapaxes(x, "i", 1),
            "ppermute": lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]),
            "pshuffle": lambda x: lax.pshuffle(x, "i", [2, 0, 1]),
            "axis_index": lambda x: x * lax.axis_index("i"),
            "axis_size": lambda x: x * lax.axis_size("i"),
        }
        for name, f in table.items():
            self.check(f"lax_{name}", jax.vmap(f, axis_name="i"), normal(3, 3, 3))
        for name in ("pmax", "pmin"):  # JAX does not differentiate them
            self.check(f"lax_{name}", jax.vmap(lambda x: getattr(lax, name)(x, "i"), axis_name="i"), normal(3, 4), grad=False)


oracle.main("lax")

"""numpy/ against jax.numpy: elementwise functions, reductions, creation. usage: numpy_test.py RUN_FUNCTIONS"""
import oracle
from oracle import jax, jnp, np

RNG = np.random.default_rng(0)
F, I, U8, B, C = (
    jnp.asarray(RNG.normal(size=(3, 4)).astype(np.float32)),
    jnp.asarray(RNG.integers(-5, 6, (3, 4)).astype(np.int32)),
    jnp.asarray(RNG.integers(0, 200, (3, 4)).astype(np.uint8)),
    jnp.asarray(RNG.random((3, 4)) > 0.5),
    jnp.asarray((RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))).astype(np.complex64)),
)
H = F.astype(jnp.bfloat16)
SPECIAL = jnp.asarray([0.0, -0.0, 1.0, -2.5, np.nan, np.inf, -np.inf, 1e-40, 3e38, 0.5], jnp.float32)
ROW = jnp.asarray(RNG.normal(size=4).astype(np.float32))


class Numpy(oracle.Table):
    def test_unary_floats(self):
        for name in """negative positive sign floor ceil trunc rint absolute fabs square sqrt cbrt reciprocal exp exp2
            expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad
            rad2deg conjugate real imag angle isnan isinf isfinite isposinf isneginf signbit logical_not nan_to_num
            round""".split():
            self.check(name, getattr(jnp, name), F, jaxpr=name not in ("sinc",))
            self.check(name, getattr(jnp, name), SPECIAL, vmap=False)
        self.check("sinc", jnp.sinc, F)
        self.check("sinc", jnp.sinc, jnp.asarray([0.0, 1.0, 0.5]))
        for case, decimals in (("round_2", 2), ("round_-1", -1)):
            self.check(case, lambda x: jnp.round(x, decimals), F * 30, jaxpr=True)
        self.check("modf", jnp.modf, F * 3)
        self.check("frexp", jnp.frexp, SPECIAL)

    def test_unary_other_types(self):
        for name in "negative sign absolute square sqrt exp sin tanh floor rint isnan isfinite logical_not round".split():
            self.check(name, getattr(jnp, name), I, jaxpr=True)
        for name in "sign absolute square sqrt exp bitwise_not bitwise_count floor conjugate".split():
            self.check(name, getattr(jnp, name), U8)
        for name in "square exp floor logical_not bitwise_not absolute isfinite isinf".split():
            self.check(name, getattr(jnp, name), B)
        for name in "negative sign absolute square exp log log2 log10 sin conjugate real imag angle isnan isinf isfinite".split():
            self.check(name, getattr(jnp, name), C)
        for name in "negative exp sin floor signbit isinf".split():
            self.check(name, getattr(jnp, name), H)
        self.check("operator-", lambda x: -x, F, jaxpr=True)
        self.check("operator~", lambda x: ~x, I, jaxpr=True)
        self.check("operator!", jnp.logical_not, F, jaxpr=True)

    def test_binary(self):
        names = """add subtract multiply true_divide floor_divide remainder fmod power float_power maximum minimum fmax
            fmin arctan2 hypot logaddexp logaddexp2 copysign nextafter heaviside logical_and logical_or logical_xor equal
            not_equal less less_equal greater greater_equal isclose allclose array_equal array_equiv""".split()
        other = jnp.asarray(RNG.normal(size=(3, 4)).astype(np.float32))
        for name in names:
            f, x, grad = getattr(jnp, name), abs(F) if "power" in name else F, name != "nextafter"
            jaxpr = name not in ("isclose", "allclose", "hypot", "logaddexp2")
            self.check(name, f, x, other, jaxpr=jaxpr, grad=grad)
            if name not in ("array_equal", "array_equiv"):
                self.check(name, f, x, ROW, jaxpr=jaxpr, grad=grad)
        pairs = [(a, b) for a in SPECIAL for b in SPECIAL]
        left, right = (jnp.stack(list(side)) for side in zip(*pairs))
        for name in """add multiply true_divide floor_divide remainder fmod maximum minimum fmax fmin arctan2 hypot
            logaddexp copysign less equal isclose""".split():
            self.check(name, getattr(jnp, name), left, right, vmap=False)
        for name in ("logaddexp", "logaddexp2"):
            self.check(name, getattr(jnp, name), C, 2 * C[::-1] + 3)
        self.check("isclose_nan", lambda a, b: jnp.isclose(a, b, rtol=0.1, equal_nan=True), left, right)
        self.check("array_equal_nan", lambda a, b: jnp.array_equal(a, b, equal_nan=True), SPECIAL, SPECIAL)
        self.check("ldexp", jnp.ldexp, F, I)
        self.check("divmod", jnp.divmod, F, ROW)
        self.check("divmod", jnp.divmod, I, I + 7)

    def test_promotion(self):
        # Dtypes and weak types of all pairs for the three ways to promote; the other functions share them, and are
        # tried with fewer.
        kinds = [F, I, U8, B, C, H, jnp.float32(2), jnp.int32(3), jnp.asarray(2.0), jnp.asarray(3), I.astype(jnp.int8)]
        few = [F, I, U8, jnp.asarray(2.0), jnp.asarray(3)]
        plain = dict(grad=False, vmap=False)
        for a in kinds:
            for b in kinds:
                for name in ("add", "true_divide", "less"):
                    self.check(name, getattr(jnp, name), a, b, **plain)
        for a in few:
            for b in few:
                for name in ("multiply", "maximum", "equal", "floor_divide", "remainder", "fmod"):
                    self.check(name, getattr(jnp, name), a, b, **plain)
        for other in kinds:
            self.check("multiply", jnp.multiply, F, other)
            self.check("true_divide", jnp.true_divide, other, C)

    def test_integers(self):
        for name in "bitwise_and bitwise_or bitwise_xor floor_divide remainder fmod power".split():
            self.check(name, getattr(jnp, name), I, abs(I) if name == "power" else I, jaxpr=True)
        for name in "left_shift right_shift".split():
            self.check(name, getattr(jnp, name), I, abs(I), jaxpr=True)
            self.check(name, getattr(jnp, name), U8, U8 % 9)
        self.check("bit_operators", lambda a, b: (a & b, a | b, a ^ b), I, I + 3, jaxpr=True)
        self.check("shifts", lambda a: (a << 2, a >> 1), I, jaxpr=True)

    def test_operators_and_numbers(self):
        self.check("operators", lambda a, b: (a + b, a - b, a * b, a / b, a % b), F, ROW, jaxpr=True)
        self.check("comparisons", lambda a, b: (a < b, a <= b, a > b, a >= b, a == b, a != b), F, ROW, jaxpr=True)
        for x in (F, I, H, C):
            numbers = lambda a: (a + 1, 2.5 * a, 1 / a, a - True, 3 - a, a % 2, a / 2)
            if x is not C:
                self.check("numbers", numbers, x, jaxpr=True)
        self.check("power_2", lambda x: x**2, F, jaxpr=True)
        self.check("power_2", lambda x: x**2, I, jaxpr=True)
        self.check("power_-1", lambda x: x**-1, F, jaxpr=True)
        self.check("power_2.0", lambda x: x**2.0, F, jaxpr=True)
        self.check("power_of_2", lambda x: 2**x, F, jaxpr=True)
        self.check("power_of_2", lambda x: 2**x, abs(I), jaxpr=True)
        self.check("power", jnp.power, abs(F), I, jaxpr=True)
        self.check("clip", lambda x: jnp.clip(x, -0.5, 1), F, jaxpr=True)
        self.check("clip_low", lambda x: jnp.clip(x, 0.0), F, jaxpr=True)
        self.check("clip_high", lambda x, y: jnp.clip(x, max=y), F, ROW, jaxpr=True)
        self.check("assign", lambda a, b: (a + b - 1) * b / 2, F, ROW, jaxpr=True)

    def test_reductions(self):
        for name in """sum prod max min any all mean var std ptp count_nonzero argmax argmin nansum nanprod nanmax nanmin
            nanmean nanvar nanstd nanargmax nanargmin median average""".split():
            f = getattr(jnp, name)
            jaxpr = name not in ("nanvar", "nanstd", "nanargmax", "nanargmin", "median")
            for x in (F, I, B, H, C, U8):
                if x is C and name in ("argmax", "argmin", "median", "nanargmax", "nanargmin", "nanvar", "nanstd"):
                    continue
                if x is B and name in ("ptp",):
                    continue
                text, also = jaxpr and x is not C, dict(grad=x is F or x is C, vmap=x is F)
                self.check(name, f, x, jaxpr=text, **also)
                self.check(name + "_0", lambda x: f(x, axis=0), x, **also)
                self.check(name + "_last_keepdims", lambda x: f(x, axis=-1, keepdims=True), x, jaxpr=text, **also)
        holes = F.at[0, 1].set(jnp.nan).at[:, 2].set(jnp.nan)
        for name in "max min sum argmax argmin median nansum nanprod nanmax nanmin nanmean nanvar nanstd nanargmax".split():
            self.check(name, getattr(jnp, name), holes)
            self.check(name + "_0", lambda x: getattr(jnp, name)(x, axis=0), holes)

    def test_reduction_options(self):
        self.check("sum_axes", lambda x: jnp.sum(x, axis=(0, -1)), jnp.ones((2, 3, 4)), jaxpr=True)
        self.check("sum_none", lambda x: jnp.sum(x, keepdims=True), F, jaxpr=True)
        self.check("sum_f64_where_initial",
                   lambda x: jnp.sum(x, 1, dtype="int32", initial=3, where=x > 0), F * 5, jaxpr=True)
        self.check("max_where", lambda x: jnp.max(x, 0, initial=-1.0, where=x < 0), F, jaxpr=True)
        self.check("mean_where", lambda x: jnp.mean(x, 0, where=x < 1), F, jaxpr=True)
        self.check("var_ddof", lambda x: jnp.var(x, -1, ddof=1), F, jaxpr=True)
        self.check("std_where", lambda x: jnp.std(x, where=x < 1), F)
        self.check("average_weights", lambda x, w: jnp.average(x, 1, weights=w), F, abs(ROW))
        self.check("average_weights", lambda x, w: jnp.average(x, 1, weights=w), F, abs(F))
        self.check("cumsum", jnp.cumsum, I, jaxpr=True)
        self.check("cumsum_bool", lambda x: jnp.cumsum(x, 0, dtype=bool), I % 2, jaxpr=True)
        self.check("cumsum_0", lambda x: jnp.cumsum(x, 0), F, jaxpr=True)
        self.check("cumprod_-1", lambda x: jnp.cumprod(x, -1), B, jaxpr=True)
        holes = F.at[0, 1].set(jnp.nan)
        self.check("nancumsum", jnp.nancumsum, holes)
        self.check("nancumprod_0", lambda x: jnp.nancumprod(x, 0), holes)
        q = jnp.asarray([0.0, 0.25, 0.9])
        self.check("quantile", jnp.quantile, F, q)
        self.check("quantile", jnp.quantile, F, jnp.float32(0.6))
        self.check("quantile_axes", lambda x: jnp.quantile(x, 0.3, (0, 1), keepdims=True), jnp.arange(24.0).reshape(2, 3, 4))
        self.check("quantile_0_lower", lambda x, q: jnp.quantile(x, q, 0, method="lower"), F, q)
        self.check("quantile_1_nearest", lambda x: jnp.quantile(x, 0.4, 1, method="nearest"), F)
        self.check("percentile", lambda x: jnp.percentile(x, 20, 0), F)

    def test_creation(self):
        self.check("zeros", lambda: jnp.zeros((2, 3)), jaxpr=True)
        self.check("ones_int", lambda: jnp.ones((2,), "int32"), jaxpr=True)
        self.check("full", lambda: jnp.full((2, 2), 3), jaxpr=True)
        self.check("full_vector", lambda x: jnp.full((2, 3), x), jnp.arange(3.0), jaxpr=True)
        self.check("zeros_like", jnp.zeros_like, F, jaxpr=True)
        self.check("ones_like_int", lambda x: jnp.ones_like(x, "int32", shape=(4,)), F, jaxpr=True)
        self.check("full_like", lambda x: jnp.full_like(x, 2.5), F, jaxpr=True)
        for case, args, kw in (("arange_5", (5,), {}), ("arange_1_5f", (1, 5.0), {}), ("arange_0_10_3", (0, 10, 3), {}),
                               ("arange_down", (5, -2, -2), {}), ("arange_f", (0.5, 3, 0.25), {}),
                               ("arange_i8", (7,), dict(dtype="int8"))):
            self.check(case, lambda: jnp.arange(*args, **kw), jaxpr=True)
        for case, args, kw in (("linspace", (0.0, 1.0, 5), {}), ("linspace_open", (2, 3, 4), dict(endpoint=False)),
                               ("linspace_1", (2, 3, 1), {}), ("linspace_0", (2, 3, 0), {}),
                               ("linspace_int", (0, 10, 4), dict(dtype="int32"))):
            self.check(case, lambda: jnp.linspace(*args, **kw))
        self.check("linspace_arrays", lambda x: jnp.linspace(x, 3, 4, axis=1), jnp.arange(3.0))
        self.check("logspace", lambda: jnp.logspace(0, 2, 5))
        self.check("logspace_base", lambda: jnp.logspace(0, 2, 3, base=2))
        self.check("geomspace", lambda: jnp.geomspace(1, 1000, 4))
        self.check("geomspace_negative", lambda: jnp.geomspace(-1.0, -8.0, 4))
        self.check("eye", lambda: jnp.eye(3), jaxpr=True)
        self.check("eye_k", lambda: jnp.eye(3, 4, 1, "int32"), jaxpr=True)
        self.check("identity", lambda: jnp.identity(2), jaxpr=True)

    def test_eager(self):
        for name in "add floor_divide logaddexp isclose".split():
            self.check(name, getattr(jnp, name), F, F + 1, eager=True)
        for name in "sum std median argmax cumsum".split():
            self.check(name, getattr(jnp, name), F, eager=True)


oracle.main("numpy")

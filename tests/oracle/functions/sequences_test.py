"""numpy/ against jax.numpy: sorting, series, products, index tricks. usage: sequences_test.py RUN_FUNCTIONS"""
import oracle
from oracle import jax, jnp, np

RNG = np.random.default_rng(3)


def normal(*shape):
    return jnp.asarray(RNG.normal(size=shape).astype(np.float32))


def ints(low, high, *shape):
    return jnp.asarray(RNG.integers(low, high, shape).astype(np.int32))


F, I, V = normal(3, 4), ints(-3, 4, 3, 4), normal(6)
C = F + 1j * normal(3, 4)
B = I > 0
HOLES = F.at[0, 1].set(jnp.nan).at[2, 3].set(-jnp.inf).at[1, 1].set(jnp.nan)
RISING = jnp.sort(normal(7))


class Sorting(oracle.Table):
    def test_sort(self):
        for x in (F, I, HOLES, C, B, I.astype(jnp.uint8), F.astype(jnp.bfloat16)):
            also = dict(jaxpr=True, grad=x is F or x is C, vmap=x is F)
            self.check("sort", jnp.sort, x, **also)
            self.check("argsort", jnp.argsort, x, **also)
            self.check("sort_descending", lambda x: jnp.sort(x, descending=True), x, **also)
            self.check("argsort_descending", lambda x: jnp.argsort(x, descending=True), x, **also)
        for case, axis in (("0", 0), ("none", None)):
            self.check("sort_" + case, lambda x: jnp.sort(x, axis), F, jaxpr=True)
            self.check("argsort_" + case, lambda x: jnp.argsort(x, axis), I, jaxpr=True)
        self.check("lexsort", lambda *k: jnp.lexsort(k), I, HOLES, jaxpr=True)
        self.check("lexsort_0", lambda *k: jnp.lexsort(k, 0), F, I, I % 2)
        for x in (F, I, C):
            self.check("sort_complex", jnp.sort_complex, x)
        for x in (F, I, I.astype(jnp.uint8)):
            self.check("partition", lambda x: jnp.partition(x, 2), x)
            self.check("partition_0", lambda x: jnp.partition(x, -1, 0), x, vmap=False)
            self.check("argpartition", lambda x: jnp.argpartition(x, 2), x)
            self.check("argpartition_0", lambda x: jnp.argpartition(x, 1, 0), x, vmap=False)

    def test_search(self):
        edges = jnp.asarray([-2.0, -0.5, -0.5, 0.0, 1.5])
        whole = jnp.asarray([-3, -1, -1, 2], jnp.int32)
        holes = jnp.sort(HOLES.ravel())
        for case, side in (("", "left"), ("_right", "right")):
            f = lambda a, v: jnp.searchsorted(a, v, side=side)
            self.check("searchsorted" + case, f, edges, F)
            self.check("searchsorted" + case, f, edges, jnp.float32(-0.5))
            self.check("searchsorted" + case, f, whole, I)
            self.check("searchsorted" + case, f, whole, F, vmap=False)
            self.check("searchsorted" + case, f, holes, HOLES, vmap=False)
            self.check("searchsorted" + case, f, jnp.sort(C.ravel()), C, vmap=False)
            self.check("searchsorted" + case, f, jnp.zeros(0), F, vmap=False)
            right = case != ""
            self.check("digitize" + case, lambda x, b: jnp.digitize(x, b, right), F, edges)
            self.check("digitize" + case, lambda x, b: jnp.digitize(x, b, right), I, whole[::-1], vmap=False)

    def test_sets_and_counts(self):
        self.check("isin", jnp.isin, I, jnp.asarray([2, -1, 5], jnp.int32))
        self.check("isin_invert", lambda a, b: jnp.isin(a, b, invert=True), I, jnp.asarray([2.0, -1.0]))
        self.check("unique", jnp.unique, I, eager=True)
        for x in (I, HOLES, C, B):
            grad = dict(grad=x is HOLES, vmap=x is I)
            self.check("unique_4", lambda x: jnp.unique(x, size=4), x, **grad)
            self.check("unique_fill", lambda x: jnp.unique(x, size=14, fill_value=-7), x, **grad)
            everything = lambda x: jnp.unique(x, True, True, True, size=15)
            self.check("unique_all", everything, x, **grad)
            self.check("unique_axis", lambda x: jnp.unique(x, axis=1, size=3), x, **grad)
        counted = ints(-1, 8, 20)
        self.check("bincount", jnp.bincount, counted, eager=True)
        self.check("bincount_min", lambda x: jnp.bincount(x, minlength=20), counted, eager=True)
        self.check("bincount_6", lambda x: jnp.bincount(x, length=6), counted)
        self.check("bincount_weights", lambda x, w: jnp.bincount(x, w, length=6), counted, normal(20))
        for x in (F, I):
            self.check("histogram", jnp.histogram, x)
        self.check("histogram", jnp.histogram, jnp.full(3, 2.0), grad=False)
        self.check("histogram_range", lambda x: jnp.histogram(x, 4, (-1.0, 2.0)), F)
        self.check("histogram_density", lambda x, w: jnp.histogram(x, 3, weights=w, density=True), F, abs(normal(3, 4)))
        self.check("histogram_edges", jnp.histogram, F, jnp.asarray([-1.0, 0.0, 0.25, 3.0]))
        self.check("histogram_bin_edges", lambda x: jnp.histogram_bin_edges(x, 5), F)


class Series(oracle.Table):
    def test_differences(self):
        for x in (F, I, B):
            self.check("diff", jnp.diff, x, jaxpr=x is F)
            self.check("ediff1d", jnp.ediff1d, x) if x is not B else None
        self.check("diff_2", lambda x: jnp.diff(x, 2, 0), F)
        self.check("diff_joined", lambda x: jnp.diff(x, prepend=2, append=x), F)
        self.check("ediff1d_ends", lambda x, e: jnp.ediff1d(x, e, 3), F, V)
        for x in (F, I):
            self.check("gradient", jnp.gradient, x)
        self.check("gradient_spacing", lambda x, c: jnp.gradient(x, 2.0, c), F, jnp.asarray([0.0, 1.0, 1.5, 4.0]))
        self.check("gradient_axis", lambda x: jnp.gradient(x, 0.5, axis=-1), F)
        self.check("trapezoid", jnp.trapezoid, F)
        self.check("trapezoid", jnp.trapezoid, I)
        self.check("trapezoid_dx", lambda x: jnp.trapezoid(x, dx=0.5, axis=0), F)
        self.check("trapezoid_x", jnp.trapezoid, F, jnp.asarray([0.0, 1.0, 1.5, 4.0]))
        self.check("trapezoid_x", jnp.trapezoid, F, jnp.cumsum(abs(F), -1))
        self.check("unwrap", jnp.unwrap, 6 * F)
        self.check("unwrap_period", lambda x: jnp.unwrap(x, 4, 0, 7), 5 * I)

    def test_interpolation(self):
        x, f = jnp.asarray([0.0, 0.5, 0.5, 2.0, 2.5]), normal(5)
        at = jnp.asarray([-1.0, 0.0, 0.25, 0.5, 1.0, 2.25, 2.5, 3.5])
        self.check("interp", jnp.interp, at, x, f)
        self.check("interp", jnp.interp, jnp.arange(3), jnp.arange(4), jnp.asarray([1, 4, 2, 8]), grad=False)
        self.check("interp", jnp.interp, at, x, f + 1j * f)
        self.check("interp_ends", lambda *a: jnp.interp(*a, left=-1.0, right=9.0), at, x, f)
        self.check("interp_extrapolate", lambda *a: jnp.interp(*a, left="extrapolate", right="extrapolate"), at, x, f)
        self.check("interp_period", lambda *a: jnp.interp(*a, period=3.0), at, jnp.asarray([2.0, 0.5, 5.9, 1.0, 4.4]), f)

    def test_convolution_and_polynomials(self):
        modes = lambda f, first, *rest: lambda a, v: tuple(f(a, v, m) for m in (first, *rest))
        for a, v in ((V, normal(3)), (normal(3), V), (ints(-4, 4, 5), ints(-4, 4, 4)), (C[0], V)):
            self.check("convolve", modes(jnp.convolve, "full", "same", "valid"), a, v)
            self.check("correlate", modes(jnp.correlate, "valid", "same", "full"), a, v)
        for p, x in ((normal(4), F), (ints(-3, 4, 3), I), (normal(3, 4), F), (normal(3), jnp.float32(2))):
            self.check("polyval", jnp.polyval, p, x)
        self.check("polyadd", jnp.polyadd, V, normal(4))
        self.check("polyadd", jnp.polyadd, normal(2), ints(-3, 3, 5))
        self.check("polymul", jnp.polymul, V, normal(4))
        vander = lambda x: (jnp.vander(x), jnp.vander(x, 3), jnp.vander(x, 5, True))
        self.check("vander", vander, V)
        self.check("vander", vander, ints(0, 4, 4))
        self.check("windows", lambda: (jnp.bartlett(6), jnp.blackman(7), jnp.hamming(6), jnp.hanning(5), jnp.hanning(1)))


class Products(oracle.Table):
    def test_products(self):
        for a, b in ((F, normal(2, 3)), (V, F), (I, V), (jnp.float32(2), F)):
            self.check("kron", jnp.kron, a, b)
        self.check("cross", jnp.cross, normal(4, 3), normal(4, 3))
        self.check("cross", jnp.cross, normal(4, 2), normal(3))
        self.check("cross", jnp.cross, normal(2), normal(2))
        self.check("cross_axis", lambda a, b: jnp.cross(a, b, axis=0), normal(3, 4), normal(2, 4))
        trace = lambda x: (jnp.trace(x), jnp.trace(x, 1), jnp.trace(x, -1, 1, 0))
        for x in (F, I, C, normal(3, 4, 2)):
            self.check("trace", trace, x)
        self.check("trace_int8", lambda x: jnp.trace(x, dtype="int8"), I)
        cov = lambda x: (jnp.cov(x), jnp.cov(x, bias=True), jnp.cov(x, rowvar=False, ddof=2))
        for x in (F, V, I, C):
            self.check("cov", cov, x)
        self.check("cov_y", jnp.cov, F, normal(4))
        self.check("cov_weights", lambda x, f, a: jnp.cov(x, fweights=f, aweights=a), F, ints(1, 4, 4), abs(normal(4)))
        for x in (F, C):
            self.check("corrcoef", jnp.corrcoef, x, tol=1e-4)

    def test_contractions(self):
        for a, b in ((F, normal(4, 2)), (V, normal(6)), (V, normal(2, 6, 3)), (normal(2, 3, 4), V[:4]),
                     (normal(5, 1, 2, 3), normal(4, 3, 2)), (I, ints(-3, 3, 4, 2)), (F, C.T), (I, F.T)):
            self.check("matmul", jnp.matmul, a, b)
        for a, b in ((F, normal(4, 2)), (normal(2, 3, 4), normal(5, 4, 2)), (V, jnp.float32(2)), (V, ints(0, 3, 6))):
            self.check("dot", jnp.dot, a, b)
        for a, b in ((F, normal(3, 4)), (C, C[::-1]), (C, F)):
            self.check("vdot", jnp.vdot, a, b)
            self.check("outer", jnp.outer, a, b)
            self.check("inner", jnp.inner, a, b)
        self.check("tensordot", lambda a, b: jnp.tensordot(a, b, 1), normal(2, 3, 4), normal(4, 5))
        self.check("tensordot_axes", lambda a, b: jnp.tensordot(a, b, ((0, 2), (1, 0))), normal(2, 3, 4), normal(4, 2, 5))
        e = lambda s: lambda *a: jnp.einsum(s, *a)
        self.check("einsum_attention", e("bqd,bkd->bqk"), normal(2, 3, 4), normal(2, 5, 4))
        self.check("einsum_implicit", e("ij,jk"), F, ints(-3, 3, 4, 2))
        self.check("einsum_diagonal", lambda a: (jnp.einsum("ii->i", a), jnp.einsum("ii", a)), normal(4, 4))
        self.check("einsum_dots", e("...ij,jk->...ik"), normal(2, 3, 4), normal(4, 5))
        self.check("einsum_three", e("ij,jk,kl->il"), normal(2, 3), normal(3, 4), normal(4, 2))


class Places(oracle.Table):
    def test_indices(self):
        self.check("triu_indices", lambda: jnp.triu_indices(4, 1))
        self.check("tril_indices", lambda: jnp.tril_indices(3, -1, 5))
        self.check("diag_indices", lambda: jnp.diag_indices(3, 3))
        self.check("ix_", jnp.ix_, ints(0, 3, 2), ints(0, 3, 4), vmap=False)
        self.check("indices", lambda: (jnp.indices((2, 3)), jnp.indices((3,), "float32")))
        places = jnp.asarray([0, 5, 11, 12, 40, -1, -3, -40], jnp.int32)
        self.check("unravel_index", lambda i: jnp.unravel_index(i, (3, 4)), places)
        self.check("unravel_index", lambda i: jnp.unravel_index(i, (3, 4)), places.astype(jnp.uint8))
        for case, mode in (("", "clip"), ("_wrap", "wrap")):
            f = lambda *i: jnp.ravel_multi_index(i, (3, 4), mode)
            self.check("ravel_multi_index" + case, f, places, places[::-1])

    def test_reading(self):
        f = lambda x: jnp.select([x > 1, x > 0], [x, 2 * x], -1)
        self.check("select", f, F)
        self.check("select", f, I)
        flags = jnp.asarray([True, False, True])
        self.check("compress", lambda c, x: jnp.compress(c, x, 0, size=2), flags, F)
        self.check("compress_fill", lambda c, x: jnp.compress(c, x, 1, size=4, fill_value=9), jnp.append(flags, True), I)
        self.check("compress_all", jnp.compress, flags, V, eager=True)
        self.check("extract", lambda c, x: jnp.extract(c, x, size=5), B, F)
        for x in (F.at[0, 2].set(0), I, B):
            for name, f in dict(nonzero=jnp.nonzero, flatnonzero=jnp.flatnonzero, argwhere=jnp.argwhere).items():
                self.check(name, f, x, eager=True)
                self.check(name + "_5", lambda x: f(x, size=5), x)
            self.check("nonzero_fill", lambda x: jnp.nonzero(x, size=14, fill_value=-1), x)
            self.check("where_5", lambda x: jnp.where(x, size=5), x)

    def test_writing(self):
        at, values = jnp.asarray([0, 5, -1, 30, -20], jnp.int32), normal(3)
        modes = lambda x, i, v: tuple(jnp.put(x, i, v, m, inplace=False) for m in (None, "clip", "wrap"))
        self.check("put", modes, F, at, values, grad=False)  # which of several writers wins is not said
        once = jnp.asarray([[0, 3], [1, 2], [3, 0]], jnp.int32)
        self.check("put_along_axis", lambda x, i, v: jnp.put_along_axis(x, i, v, 1, inplace=False), F, once, normal(3, 2))
        self.check("fill_diagonal", lambda x, v: jnp.fill_diagonal(x, v, inplace=False), F, jnp.float32(7))
        self.check("fill_diagonal", lambda x, v: jnp.fill_diagonal(x, v, inplace=False), normal(3, 3, 3), normal(2))
        self.check("apply_along_axis", lambda x: jnp.apply_along_axis(lambda v: jnp.cumsum(v) * v[0], 1, x), normal(2, 3, 4))
        self.check("apply_over_axes", lambda x: jnp.apply_over_axes(jnp.sum, x, (0, 2)), normal(2, 3, 4))

    def test_shapes(self):
        self.check("reshape", lambda x: jnp.reshape(x, (2, -1)), F, jaxpr=True)
        self.check("expand_dims", lambda x: jnp.expand_dims(x, (0, -1)), F, jaxpr=True)
        self.check("matrix_transpose", jnp.matrix_transpose, normal(2, 3, 4), jaxpr=True)
        self.check("broadcast_arrays", jnp.broadcast_arrays, F, V[:4])
        self.check("append", lambda a, b: (jnp.append(a, b), jnp.append(a, b, 0)), F, I)
        self.check("unstack", lambda x: jnp.unstack(x, axis=1), F)
        self.check("hsplit", lambda x: jnp.hsplit(x, 2), F)
        self.check("vsplit", lambda x: jnp.vsplit(x, (1, 2)), F)
        self.check("dsplit", lambda x: jnp.dsplit(x, 2), normal(2, 3, 4))
        self.check("diagflat", lambda x: jnp.diagflat(x, 1), V)
        self.check("empties", lambda x: (jnp.zeros(2) * 0, jnp.zeros_like(x) * 0), F)
        x = jnp.clip(F, -0.9, 0.9)
        self.check("aliases_1", lambda x: (
            jnp.abs(x), jnp.acos(x), jnp.acosh(2 + x), jnp.asin(x), jnp.asinh(x), jnp.atan(x), jnp.atanh(x), jnp.conj(x),
            jnp.degrees(x), jnp.radians(x), jnp.trunc(3 * x), jnp.amax(x, 0), jnp.amin(x, 1)), x)
        self.check("aliases_2", lambda x, y: (jnp.atan2(x, y), jnp.divide(x, y), jnp.mod(x, y), jnp.pow(x, y)), abs(F), x)
        self.check("aliases_int", lambda x: (jnp.invert(x), jnp.bitwise_invert(x)), I)


oracle.main("sequences")

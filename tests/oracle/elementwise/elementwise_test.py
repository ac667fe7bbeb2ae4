#!/usr/bin/env python3
"""Elementwise functions against jax.lax: values, dtypes and weak types, and the text of jaxprs and of their vjps.

usage: elementwise_test.py PROGRAM [unittest options]
"""
import os
import subprocess
import sys
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

PROGRAM = sys.argv.pop(1)
DTYPES = {"bfloat16": ml_dtypes.bfloat16, "key<fry>": np.uint64}

SPECIAL = {
    "round_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "cube": lambda x: lax.integer_pow(x, 3),
    "inverse_square": lambda x: lax.integer_pow(x, -2),
    "clamp_unit": lambda x: lax.clamp(0.0, x, 1.0),
    "to_float32": lambda x: lax.convert_element_type(x, jnp.float32),
    "to_bfloat16": lambda x: lax.convert_element_type(x, jnp.bfloat16),
    "to_int32": lambda x: lax.convert_element_type(x, jnp.int32),
    "to_bool": lambda x: lax.convert_element_type(x, jnp.bool_),
    "to_complex64": lambda x: lax.convert_element_type(x, jnp.complex64),
    "bits_int32": lambda x: lax.bitcast_convert_type(x, jnp.int32),
    "bits_uint8": lambda x: lax.bitcast_convert_type(x, jnp.uint8),
    "reduce_precision": lambda x: lax.reduce_precision(x, 5, 10),
    "double_it": lambda x: lax.mul(x, 2.0),
    "from_one": lambda x: lax.sub(1.0, x),
    "twice_over": lambda x: lax.div(2.0, x),
    "squared": lambda x: lax.pow(x, 2),
    "to_the_5_halves": lambda x: lax.pow(x, 2.5),
    "relu": lambda x: lax.max(x, 0.0),
    "zeros_like": lambda x: lax.full_like(x, 0),
    "ones_like": lambda x: lax.full_like(x, 1),
    "optimization_barrier": lambda *x: lax.optimization_barrier(x),
    "key_data": jax.random.key_data,
    "wrap_key_data": jax.random.wrap_key_data,
    "seed": jax.random.key,
    "split_3": lambda k: jax.random.split(k, 3),
    "fold_in": jax.random.fold_in,
    "bits_8": lambda k: jax.random.bits(k, (3, 5), jnp.uint8),
    "bits_16": lambda k: jax.random.bits(k, (7,), jnp.uint16),
    "bits_32": lambda k: jax.random.bits(k, (2, 1, 3), jnp.uint32),
    "bits_64": lambda k: jax.random.bits(k, (4,), jnp.uint64),
}


def function(name):
    return SPECIAL.get(name) or getattr(lax, name)


def is_key(x):
    return jnp.issubdtype(getattr(x, "dtype", np.float32), jax.dtypes.prng_key)


def packed(key):
    words = np.asarray(jax.random.key_data(key)).astype(np.uint64)
    return words[..., 0] << np.uint64(32) | words[..., 1]


class ElementwiseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.random = np.random.default_rng(7)

    @classmethod
    def tearDownClass(cls):
        cls.program.stdin.close()
        cls.program.wait(timeout=30)
        cls.program.stdout.close()

    def request(self, what, name, operands):
        out = self.program.stdin
        out.write(f"{what} {name} {len(operands)}\n".encode())
        for x in operands:
            data = packed(x) if is_key(x) else np.asarray(x)
            dtype = "key<fry>" if is_key(x) else data.dtype.name
            weak = int(getattr(x, "weak_type", False))
            out.write(" ".join([dtype, str(weak), *map(str, data.shape)]).encode() + b"\n" + data.tobytes())
        out.flush()
        head = self.program.stdout.readline().decode()
        if head.startswith("error"):
            raise RuntimeError(self.program.stdout.read(int(head.split()[1])).decode())
        return int(head)

    def text(self, what, name, operands):
        return self.program.stdout.read(self.request(what, name, operands)).decode()

    def values(self, name, operands):
        results = []
        for _ in range(self.request("value", name, operands)):
            dtype, weak, *shape = self.program.stdout.readline().decode().split()
            shape = tuple(map(int, shape))
            numpy_dtype = np.dtype(DTYPES.get(dtype, dtype))
            size = int(np.prod(shape)) * numpy_dtype.itemsize
            data = np.frombuffer(self.program.stdout.read(size), numpy_dtype).reshape(shape)
            results.append((data, dtype, weak == "1"))
        return results

    def check_values(self, name, *operands, tolerance=None):
        with self.subTest(function=name, operands=[str(getattr(x, "dtype", x)) for x in operands]):
            expected = jax.jit(function(name))(*operands)
            expected = expected if isinstance(expected, (tuple, list)) else [expected]
            actual = self.values(name, operands)
            self.assertEqual(len(actual), len(expected))
            for (data, dtype, weak), want in zip(actual, expected):
                self.assertEqual(weak, want.weak_type if not is_key(want) else False)
                if is_key(want):
                    self.assertEqual(dtype, "key<fry>")
                    np.testing.assert_array_equal(data, packed(want))
                    continue
                self.assertEqual(dtype, want.dtype.name)
                want = np.asarray(want)
                if want.dtype.kind in "biu" or tolerance is None:
                    np.testing.assert_array_equal(data, want)
                else:
                    wide = np.complex128 if want.dtype.kind == "c" else np.float64
                    np.testing.assert_allclose(data.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)

    def check_text(self, name, *operands, vjp=True):
        """The jaxpr, and for inexact operands that of the vjp, must read as JAX's."""
        with self.subTest(function=name, operands=[str(getattr(x, "dtype", x)) for x in operands]):
            f = function(name)
            self.assertEqual(self.text("jaxpr", name, operands), str(jax.make_jaxpr(f)(*operands)).replace(" \n", "\n"))
            out = jax.eval_shape(f, *operands)
            if not vjp or not all(jnp.issubdtype(x.dtype, jnp.inexact) for x in [*operands, *jax.tree.leaves(out)]):
                return
            cotangents = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), out)

            def cotangents_of(operands, cotangents):
                return jax.vjp(f, *operands)[1](cotangents)

            expected = str(jax.make_jaxpr(cotangents_of)(operands, cotangents)).replace(" \n", "\n")
            self.assertEqual(self.text("vjp", name, operands), expected)

    def number(self, dtype, shape=(7,), low=-2.0, high=2.0):
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return jnp.asarray(self.random.integers(0, 2, shape) > 0)
        if dtype.kind in "iu":
            return jnp.asarray(self.random.integers(0 if dtype.kind == "u" else -9, 10, shape), dtype)
        x = self.random.uniform(low, high, shape)
        if dtype.kind == "c":
            x = x + 1j * self.random.uniform(low, high, shape)
        return jnp.asarray(x, dtype)

    FLOAT = [np.float32, ml_dtypes.bfloat16, np.float16]
    INEXACT = FLOAT + [np.complex64]
    ROUGH = {np.dtype(np.float32): 2e-6, np.dtype(np.complex64): 4e-6, np.dtype(np.float16): 2e-3,
             np.dtype(ml_dtypes.bfloat16): 1.6e-2}
    UNARY = {"exp": (-3, 3), "exp2": (-3, 3), "log": (0.1, 4), "expm1": (-2, 2), "log1p": (-0.9, 3), "tanh": (-3, 3),
             "logistic": (-4, 4), "sin": (-4, 4), "cos": (-4, 4), "tan": (-1.4, 1.4), "asin": (-0.99, 0.99),
             "acos": (-0.99, 0.99), "atan": (-0.9, 0.9), "sinh": (-2, 2), "cosh": (-2, 2), "asinh": (-0.9, 0.9),
             "acosh": (1.1, 4), "atanh": (-0.9, 0.9), "sqrt": (0.1, 4), "rsqrt": (0.1, 4), "square": (-2, 2),
             "reciprocal": (0.3, 3), "neg": (-2, 2), "sign": (-2, 2), "cube": (-2, 2), "inverse_square": (0.4, 2),
             "abs": (-2, 2)}
    UNARY_REAL = {"floor": (-4, 4), "ceil": (-4, 4), "round": (-4, 4), "round_even": (-4, 4), "is_finite": (-1, 1),
                  "cbrt": (0.2, 4), "erf": (-2, 2), "erfc": (-2, 2), "erf_inv": (-0.95, 0.95), "lgamma": (0.2, 6),
                  "digamma": (0.2, 6), "bessel_i0e": (-12, 12), "bessel_i1e": (-12, 12), "reduce_precision": (-2, 2),
                  "clamp_unit": (-1, 2), "relu": (-1, 1)}
    BINARY = ["add", "sub", "mul", "div", "max", "min", "pow"]

    def test_unary_values(self):
        for names, dtypes in [(self.UNARY, self.INEXACT), (self.UNARY_REAL, self.FLOAT)]:
            for name, (low, high) in names.items():
                for dtype in dtypes:
                    if dtype == np.complex64 and name in ("sign", "is_finite"):
                        continue
                    if dtype != np.float32 and name in ("clamp_unit", "relu"):
                        continue  # lax refuses to promote the number
                    x = self.number(dtype, low=low, high=high)
                    self.check_values(name, x, tolerance=self.ROUGH[np.dtype(dtype)])

    def test_unary_text(self):
        for name, (low, high) in {**self.UNARY, **self.UNARY_REAL}.items():
            self.check_text(name, self.number(np.float32, low=low, high=high))
        for name, (low, high) in self.UNARY.items():
            self.check_text(name, self.number(np.complex64, low=low, high=high))
        for name in ["double_it", "from_one", "twice_over", "squared", "to_the_5_halves", "stop_gradient", "conj",
                     "zeros_like", "ones_like", "to_bfloat16", "to_int32", "to_bool", "to_complex64", "bits_int32",
                     "bits_uint8", "optimization_barrier"]:
            self.check_text(name, self.number(np.float32))
        for name in ["real", "imag", "conj", "abs"]:
            self.check_text(name, self.number(np.complex64))

    def test_integers(self):
        for dtype in [np.int32, np.uint8, np.int16, np.uint32]:
            for name in ["neg", "sign", "square", "cube", "bitwise_not", "population_count", "clz", "abs"]:
                if name != "abs" or np.dtype(dtype).kind == "i":
                    self.check_values(name, self.number(dtype))
            for name in ["add", "sub", "mul", "mulhi", "div", "rem", "max", "min", "bitwise_and", "bitwise_or",
                         "bitwise_xor", "shift_left", "shift_right_arithmetic", "shift_right_logical", "eq", "ne", "ge",
                         "gt", "le", "lt"]:
                self.check_values(name, self.number(dtype), self.number(dtype))
                self.check_text(name, self.number(dtype), self.number(dtype))
        for name in ["bitwise_not"]:
            self.check_values(name, self.number(np.bool_))
        for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "max", "min", "eq", "ne", "ge", "gt", "le", "lt"]:
            self.check_values(name, self.number(np.bool_), self.number(np.bool_))

    def test_binary_values(self):
        for name in self.BINARY + ["rem", "atan2", "nextafter", "eq", "ne", "ge", "gt", "le", "lt"]:
            for dtype in self.FLOAT:
                x, y = self.number(dtype, low=0.2, high=3), self.number(dtype, low=0.4, high=2)
                tolerance = self.ROUGH[np.dtype(dtype)] if name in ("pow", "atan2", "div") else None
                self.check_values(name, x, y, tolerance=tolerance)
        for name in self.BINARY + ["eq", "ne"]:
            self.check_values(name, self.number(np.complex64), self.number(np.complex64), tolerance=1e-5)
        self.check_values("complex", self.number(np.float32), self.number(np.float32))
        self.check_values("polygamma", jnp.float32([1, 2, 3]), jnp.float32([0.5, 1, 4]), tolerance=1e-5)
        self.check_values("zeta", jnp.float32([1.5, 2, 3]), jnp.float32([0.5, 1, 4]), tolerance=1e-5)
        self.check_values("pow", self.number(np.float32), jnp.int32([0, 1, 2, 3, -1, -2, 5]), tolerance=1e-5)

    def test_incomplete_functions(self):
        a = jnp.float32([0.3, 1, 2.5, 7, 0.5, 30, 1, 2, 0, -1, np.nan])
        x = jnp.float32([0.2, 1, 6.0, 2, 9.0, 28, 0, np.inf, 1, 1, 1])
        for name in ["igamma", "igammac", "igamma_grad_a", "random_gamma_grad"]:
            self.check_values(name, a, x, tolerance=3e-5)
        self.check_values("igamma", a.astype(jnp.bfloat16), x.astype(jnp.bfloat16), tolerance=1.6e-2)
        for name in ["igamma", "igammac"]:
            self.check_text(name, a, x)
        a = jnp.float32([0.3, 1, 2.5, 7, 0.5, 30, 1, 2, 0, -1, np.nan, 1])
        b = jnp.float32([0.2, 1, 6.0, 2, 9.0, 28, 3, np.inf, 1, 1, 1, 1])
        x = jnp.float32([0.1, 0.5, 0.9, 0.3, 0.05, 0.5, 0, 0.5, 0.5, 0.5, 0.5, 1])
        self.check_values("betainc", a, b, x, tolerance=3e-5)

    def test_binary_text(self):
        vector, scalar = self.number(np.float32, low=0.5), self.number(np.float32, (), low=0.5)
        column, row = self.number(np.float32, (3, 1), low=0.5), self.number(np.float32, (1, 4), low=0.5)
        for name in self.BINARY + ["rem", "atan2", "complex"]:
            for x, y in [(vector, vector), (vector, scalar), (scalar, vector), (column, row)]:
                self.check_text(name, x, y)
        for name in ["eq", "ne", "ge", "gt", "le", "lt", "nextafter"]:
            self.check_text(name, vector, scalar, vjp=False)
        for name in self.BINARY:
            self.check_text(name, self.number(np.complex64), self.number(np.complex64))

    def test_choices(self):
        x, y, flag = self.number(np.float32), self.number(np.float32), self.number(np.bool_)
        self.check_values("select", flag, x, y)
        self.check_text("select", flag, x, y)
        self.check_values("clamp", jnp.float32(-0.5), x, jnp.float32(0.7))
        self.check_text("clamp", jnp.float32(-0.5), x, jnp.float32(0.7), vjp=False)  # JAX has none
        self.check_text("clamp", x, y, x + 1)

    def test_conversions(self):
        dtypes = [np.float32, ml_dtypes.bfloat16, np.int32, np.uint8, np.bool_, np.complex64]
        for dtype in dtypes:
            for name in ["to_float32", "to_bfloat16", "to_int32", "to_bool", "to_complex64"]:
                self.check_values(name, self.number(dtype, low=-9, high=9))
        for name in ["bits_int32", "bits_uint8"]:
            self.check_values(name, self.number(np.float32))
        self.check_values("to_int32", jnp.float32([np.inf, -np.inf, np.nan, 3e9, -3e9, 2.5]))

    def test_edges(self):
        edges = jnp.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38, 1.0, -1.0])
        for name in {**self.UNARY, **self.UNARY_REAL}:
            if name != "digamma":  # at its poles the compilers' versions differ: -inf or NaN
                self.check_values(name, edges, tolerance=2e-6)
        for name in self.BINARY + ["rem", "atan2", "nextafter", "eq", "lt"]:
            x, y = jnp.repeat(edges, 10), jnp.tile(edges, 10)
            self.check_values(name, x, y, tolerance=2e-6)

    def test_weak_types(self):
        weak = jax.jit(lambda: 2.5)()
        strong = self.number(np.float32)
        for name in ["sin", "abs", "neg", "is_finite", "ones_like", "floor"]:
            self.check_values(name, weak, tolerance=2e-6)
        for x, y in [(weak, weak), (weak, strong), (strong, weak)]:
            for name in ["add", "max", "lt"]:
                self.check_values(name, x, y, tolerance=2e-6)
        self.check_values("to_float32", weak)

    def test_random_bits(self):
        keys = [jax.random.key(0), jax.random.key(7), jax.random.key(-1), jax.random.key(2**31 - 1),
                jax.random.split(jax.random.key(3), (2, 3))]
        for key in keys:
            for name in ["key_data"] + ([] if key.ndim else ["split_3", "bits_8", "bits_16", "bits_32"]):
                self.check_values(name, key)
                self.check_text(name, key)
        self.check_values("wrap_key_data", jax.random.key_data(keys[-1]))
        self.check_text("wrap_key_data", jax.random.key_data(keys[1]))
        for seed in [0, 1, -1, 2**31 - 1]:
            self.check_values("seed", jnp.int32(seed))
            self.check_values("fold_in", keys[1], jnp.uint32(seed % 2**32))
        self.check_text("seed", jnp.int32(3))
        self.check_text("fold_in", keys[1], jnp.uint32(3))
        with jax.enable_x64(True):
            self.check_values("bits_64", keys[1])


if __name__ == "__main__":
    unittest.main()

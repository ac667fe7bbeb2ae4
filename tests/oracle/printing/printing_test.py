"""Arrays print as NumPy and JAX print them. usage: printing_test.py PRINT_ARRAYS"""
import os
import subprocess
import sys
import unittest

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

PROGRAM = sys.argv.pop()
FLOATS = [np.float16, np.float32, np.float64]
COMPLEX = [np.complex64, np.complex128]
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


class Printing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.random = np.random.default_rng(0)

    @classmethod
    def tearDownClass(cls):
        cls.program.communicate(timeout=60)

    def printed(self, form, array, weak=False):
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        head = " ".join([form, array.dtype.name, str(int(weak)), *map(str, array.shape)])
        self.program.stdin.write(head.encode() + b"\n" + array.tobytes())
        self.program.stdin.flush()
        size = int(self.program.stdout.readline())
        return self.program.stdout.read(size).decode()

    def check(self, array):
        # A 0-d array prints as its scalar, as str() does.
        self.assertEqual(self.printed("str", array), str(array), repr(array))

    def check_all(self, arrays):
        for array in arrays:
            self.check(array)

    def values(self, dtype, count):
        """Numbers of every kind of magnitude."""
        r = self.random
        kind = r.integers(6)
        if kind == 0:
            x = r.normal(size=count)
        elif kind == 1:
            x = r.integers(-1000, 1000, count) / r.choice([1, 2, 8, 10, 100])
        elif kind == 2:
            x = r.normal(size=count) * 10.0 ** r.integers(-12, 12)
        elif kind == 3:
            x = r.normal(size=count) * 10.0 ** r.integers(-8, 8, count)
        elif kind == 4:
            x = 2.0 ** r.integers(-30, 30, count)
        else:
            bits = r.integers(0, 2 ** (8 * np.dtype(dtype).itemsize) - 1, count, dtype=np.uint64, endpoint=True)
            return bits.astype(f"uint{8 * np.dtype(dtype).itemsize}").view(dtype)
        with np.errstate(over="ignore"):
            x = x.astype(dtype)
        if r.random() < 0.2:
            x[r.integers(count)] = r.choice([np.nan, np.inf, -np.inf, -0.0, 0.0])
        return x

    def test_float_vectors(self):
        for dtype in FLOATS:
            for _ in range(400):
                self.check(self.values(dtype, self.random.integers(1, 12)))

    def test_float_scalars(self):
        for dtype in FLOATS:
            for _ in range(300):
                self.check(self.values(dtype, 1).reshape(()))
            for k in range(-8, 20):
                with np.errstate(over="ignore"):
                    x = np.asarray(10.0**k, dtype)
                self.check_all([x, -x, np.nextafter(x, dtype(0)), np.nextafter(x, dtype(np.inf))])

    def test_all_halves(self):
        every = np.arange(2**16, dtype=np.uint16).view(np.float16)
        for x in every[self.random.permutation(2**16)[:4000]]:
            self.check(np.asarray(x))

    def test_powers_of_two(self):
        for dtype in FLOATS:
            info = np.finfo(dtype)
            for e in range(info.minexp - info.nmant, info.maxexp, 1 if dtype != np.float64 else 7):
                self.check(np.asarray(np.ldexp(dtype(1), e), dtype))

    def test_matrices(self):
        for dtype in FLOATS + COMPLEX:
            for _ in range(60):
                shape = self.random.integers(1, 6, self.random.integers(1, 5))
                x = self.values(dtype if dtype in FLOATS else np.float64, np.prod(shape)).reshape(shape)
                with np.errstate(over="ignore", invalid="ignore"):
                    self.check(x.astype(dtype) if dtype in FLOATS else (x + 1j * x[::-1]).astype(dtype))

    def test_complex(self):
        for dtype, part in zip(COMPLEX, [np.float32, np.float64]):
            for _ in range(200):
                n = self.random.integers(1, 6)
                x = np.empty(n, dtype)
                x.real, x.imag = self.values(part, n), self.values(part, n)
                self.check(x)
                self.check(x[0].reshape(()))

    def test_integers_and_bools(self):
        for dtype in INTEGERS:
            info = np.iinfo(dtype)
            for shape in [(), (5,), (3, 4), (2, 3, 2)]:
                self.check(self.random.integers(info.min, info.max, shape, dtype, endpoint=True))
                self.check(np.asarray(self.random.integers(0, 12, shape), dtype))
        for shape in [(), (4,), (2, 3), (40,)]:
            self.check(np.asarray(self.random.integers(0, 2, shape) > 0))

    def test_bfloat16(self):
        for shape in [(), (7,), (3, 5), (2000,)]:
            with np.errstate(over="ignore"):
                x = (self.random.normal(size=shape) * 10.0 ** self.random.integers(-9, 9, shape)).astype(ml_dtypes.bfloat16)
            self.check(x)

    def test_long_ones(self):
        for shape in [(1000,), (1001,), (30, 40), (7, 200), (200, 7), (3, 400, 2), (11, 12, 13), (1, 1, 2000), (6, 300)]:
            for dtype in [np.int32, np.float32, np.complex64, np.bool_]:
                self.check((self.random.normal(size=shape) * 100).astype(dtype))

    def test_empty_ones(self):
        self.check_all(np.zeros(shape, np.float32) for shape in [(0,), (0, 3), (2, 0, 3)])

    def test_keys(self):
        for key in [jax.random.key(7), jax.random.split(jax.random.key(7), 3), jax.random.split(jax.random.key(1), (2, 2))]:
            words = np.asarray(jax.random.key_data(key)).astype(np.uint64)
            packed = words[..., 0] << np.uint64(32) | words[..., 1]
            head = " ".join(["str", "key<fry>", "0", *map(str, packed.shape)])
            self.program.stdin.write(head.encode() + b"\n" + packed.tobytes())
            self.program.stdin.flush()
            self.assertEqual(self.program.stdout.read(int(self.program.stdout.readline())).decode(), str(key))

    def test_repr(self):
        for dtype in FLOATS + COMPLEX + INTEGERS + [np.bool_]:
            for shape in [(), (0,), (3,), (9,), (10,), (11,), (12,), (2, 2), (2000,), (2, 0)]:
                x = jnp.asarray(self.random.normal(size=shape) * 50 + 50).astype(dtype)
                self.assertEqual(self.printed("repr", np.asarray(x)), repr(x))
        for weak in [jax.jit(lambda: 2.5)(), jax.jit(lambda: 3)()]:
            self.assertTrue(weak.weak_type)
            self.assertEqual(self.printed("repr", np.asarray(weak), True), repr(weak))


if __name__ == "__main__":
    unittest.main()

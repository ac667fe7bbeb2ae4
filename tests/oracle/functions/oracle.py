"""Runs cases of run_functions and compares them with JAX."""
import re
import subprocess

import jax
import jax.numpy as jnp
import ml_dtypes  # noqa: F401, makes numpy know bfloat16
import numpy as np


def normalized(text):
    """A jaxpr's text without what is particular to Python: numpy's integers, addresses."""
    text = re.sub(r"np\.int64\((-?\d+)\)", r"\1", text)
    text = re.sub(r"\b(jvp|num_consts|symbolic_zeros)=\S+", "", text)
    text = re.sub(r"\s+", " ", text).strip()
    return text.replace("[ ", "[").replace(" ]", "]")


class Program:
    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        self.process.communicate(timeout=60)

    def ask(self, mode, case, *args):
        out = self.process.stdin
        out.write(f"{mode} {case} {len(args)}\n".encode())
        for a in args:
            weak = int(getattr(a, "weak_type", False))
            a = np.asarray(a)
            out.write(" ".join([a.dtype.name, str(weak), *map(str, a.shape)]).encode() + b"\n")
            out.write(np.ascontiguousarray(a).tobytes())
        out.flush()
        status, size = self.process.stdout.readline().split()
        text = self.process.stdout.read(int(size))
        if status == b"error":
            raise RuntimeError(text.decode())
        return text

    def jaxpr(self, case, *args):
        return self.ask("jaxpr", case, *args).decode()

    def arrays(self, mode, case, *args):
        data = self.ask(mode, case, *args)
        count, data = data.split(b"\n", 1)
        out = []
        for _ in range(int(count)):
            head, data = data.split(b"\n", 1)
            name, weak, *dims = head.decode().split()
            dtype, shape = np.dtype(name), tuple(map(int, dims))
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            out.append((np.frombuffer(data[:size], dtype).reshape(shape), weak == "1"))
            data = data[size:]
        return out


def tolerance(dtype):
    dtype = np.dtype(dtype)
    return {"bfloat16": 2e-2, "float16": 2e-3, "float64": 1e-11, "complex128": 1e-11}.get(dtype.name, 2e-5)


def check_values(test, program, case, function, *args, mode="run", exact=False, tol=None):
    """The program's results have the values, dtypes and weak types of the function's."""
    expected = jax.tree.leaves(function(*args))
    got = program.arrays(mode, case, *args)
    test.assertEqual(len(got), len(expected), case)
    for (value, weak), want in zip(got, expected):
        want = jnp.asarray(want)
        test.assertEqual((value.dtype.name, value.shape), (want.dtype.name, want.shape), f"{case}: {value} {want}")
        test.assertEqual(weak, want.weak_type, f"{case}: weak type of {want}")
        wide = np.complex128 if np.iscomplexobj(want) else np.float64
        if exact or not jnp.issubdtype(want.dtype, jnp.inexact):
            np.testing.assert_array_equal(value, np.asarray(want), case)
        else:
            t = tol or tolerance(want.dtype)
            np.testing.assert_allclose(value.astype(wide), np.asarray(want).astype(wide), t, t, err_msg=case)


def check_jaxpr(test, program, case, function, *args):
    """The jaxpr's text is JAX's, but for white space."""
    want = str(jax.make_jaxpr(function)(*args))
    got = program.jaxpr(case, *args)
    test.assertEqual(normalized(got), normalized(want), f"{case}\ngot:\n{got}\nwant:\n{want}")

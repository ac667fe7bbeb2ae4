"""Runs cases of run_functions and compares them with JAX: values, dtypes, weak types, gradients, vmap, jaxprs."""
import os
import re
import subprocess
import sys
import unittest
import warnings
from dataclasses import dataclass

os.environ["JAX_PLATFORMS"] = "cpu"
# Both sides compile thousands of functions that run once: nearly all of the time goes into LLVM.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_cpu_enable_concurrency_optimized_scheduler=false"
import jax
import jax.numpy as jnp
import ml_dtypes  # noqa: F401, makes numpy know bfloat16
import numpy as np
from jax._src.core import jaxpr_as_fun
from jax._src.lax.lax import _convert_element_type

PROGRAM = sys.argv.pop()
warnings.simplefilter("ignore")


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

    def send(self, mode, case, args):
        out = self.process.stdin
        out.write(f"{mode} {case} {len(args)}\n".encode())
        for a in args:
            weak = int(getattr(a, "weak_type", False))
            a = np.asarray(a)
            out.write(" ".join([a.dtype.name, str(weak), *map(str, a.shape)]).encode() + b"\n")
            out.write(np.ascontiguousarray(a).tobytes())

    def receive(self):
        """An answer's bytes, or the error that it is."""
        head = self.process.stdout.readline()
        if not head:
            raise RuntimeError(f"the program has ended with status {self.process.wait()}")
        status, size = head.split()
        text = self.process.stdout.read(int(size))
        return RuntimeError(text.decode()) if status == b"error" else text

    def ask(self, mode, case, *args):
        self.send(mode, case, args)
        self.process.stdin.flush()
        answer = self.receive()
        if isinstance(answer, Exception):
            raise answer
        return answer


def arrays_of(data):
    """[(values, weak)] of an answer."""
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


def inexact(x):
    return jnp.issubdtype(x.dtype, jnp.inexact)


def cotangent(x):
    """What run_functions takes as the cotangent of a result, by position."""
    if not inexact(x):
        return np.zeros(x.shape, jax.dtypes.float0)
    values = (np.arange(x.size) % 5 * 0.5 - 0.75).reshape(x.shape)
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        values = values * (1 - 0.5j)
    return jnp.asarray(values, x.dtype)


def vjp(function):
    def gradients(*args):
        active = [i for i, a in enumerate(args) if inexact(a)]

        def of_active(*values):
            full = list(args)
            for i, v in zip(active, values):
                full[i] = v
            return function(*full)

        outs, back = jax.vjp(of_active, *[args[i] for i in active])
        return back(jax.tree.map(cotangent, outs))

    return gradients


def stacked(a):
    """The array and the one with its elements reversed, along a new leading axis."""
    a = jnp.asarray(a)
    both = jnp.stack([a, a.ravel()[::-1].reshape(a.shape)])
    return _convert_element_type(both, a.dtype, weak_type=a.weak_type)


@dataclass
class Request:
    mode: str  # of run_functions
    case: str
    jaxpr: object  # of JAX's function, transformed as the mode says
    args: list
    exact: bool = False
    tol: float | None = None

    def __str__(self):
        return f"{self.mode} {self.case}({', '.join(f'{a.dtype}{list(a.shape)}' for a in self.args)})"

    def compare(self, test, got, expected):
        """The values, dtypes and weak types are JAX's. A gradient's weak type means nothing and is not compared."""
        if isinstance(got, Exception):
            raise got
        expected = jax.tree.leaves(expected)
        test.assertEqual(len(got), len(expected), f"{self}: number of results")
        for (value, weak), want in zip(got, expected):
            want = jnp.asarray(want)
            test.assertEqual((value.dtype.name, value.shape), (want.dtype.name, want.shape), f"{self}: {value} {want}")
            if self.mode != "vjp":
                test.assertEqual(weak, want.weak_type, f"{self}: weak type of {want}")
            if self.exact or not inexact(want):
                np.testing.assert_array_equal(value, np.asarray(want), str(self))
                continue
            wide = np.complex128 if np.iscomplexobj(want) else np.float64
            t = self.tol or tolerance(want.dtype)
            np.testing.assert_allclose(value.astype(wide), np.asarray(want).astype(wide), t, t, err_msg=str(self))


class Table(unittest.TestCase):
    """Cases are collected by check() and run when the test ends, many in one program on both sides."""

    AT_ONCE = 64
    program = Program(PROGRAM)
    asked = set()

    def setUp(self):
        self.pending = []

    def tearDown(self):
        for i in range(0, len(self.pending), self.AT_ONCE):
            self.run_together(self.pending[i:i + self.AT_ONCE])

    def check(self, case, function, *args, jaxpr=False, grad=True, vmap=True, eager=False, exact=False, tol=None):
        """The case's results are the function's, under vjp and vmap too where there is something to differentiate or
        to map. grad, vmap: false where JAX itself does not have it. eager: run operation by operation instead."""
        args = [jnp.asarray(a) for a in args]
        self.asked.add(case)

        def add(mode, f, args):
            with self.subTest(case=case, mode=mode, args=[str(a.dtype) for a in args]):  # traced now, run later
                self.pending.append(Request(mode, case, jax.make_jaxpr(f)(*args), args, exact, tol))
                return self.pending[-1].jaxpr

        if eager:
            with self.subTest(case=case, mode="eager"):
                request = Request("eager", case, None, args, exact, tol)
                request.compare(self, arrays_of(self.program.ask("eager", case, *args)), function(*args))
            return
        plain = add("run", function, args)
        if plain is None:
            return
        if grad and any(map(inexact, args)) and any(map(inexact, plain.out_avals)):
            add("vjp", vjp(function), args)
        if vmap and args:
            add("vmap", jax.vmap(function), [stacked(a) for a in args])
        if jaxpr:
            with self.subTest(case=case, mode="jaxpr", args=[str(a.dtype) for a in args]):
                got, want = self.program.ask("jaxpr", case, *args).decode(), str(plain)
                self.assertEqual(normalized(got), normalized(want), f"{case}\ngot:\n{got}\nwant:\n{want}")

    def run_together(self, requests):
        out = self.program.process.stdin
        out.write(f"many {len(requests)}\n".encode())
        for r in requests:
            self.program.send(r.mode, r.case, r.args)
        out.flush()
        # JAX works while the program does.
        together = lambda args: [jaxpr_as_fun(r.jaxpr)(*a) for r, a in zip(requests, args)]
        try:
            expected = jax.jit(together)([r.args for r in requests])
        finally:
            answers = [self.program.receive() for _ in requests]
        for request, answer, want in zip(requests, answers, expected):
            with self.subTest(case=request.case, mode=request.mode, args=[str(a.dtype) for a in request.args]):
                request.compare(self, answer if isinstance(answer, Exception) else arrays_of(answer), want)


def main(section):
    """Runs the module's tests; all cases that run_functions has under the section must have been asked for."""
    outcome = unittest.main(module="__main__", exit=False)
    names = [line.split() for line in Table.program.ask("names", "-").decode().splitlines()]
    Table.program.close()
    left = [name for of, name in names if of == section and name not in Table.asked]
    if left and len(sys.argv) == 1:
        sys.exit(f"cases of {section} that no test runs: {' '.join(left)}")
    sys.exit(not outcome.result.wasSuccessful())

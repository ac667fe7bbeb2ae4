"""cost_analysis() against XLA's own, which JAX shows: flops, transcendentals and bytes of programs without loops.
usage: cost_test.py RUN_COST"""
import os
import subprocess
import sys
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
from jax import lax

PROGRAM = sys.argv.pop()
X, W, V = jnp.ones((32, 64)), jnp.ones((64, 64)), jnp.ones((64, 16))


def loss(w, v, x):
    return jnp.mean(jnp.square(jnp.tanh(x @ w) @ v))


PROGRAMS = {
    "matmul": (jnp.matmul, X, W),
    "softmax": (jax.nn.softmax, X),
    "loss": (loss, W, V, X),
    "gradient": (jax.grad(loss), W, V, X),
    "cumsum": (lambda a: jnp.cumsum(a, 1), X),
    "gelu": (jax.nn.gelu, X),
    "slice": (lambda a: a[2:10] * 2, X),
    "choice": (lambda a: lax.cond(a[0, 0] > 0, lambda b: jnp.exp(b) * 2, lambda b: b + 1, a), X),
    "pair": (lambda a: (a + 1, jnp.sum(a, 0)), X),
    "conv": (lambda a, b: lax.conv(a, b, (2, 2), "SAME"), jnp.ones((2, 3, 9, 9)), jnp.ones((5, 3, 3, 3))),
}


class Cost(unittest.TestCase):
    def test_equals_xlas_count(self):
        done = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        ours = {line.split()[0]: [float(w) for w in line.split()[1:]] for line in done.stdout.splitlines()}
        self.assertEqual(set(ours), set(PROGRAMS))
        for name, (f, *args) in PROGRAMS.items():
            cost = jax.jit(f).lower(*args).compile().cost_analysis()
            theirs = [cost.get(key, 0.0) for key in ("flops", "transcendentals", "bytes accessed")]
            with self.subTest(name):
                self.assertEqual(ours[name], theirs)


if __name__ == "__main__":
    unittest.main()

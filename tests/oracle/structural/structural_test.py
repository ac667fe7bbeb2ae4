"""Indexing, structural primitives and numpy's shape functions agree with JAX: program text, values when compiled and
step by step, gradients, vmap. usage: structural_test.py STRUCTURAL_CASES [NAME...]"""
import os
import subprocess
import sys
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # all is run once: the time goes into compiling
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PROGRAM, ONLY = sys.argv[1], sys.argv[2:]
del sys.argv[1:]


def floats(*shape):
    n = int(np.prod(shape))
    return ((np.arange(n) * 7 % 23 - 11) / 4).astype(np.float32).reshape(shape)


def ints(*values, dtype=np.int32):
    return np.array(values, dtype)


def int_(value, dtype=np.int32):
    return np.array(value, dtype)


A = floats(5, 4, 3)
M = floats(3, 4)
V = floats(5)
ROWS = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
SCATTER_ROWS = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))

# name: (function, inputs); the program text is compared too.
TEXT = {
    "index_int": (lambda x: x[0], A),
    "index_negative": (lambda x: x[-1, -2], A),
    "index_slices": (lambda x: x[1:3, 0:-1], A),
    "index_strides": (lambda x: x[::2, 3::-2], A),
    "index_reverse": (lambda x: x[::-1], A),
    "index_reverse_steps": (lambda x: x[::-2, 1:, -1:], A),
    "index_dots": (lambda x: x[..., None, 0], A),
    "index_newaxes": (lambda x: x[None, :, None, 1, None], A),
    "index_all": (lambda x: x[:], A),
    "index_empty": (lambda x: x[3:1], A),
    "index_beyond": (lambda x: x[2:100, -100:2], A),
    "index_stop": (lambda x: x[:2, :-1], A),
    "index_out_of_bounds": (lambda x: x[10], A),
    "index_traced": (lambda x, i: x[i], A, int_(-2)),
    "index_traced_mixed": (lambda x, i: x[1:3, i], A, int_(2)),
    "index_traced_reverse": (lambda x, i: x[i, ::-1], A, int_(2)),
    "index_traced_stride": (lambda x, i: x[::2, i], A, int_(3)),
    "index_traced_static": (lambda x, i: x[i, 0, ...], A, int_(3)),
    "index_traced_newaxis": (lambda x, i: x[None, i, None], V, int_(3)),
    "index_traced_all": (lambda x, i: x[i, i, i], A, int_(1)),
    "index_traced_narrow": (lambda x, i: x[..., i], A, int_(-1, np.int16)),
    "index_array": (lambda x, i: x[i], A, ints(0, -1, 9, 2)),
    "index_array_int": (lambda x, i: x[i, 0], A, ints(0, 2)),
    "index_array_second": (lambda x, i: x[:, i], A, ints(3, 1)),
    "index_arrays_apart": (lambda x, i, j: x[i, :, j], A, ints(0, 2), ints(1, 0)),
    "index_arrays_after_slice": (lambda x, i, j: x[1:3, i, j], A, ints(0, 2), ints(1, 0)),
    "index_array_reverse": (lambda x, i: x[i, None, ::-1], A, ints(0, 2)),
    "index_arrays_broadcast": (lambda x, i, j: x[i[:, None], j], A, ints(0, 2, 4), ints(1, 3)),
    "index_array_dots": (lambda x, i: x[..., i], A, ints(0, 2)),
    "index_array_unsigned": (lambda x, i: x[i], V, ints(1, 2, dtype=np.uint8)),
    "get_fill": (lambda x, i: x.at[i].get(mode="fill", fill_value=7), A, ints(0, 9, -1)),
    "get_fill_default": (lambda x, i: x.at[i].get(mode="fill"), A, ints(0, 9, -1)),
    "get_clip": (lambda x, i: x.at[i].get(mode="clip"), A, ints(0, 9, -1)),
    "get_no_wrap": (lambda x, i: x.at[i].get(mode="fill", fill_value=-1, wrap_negative_indices=False), A,
                    ints(0, 9, -1)),
    "set_int": (lambda x: x.at[0].set(1.0), A),
    "set_out_of_bounds": (lambda x: x.at[10].set(1.0), A),
    "set_slice": (lambda x, y: x.at[1:3].set(y), M, floats(2, 4)),
    "add_slice": (lambda x, y: x.at[1:3].add(y), M, floats(4)),
    "add_strided": (lambda x: x.at[::-2, 1].add(1.5), A),
    "set_array": (lambda x, i: x.at[i].set(2), A, ints(0, 2)),
    "set_array_values": (lambda x, i, y: x.at[i].set(y), M, ints(0, 2), floats(2, 4)),
    "add_array_values": (lambda x, i, y: x.at[i].add(y), M, ints(0, 2, 0, 7), floats(4, 4)),
    "subtract_array_values": (lambda x, i, y: x.at[i].subtract(y), M, ints(0, 2, 0), floats(3, 4)),
    "multiply_numbers": (lambda x, i: x.at[i, i].multiply(2), A, int_(1)),
    "min_newaxis": (lambda x, i: x.at[i, None].min(0.5), A, int_(1)),
    "set_clip": (lambda x, i, y: x.at[i].set(y, mode="clip"), M, ints(0, 7), floats(2, 4)),
    "set_unique": (lambda x, i, y: x.at[i].set(y, unique_indices=True), M, ints(0, 2), floats(2, 4)),
    "lax_broadcast": (lambda x: lax.broadcast_in_dim(x, (3, 2, 4), (0, 2)), M),
    "lax_reshape": (lambda x: lax.reshape(x, (4, 3)), M),
    "lax_reshape_order": (lambda x: lax.reshape(x, (12,), (1, 0)), M),
    "lax_transpose": (lambda x: lax.transpose(x, (2, 0, 1)), A),
    "lax_squeeze": (lambda x: lax.squeeze(x, (0, -1)), floats(1, 3, 1)),
    "lax_expand_dims": (lambda x: lax.expand_dims(x, (0, 2)), M),
    "lax_concatenate": (lambda x, y: lax.concatenate([x, y, x], 1), M, floats(3, 2)),
    "lax_stack": (lambda x, y: lax.stack([x, y], 1), M, floats(3, 4)),
    "lax_unstack": (lambda x: lax.unstack(x, 1), M),
    "lax_split": (lambda x: lax.split(x, (1, 3), 1), M),
    "lax_tile": (lambda x: lax.tile(x, (2, 3)), M),
    "lax_pad": (lambda x: lax.pad(x, 0.5, ((1, 2, 0), (-1, 0, 1))), M),
    "lax_pad_traced": (lambda x, v: lax.pad(x, v, ((1, 2, 0), (-1, 0, 1))), M, floats()),
    "lax_rev": (lambda x: lax.rev(x, (1,)), M),
    "lax_slice": (lambda x: lax.slice(x, (1, 0), (3, 4), (1, 3)), M),
    "lax_slice_in_dim": (lambda x: lax.slice_in_dim(x, 1, -1, 2, 1), M),
    "lax_index_in_dim": (lambda x: lax.index_in_dim(x, -1, 1, False), M),
    "lax_dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 1), (2, 2)), M, int_(5)),
    "lax_dynamic_update_slice": (lambda x, y, i: lax.dynamic_update_slice(x, y, (i, 1)), M, floats(2, 2), int_(-1)),
    "lax_gather": (lambda x, i: lax.gather(x, i, ROWS, (1, 4), mode="clip"), M, ints([1], [7])),
    "lax_scatter_mul": (lambda x, i, y: lax.scatter_mul(x, i, y, SCATTER_ROWS, unique_indices=True), M, ints([1], [0]),
                        floats(2, 4)),
    "np_ravel": (jnp.ravel, M),
    "np_squeeze": (jnp.squeeze, floats(1, 3, 1)),
    "np_moveaxis": (lambda x: jnp.moveaxis(x, (0, 1), (-1, 0)), A),
    "np_swapaxes": (lambda x: jnp.swapaxes(x, 0, -1), A),
    "np_transpose": (lambda x: [x.T, jnp.transpose(x, (1, 2, 0))], A),
    "np_concatenate": (lambda x, y: [jnp.concatenate([x, y], 1), jnp.concatenate([x, y], None)], M, ints([1], [2], [3])),
    "np_stack": (lambda x, y: jnp.stack([x, y], -1), M, np.arange(12, dtype=np.int32).reshape(3, 4)),
    "np_tile": (lambda x: [jnp.tile(x, 2), jnp.tile(x, (2, 1, 2))], M),
    "np_meshgrid": (lambda x, y: jnp.meshgrid(x, y), V, floats(3)),
    "np_meshgrid_sparse": (lambda x, y: jnp.meshgrid(x, y, sparse=True, indexing="ij"), V, floats(3)),
    "np_broadcast": (lambda x: jnp.broadcast_to(x, (2, 3, 4)), M),
}
# JAX's text differs (sizes spelt np.int64(2), say): values, gradients and vmap only.
VALUES = {
    "np_flip": (lambda x: [jnp.flip(x), jnp.flip(x, 1), jnp.flip(x, (0, -1)), jnp.fliplr(x), jnp.flipud(x)], A),
    "np_rot90": (lambda x: [jnp.rot90(x), jnp.rot90(x, 2), jnp.rot90(x, -1, (1, 2))], A),
    "np_roll": (lambda x: [jnp.roll(x, 1), jnp.roll(x, -2, 1), jnp.roll(x, (1, 2), (0, 1))], M),
    "np_triangles": (lambda x: [jnp.tril(x), jnp.triu(x, 1), jnp.tril(x, -1), jnp.tri(3, 4, 1)], A),
    "np_where": (lambda x, y: jnp.where(x > 0, x, y), M, floats(4)),
    "np_where_scalar": (lambda x: jnp.where(x[0, 0] > 0, x, 1), M),
    "np_take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), M, ints([0, 3], [-1, 1], [8, 2])),
    "np_take_along_axis_clip": (lambda x, i: jnp.take_along_axis(x, i, 0, mode="clip"), M, ints([0, 1, 2, 9])),
    "np_atleast": (lambda x: [jnp.atleast_1d(x), jnp.atleast_2d(x), jnp.atleast_3d(x)], V),
    "np_diagonal": (lambda x: [jnp.diagonal(x), jnp.diagonal(x, 1), jnp.diagonal(x, -1, 1, 0)], A),
    "np_diag": (lambda x: [jnp.diag(x), jnp.diag(x, 1), jnp.diag(x, -2)], V),
    "multiply_values": (lambda x, i, y: x.at[i].multiply(y, unique_indices=True), M, ints(0, 2), floats(2, 4)),
    "divide_values": (lambda x, i, y: x.at[i].divide(y, unique_indices=True), M, ints(0, 2), floats(2, 4)),
    "power_values": (lambda x, i, y: x.at[i].power(y, unique_indices=True), abs(M) + 1, ints(0, 2), floats(2, 4)),
    "min_values": (lambda x, i, y: x.at[i].min(y), M, ints(0, 2, 0), floats(3, 4)),
    "max_values": (lambda x, i, y: x.at[i].max(y), M, ints(0, 2, 0), floats(3, 4)),
    "set_float_in_ints": (lambda x: x.at[0].set(2.5), np.arange(4, dtype=np.int32)),
    "lax_dynamic_slice_in_dim": (lambda x, i: lax.dynamic_slice_in_dim(x, i, 2, 1), M, int_(-3)),
    "lax_dynamic_index_in_dim": (lambda x, i: lax.dynamic_index_in_dim(x, i, 0, False), M, int_(1)),
    "lax_dynamic_update_index_in_dim": (lambda x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 1), M, floats(3),
                                        int_(2)),
    "np_roll_traced": (lambda x, i: jnp.roll(x, i, 1), M, int_(-3)),
    "np_stacks": (lambda x: [jnp.vstack([x, x]), jnp.hstack([x, x]), jnp.dstack([x, x]), jnp.column_stack([x, x])], V),
    "np_split": (lambda x: jnp.split(x, 2, 1), M),
    "np_split_places": (lambda x: jnp.split(x, [1, 3], 1), M),
    "np_array_split": (lambda x: jnp.array_split(x, 3, 1), M),
    "np_repeat": (lambda x: [jnp.repeat(x, 2), jnp.repeat(x, 2, 0), jnp.repeat(x, np.array([1, 0, 2]), 0)], M),
    "np_pad_constant": (lambda x: jnp.pad(x, 1, constant_values=3), M),
    "np_pad_edge": (lambda x: jnp.pad(x, ((1, 2), (0, 3)), "edge"), M),
    "np_pad_reflect": (lambda x: [jnp.pad(x, ((1, 5), (3, 4)), "reflect"), jnp.pad(x, 2, "symmetric")], M),
    "np_pad_odd": (lambda x: jnp.pad(x, 4, "reflect", reflect_type="odd"), M),
    "np_pad_wrap": (lambda x: jnp.pad(x, (5, 4), "wrap"), M),
    "np_take": (lambda x, i: [jnp.take(x, i, 1), jnp.take(x, i), jnp.take(x, i, 0, mode="clip"),
                              jnp.take(x, i, 1, mode="wrap")], M, ints([0, -1], [2, 9])),
}


def as_list(outs):
    return list(outs) if isinstance(outs, (list, tuple)) else [outs]


class Structural(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @classmethod
    def tearDownClass(cls):
        cls.program.communicate(timeout=60)

    def line(self):
        return self.program.stdout.readline().decode().rstrip("\n")

    def text(self):
        return self.program.stdout.read(int(self.line())).decode()

    def arrays(self):
        out = []
        for _ in range(int(self.line())):
            dtype, *shape = self.line().split()
            shape = tuple(map(int, shape))
            count = int(np.prod(shape)) * np.dtype(dtype).itemsize
            out.append(np.frombuffer(self.program.stdout.read(count), dtype).reshape(shape))
        return out

    def ask(self, name, inputs, stacked):
        request = f"{name} {len(inputs)}\n".encode()
        for a in [*inputs, *stacked]:
            head = " ".join([a.dtype.name, *map(str, a.shape)])
            request += head.encode() + b"\n" + a.tobytes()
        self.program.stdin.write(request)
        self.program.stdin.flush()
        if self.line() == "error":
            self.fail(f"{name}: {self.text()}")
        return self.text(), self.arrays(), self.arrays(), self.arrays(), self.arrays()

    def same(self, what, got, want):
        self.assertEqual([(a.dtype, a.shape) for a in got], [(a.dtype, a.shape) for a in want], what)
        for a, b in zip(got, want):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=what)

    def check(self, name, case, with_text):
        f, *inputs = case
        g = lambda *args: as_list(f(*args))
        inputs = [np.asarray(a, order="C") for a in inputs]
        stacked = [np.stack([a, a + a.dtype.type(1)]) for a in inputs]
        text, compiled, eager, gradients, mapped = self.ask(name, inputs, stacked)
        if with_text:
            self.assertEqual(text, str(jax.make_jaxpr(g)(*inputs)), name)
        want = [np.asarray(a) for a in jax.jit(g)(*inputs)]
        self.same(name + ", compiled", compiled, want)
        self.same(name + ", step by step", eager, want)
        active = [i for i, a in enumerate(inputs) if a.dtype.kind == "f"]

        def loss(*some):
            args = list(inputs)
            for i, a in zip(active, some):
                args[i] = a
            total = 0
            for y in g(*args):
                if jnp.issubdtype(y.dtype, jnp.inexact):
                    weights = (np.arange(y.size) % 3 + 1).astype(np.float32).reshape(y.shape)
                    total = total + (y * weights).sum()
            return total

        if active:
            want = jax.jit(jax.grad(lambda some: loss(*some)))([inputs[i] for i in active])
            self.same(name + ", gradient", gradients, [np.asarray(a) for a in want])
        self.same(name + ", vmap", mapped, [np.asarray(a) for a in jax.jit(jax.vmap(g))(*stacked)])

    def test_all_cases(self):
        for cases, with_text in ((TEXT, True), (VALUES, False)):
            for name, case in cases.items():
                if ONLY and name not in ONLY:
                    continue
                with self.subTest(name):
                    self.check(name, case, with_text)


if __name__ == "__main__":
    unittest.main()

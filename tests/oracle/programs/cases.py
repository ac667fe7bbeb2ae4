"""Programs over a 2x2 mesh (x, y) as JAX lowers them, each with what every partition gets and should give.

write_cases(directory) makes directory/NAME/{program.mlir, meta.txt, input<k>_<partition>.bin}, and returns the
expected results: {name: [result][partition] -> array}, or {name: a text that the refusal must hold}.
"""
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

PARTITIONS = 4
MESH = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
XY = P("x", "y")


def sharding(spec):
    return NamedSharding(MESH, spec)


def mapped(f, ins, outs, **kwargs):
    return jax.shard_map(f, mesh=MESH, in_specs=ins, out_specs=outs, check_vma=False, **kwargs)


def parts(array, order):
    shards = sorted(array.addressable_shards, key=lambda s: order.index(s.device.id))
    return [np.array(np.asarray(s.data), order="C") for s in shards]


class Cases:
    def __init__(self, directory):
        self.directory = directory
        self.expected = {}
        self.random = np.random.default_rng(0)

    def array(self, shape, dtype="float32"):
        """Small whole numbers: their sums and products are exact in any order."""
        numbers = self.random.integers(1, 4, shape)
        if dtype == "bool":
            return numbers > 2
        if dtype.startswith("complex"):
            return (numbers + 1j * self.random.integers(-2, 3, shape)).astype(dtype)
        return np.asarray(jnp.asarray(numbers, dtype))

    def normal(self, shape, dtype="float32"):
        return self.random.standard_normal(shape).astype(dtype)

    def add(self, name, f, args, specs, *, out=None, expected=None, refused=None, donate=(), keep_unused=False,
            order=range(PARTITIONS), edit=None):
        """specs: a PartitionSpec or a sharding per argument. expected: [result][partition], where JAX cannot run it."""
        order = list(order)
        shardings = [s if isinstance(s, NamedSharding) else sharding(s) for s in specs]
        args = [jax.device_put(a, s) for a, s in zip(args, shardings)]
        options = {} if out is None else {"out_shardings": jax.tree.map(sharding, out, is_leaf=lambda s: isinstance(s, P))}
        lowered = jax.jit(f, donate_argnums=donate, keep_unused=keep_unused, **options).lower(*args)
        text = lowered.as_text()
        inputs = [parts(args[i], order) for i in sorted(lowered._lowering.compile_args["kept_var_idx"])]
        open_results = lowered._lowering.compile_args["out_shardings"]
        propagate = "".join(str(int("Unspecified" in type(s).__name__)) for s in open_results)
        if refused is not None:
            expected, self.expected[name] = [], refused
        elif expected is None:
            leaves = jax.tree.leaves(lowered.compile()(*args))
            self.expected[name] = expected = [parts(leaf, order) for leaf in leaves]
        else:
            self.expected[name] = expected
        path = os.path.join(self.directory, name)
        os.makedirs(path)
        with open(os.path.join(path, "program.mlir"), "w") as file:
            file.write(edit(text) if edit else text)
        with open(os.path.join(path, "meta.txt"), "w") as file:
            file.write(f"inputs {len(inputs)} results {len(expected)} propagate {propagate or '-'}\n")
            for tensor in inputs + expected:
                file.write(f"{tensor[0].dtype.name} {tensor[0].ndim} {' '.join(map(str, tensor[0].shape))}\n")
        for k, tensor in enumerate(inputs):
            for partition, value in enumerate(tensor):
                value.tofile(os.path.join(path, f"input{k}_{partition}.bin"))


def all_reduce(c):
    for dtype in ("float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "uint32", "uint64",
                  "complex64", "complex128"):
        f = lambda a: (lax.psum(a, "x"), lax.psum(a, "y"), lax.psum(a, ("x", "y")))
        c.add(f"sum_{dtype}", mapped(f, XY, (XY,) * 3), [c.array((8, 8), dtype)], [XY])
        c.add(f"product_{dtype}", lambda a: jnp.prod(a, axis=0, dtype=a.dtype), [c.array((8, 8), dtype)], [XY])
        if not dtype.startswith("complex"):
            f = lambda a: (lax.pmax(a, "x"), lax.pmin(a, "y"))
            c.add(f"extrema_{dtype}", mapped(f, XY, (XY, XY)), [c.array((8, 8), dtype)], [XY])
    c.add("any_all", lambda a: (jnp.any(a, 0), jnp.all(a, 1), jnp.all(a)), [c.array((8, 8), "bool")], [XY])
    c.add("sum_tuple", mapped(lambda a, b: lax.psum((a, b, a.sum()), "x"), (XY, P("y")), (XY, P("y"), P())),
          [c.array((8, 8)), c.array((4,), "int32")], [XY, P("y")])
    bits = c.random.integers(0, 255, (8, 8)).astype(np.int32)
    for name, f, start in (("or", np.bitwise_or, 0), ("and", np.bitwise_and, -1), ("xor", np.bitwise_xor, 0)):
        columns = f.reduce(bits, axis=0)  # JAX's own CPU compiler refuses these
        c.add(f"bits_{name}", lambda a: lax.reduce(a, np.int32(start), getattr(lax, f"bitwise_{name}"), (0,)), [bits],
              [XY], out=P("y"), expected=[[columns[4 * (p % 2):][:4] for p in range(PARTITIONS)]])
    c.add("custom_reduction", lambda a: lax.reduce(a, np.float32(0), lambda p, q: p + q + p * q, (0,)),
          [c.normal((8, 8))], [XY], out=P("y"), refused="reduction")


def gather_and_scatter(c):
    for dtype in ("float32", "float64", "float16", "bfloat16", "int8", "bool", "complex64", "uint64"):
        f = lambda a: (lax.all_gather(a, "x", axis=1, tiled=True), lax.all_to_all(a, "y", 0, 1, tiled=True))
        c.add(f"gather_{dtype}", mapped(f, XY, (P("x", None), XY)), [c.array((8, 8), dtype)], [XY])
    for dim in (0, 1):
        for tiled in (False, True):
            f = lambda a: lax.all_gather(a, "x", axis=dim, tiled=tiled)
            c.add(f"gather_dim{dim}_tiled{int(tiled)}", mapped(f, XY, P(None, "y")), [c.array((8, 12))], [XY])
    f = lambda a: (lax.all_gather(a, ("x", "y"), axis=1, tiled=True), lax.all_gather(a, ("y", "x"), axis=0, tiled=True))
    c.add("gather_two_axes", mapped(f, XY, (P("x", None), P(None, "y"))), [c.array((8, 12))], [XY])
    c.add("gather_automatic", lambda a, b: (a @ b, a.T @ b.T), [c.array((8, 12)), c.array((12, 8))], [XY, XY],
          out=(P(), P("y", "x")))
    c.add("gather_column_major", lambda a: (a * 2).T.reshape(-1), [c.array((8, 12))], [XY], out=P())
    f = lambda a: lax.all_gather(a.transpose(2, 0, 1), "y", axis=1, tiled=True)
    c.add("gather_3d", mapped(f, P("x", "y", None), P(None, "x", "y")), [c.array((4, 6, 3))], [P("x", "y", None)])
    for dim, out in ((0, XY), (1, P(None, ("y", "x")))):
        f = lambda a: lax.psum_scatter(a, "x", scatter_dimension=dim, tiled=True)
        c.add(f"scatter_dim{dim}", mapped(f, P(None, "y"), out), [c.array((8, 16))], [P(None, "y")])
    for dtype in ("bfloat16", "float64", "int32"):
        f = lambda a: lax.psum_scatter(a, ("x", "y"), scatter_dimension=1, tiled=True)
        c.add(f"scatter_{dtype}", mapped(f, P(), P(None, ("x", "y"))), [c.array((8, 16), dtype)], [P()])
    f = lambda a: lax.psum_scatter((a * 3).T, "y", scatter_dimension=0, tiled=True)
    c.add("scatter_transposed", mapped(f, P(None, "x"), P(("y", "x"))), [c.array((8, 16))], [P(None, "x")])


def all_to_all(c):
    for split, concat in ((0, 1), (1, 0), (0, 0)):
        f = lambda a: lax.all_to_all(a, "x", split, concat, tiled=True)
        c.add(f"all_to_all_{split}{concat}", mapped(f, XY, XY), [c.array((8, 16))], [XY])
    f = lambda a: lax.all_to_all(a, ("x", "y"), 1, 0, tiled=True)
    c.add("all_to_all_two_axes", mapped(f, P(("x", "y")), P(None, ("x", "y"))), [c.array((8, 16))], [P(("x", "y"))])
    c.add("all_to_all_automatic", lambda a: a * 2, [c.array((8, 16))], [P("x", None)], out=P(None, "x"))
    f = lambda a: lax.all_to_all(a, "y", 0, 1)
    c.add("all_to_all_untiled", mapped(f, P(None, "x", "y"), P("y", "x")), [c.array((2, 4, 8))], [P(None, "x", "y")])


def permute(c):
    swap = [(0, 1), (1, 0)]
    for name, axes, pairs in (("swap", "x", swap), ("partial", "x", [(0, 1)]),
                              ("self", ("x", "y"), [(0, 0), (1, 2), (2, 1), (3, 3)])):
        c.add(f"permute_{name}", mapped(lambda a: lax.ppermute(a, axes, pairs), XY, XY), [c.array((8, 8))], [XY])
    f = lambda *tree: lax.ppermute(tree, "y", swap)
    dtypes = ("bfloat16", "bool", "int32", "float64")
    c.add("permute_tree", mapped(f, (XY,) * 4, (XY,) * 4), [c.array((8, 8), d) for d in dtypes], [XY] * 4)
    c.add("permute_roll", lambda a: jnp.roll(a, 3, 0), [c.array((8, 8))], [XY], out=XY)


def broadcast_and_ragged(c):
    """JAX has no lowering of these for CPU; the programs are edited, the results made by hand."""
    a = c.array((8, 8))
    block = [a[4 * i:][:4, 4 * j:][:, :4].copy() for i in range(2) for j in range(2)]

    def edit(text):
        pairs = "source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>"
        assert pairs in text
        text = text.replace(pairs, "replica_groups = dense<[[2, 0], [3, 1]]> : tensor<2x2xi64>")
        return text.replace("stablehlo.collective_permute", "stablehlo.collective_broadcast")

    c.add("broadcast", mapped(lambda a: lax.ppermute(a, "x", [(0, 1), (1, 0)]), XY, XY), [a], [XY], edit=edit,
          expected=[[block[2], block[3], block[2], block[3]]])

    data = c.array((16, 3))
    offsets = np.array([[0, 1], [0, 3], [0, 2], [0, 0]], np.int32)
    sizes = np.array([[1, 3], [3, 1], [2, 1], [0, 4]], np.int32)
    places, received = np.zeros((4, 2), np.int32), np.zeros((4, 2), np.int32)
    results = []
    for group in ((0, 1), (2, 3)):
        for j in range(2):
            places[group[1], j] = sizes[group[0], j]
            received[group[j]] = [sizes[sender, j] for sender in group]
            out = np.full((8, 3), -1, np.float32)
            for s in group:
                rows = data[4 * s:][offsets[s, j]:][:sizes[s, j]]
                out[places[s, j]:][:sizes[s, j]] = rows
            results.append(out)
    f = lambda d, *numbers: lax.ragged_all_to_all(d, jnp.full((8, 3), -1, jnp.float32), *(n.reshape(2) for n in numbers),
                                                  axis_name="y")
    q = P(("x", "y"))
    c.add("ragged_all_to_all", mapped(f, (q,) * 5, q), [data, offsets, sizes, places, received], [q] * 5,
          expected=[results])


def control_flow(c):
    f = lambda a: lax.scan(lambda s, x: (jnp.tanh(s + lax.psum(x * s, "x")), lax.pmax(s, "y")), a[0], a)
    c.add("scan", mapped(f, P(None, "x", "y"), (XY, P(None, "x", "y"))), [c.normal((5, 4, 4))], [P(None, "x", "y")])
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    f = lambda a: lax.fori_loop(0, 5, lambda i, s: jnp.sin(lax.ppermute(s, ("x", "y"), ring)), a)
    c.add("fori", mapped(f, XY, XY), [c.normal((8, 8))], [XY])
    f = lambda a: lax.while_loop(lambda s: lax.psum(jnp.sum(s * s), ("x", "y")) > 1, lambda s: s / 2 + 0 * lax.psum(s, "x"), a)
    c.add("while_condition", mapped(f, XY, XY), [c.array((8, 8))], [XY])
    swap = [(0, 1), (1, 0)]
    f = lambda p, a: lax.cond(p[0] > 0, lambda a: lax.psum(a, "x"), lambda a: lax.ppermute(a, "y", swap), a)
    c.add("cond", mapped(f, (P(), XY), XY), [np.array([1], np.int32), c.array((8, 8))], [P(), XY])
    f = lambda a: lax.cond(lax.axis_index("x") == 0, lambda a: lax.psum(a, "y"), lambda a: a * 2, a)
    c.add("cond_of_one_group", mapped(f, XY, XY), [c.array((8, 8))], [XY])
    f = lambda p, a: lax.switch(p[0], [lambda a: lax.psum(a, "x"), lambda a: lax.pmax(a, "y"), lambda a: a], a)
    c.add("switch", mapped(f, (P(), XY), XY), [np.array([1], np.int32), c.array((8, 8))], [P(), XY])
    inner = lambda s: lax.scan(lambda d, _: (lax.pmin(d, "y") + 1, None), s, None, length=2)[0]
    f = lambda a: lax.fori_loop(0, 3, lambda i, s: lax.cond(i % 2 == 0, lambda s: lax.psum(s, "x") / 2, inner, s), a)
    c.add("nested", mapped(f, XY, XY), [c.array((8, 8))], [XY])
    f = lambda w, x: lax.scan(lambda s, wi: (jnp.tanh(s @ wi), None), x, w)[0]
    c.add("scan_automatic", f, [c.normal((4, 8, 8)) * 0.3, c.normal((8, 8))], [P(None, "y", None), P("x", None)])
    branch = lambda s: lax.psum(s, "x") / 2
    f = lambda p, a: lax.cond(p[0] > 0, branch, branch, lax.cond(p[0] > 1, branch, lambda s: s, a))
    c.add("same_branch", mapped(f, (P(), XY), XY), [np.array([1], np.int32), c.array((8, 8))], [P(), XY])
    shared = jax.jit(lambda u, w: jnp.tanh(lax.psum(u @ w, "x")))
    f = lambda a, w: (shared(a, w), shared(a * 2, w), shared(shared(a + 1, w), w))
    c.add("shared_function", mapped(f, (XY, P()), (XY,) * 3), [c.normal((8, 8)), c.normal((4, 4))], [XY, P()])


def manual_and_automatic(c):
    square = [c.normal((8, 8)), c.normal((8, 8))]
    f = lambda a, b: mapped(lambda u: lax.psum(u, "x"), XY, P(None, "y"))(jnp.tanh(a @ b)).sum(0) + jnp.mean(a)
    c.add("manual_in_automatic", f, square, [XY, P("y", "x")])
    inner = mapped(lambda u, v: lax.psum(jnp.tanh(u @ v), "x"), (P(None, "x"), P("x", None)), P(), axis_names={"x"})
    c.add("partly_manual", lambda a, b: inner(a, b) @ b, square, [P("y", "x"), XY])
    g = mapped(lambda u, v: lax.psum(u @ v, "y"), (XY, P("y", None)), P("x", None))
    c.add("gradient", jax.grad(lambda w, x: jnp.sum(g(x, jnp.tanh(w)) ** 2)), square, [P("y", None), XY])
    f = lambda a: a + lax.axis_index("x") * 10 + lax.axis_index("y")
    c.add("axis_index", mapped(f, XY, XY), [c.array((8, 8))], [XY])
    f = jax.vmap(mapped(lambda u: lax.psum(u, "x"), XY, P(None, "y")))
    c.add("vmap", f, [c.array((3, 8, 8))], [P(None, "x", "y")])
    devices = np.array(jax.devices())[[0, 3, 1, 2]].reshape(2, 2)
    c.add("device_order", lambda a: jnp.tanh(a).sum(0), [c.normal((8, 8))],
          [NamedSharding(Mesh(devices, ("x", "y")), XY)], order=[0, 3, 1, 2])
    key = jax.random.wrap_key_data
    c.add("random", lambda k: (jax.random.normal(key(k), (8, 8)), jax.random.permutation(key(k), 8)),
          [np.array([1, 2], np.uint32)], [P()], out=(XY, P()))
    c.add("indexing", lambda a, i: (a[i], a.at[i].add(1.0), lax.dynamic_slice(a, (i[0], i[1]), (2, 2))),
          [c.array((8, 8)), np.array([1, 5, 5, 7], np.int32)], [XY, P("y")])
    c.add("fft_and_convolution", lambda a, k: (jnp.fft.fft(a, axis=1), lax.conv(a[None, None], k[None, None], (1, 1), "SAME")),
          [c.array((8, 8)), c.array((3, 3))], [XY, P()])
    c.add("sorting", lambda a: (jnp.argmax(a, 0), jnp.cumsum(a, 0), jnp.sort(a, 0)), [c.array((8, 8))], [XY])
    c.add("reductions", lambda a: (jnp.sum(a), jnp.max(a, 0), jnp.min(a, 1)), [c.array((8, 8))], [XY])
    c.add("bfloat16_layer", lambda x, w: jnp.tanh((x @ w) * 2 + x).sum(0), [c.array((8, 8), "bfloat16") * 0.125] * 2,
          [XY, P("y", None)], out=P())


def signatures(c):
    f = lambda a, b: (a + b.sum(0), b * 2)
    both = [c.array((8, 8)), c.array((8, 8))]
    c.add("donated", f, both, [XY, XY], donate=(0,), out=(XY, XY))
    c.add("donated_automatic", f, both, [XY, XY], donate=(0,))
    c.add("scalars", lambda a, s: (a.sum() * s, s + 1, a.astype(jnp.int32).sum()), [both[0], np.float32(3)], [XY, P()])
    c.add("empty", lambda a, z: (a[:, :0], z + 1, a.sum(0)), [both[0], np.zeros((0, 4), np.float32)], [XY, P(None, "y")])
    c.add("no_inputs", lambda: (jnp.arange(64.0).reshape(8, 8).sum(0), jnp.float32(1)), [], [], out=(P("y"), P()))
    f = lambda a, b, d: (a.sum(0), d[0])
    for keep in (False, True):
        c.add(f"unused_kept{int(keep)}", f, [c.array((8, 8))] * 3, [XY] * 3, keep_unused=keep)
    c.add("passed_through", lambda a, b: (b, a, a, jnp.ones((8,))), [both[0], c.array((4,))], [XY, P("y")])
    c.add("uneven", lambda a: (jnp.tanh(a).sum(0), a[:5]), [both[0]], [XY])
    f = lambda a: lax.with_sharding_constraint(a[:7, :5] * 2, sharding(XY)).sum(0)
    c.add("uneven_constraint", f, [both[0]], [XY], out=P())


def write_cases(directory):
    c = Cases(directory)
    for family in (all_reduce, gather_and_scatter, all_to_all, permute, broadcast_and_ragged, control_flow,
                   manual_and_automatic, signatures):
        family(c)
    return c.expected

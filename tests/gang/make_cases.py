"""Programs over a 2 x 2 mesh as JAX lowers them, with every partition's inputs and the results that JAX computes.

usage: make_cases.py DIRECTORY [NAME...]

Writes, for each case, NAME.mlir (StableHLO with Shardy shardings), NAME.txt (what the program takes and gives) and
NAME.bin (the data: input after input, then result after result, each partition after partition). See gang_case.cc.
"""
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

jax.config.update("jax_enable_x64", True)
MESH = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
XY = P("x", "y")
BOTH = ("x", "y")
CASES = {}
rng = np.random.default_rng(0)


def array(shape, dtype="float32"):
    """Random numbers; small whole ones where sums and products would otherwise round or wrap."""
    dtype = jnp.dtype(dtype)
    if dtype == bool:
        return rng.random(shape) > 0.5
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype in (jnp.float32, jnp.float64):
        return rng.standard_normal(shape).astype(dtype)
    return np.asarray(jnp.asarray(rng.integers(1, 5, shape), dtype))


class Case:
    """f(*args) with args laid out by `specs`. `out`: shardings of the results, left to the compiler if None. `expect`:
    what each partition gets, computed by hand where JAX can't. `refused`: what the compile's error says instead.
    `edit`: changes the program's text."""

    def __init__(self, f, args, specs, out=None, expect=None, refused="", edit=None, donate=(), keep_unused=False,
                 mesh=MESH):
        self.f, self.args, self.specs, self.out, self.expect = f, args, specs, out, expect
        self.refused, self.edit, self.donate, self.keep_unused, self.mesh = refused, edit, donate, keep_unused, mesh


def case(name, f, args, specs, **options):
    assert name not in CASES, name
    CASES[name] = Case(f, args, specs, **options)


def manual(f, in_specs, out_specs, **options):
    return jax.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs, check_vma=False, **options)


# ---- reductions -----------------------------------------------------------------------------------------------------

NUMBERS = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "int8", "int16", "int32", "int64",
           "uint8", "uint16", "uint32", "uint64"]
ORDERED = [t for t in NUMBERS if not t.startswith("complex")]

for t in NUMBERS:
    case(f"sum_{t}", manual(lambda a: (lax.psum(a, "x"), lax.psum(a, "y"), lax.psum(a, BOTH)), XY, (XY,) * 3),
         [array((8, 8), t)], [XY])
    case(f"product_{t}", lambda a: jnp.prod(a, axis=0, dtype=a.dtype), [array((8, 8), t)], [XY])
for t in ORDERED:
    case(f"max_min_{t}", manual(lambda a: (lax.pmax(a, "x"), lax.pmin(a, "y")), XY, (XY, XY)), [array((8, 8), t)], [XY])
case("any_all", lambda a: (jnp.any(a, 0), jnp.all(a, 1), jnp.all(a)), [array((8, 8), "bool")], [XY])
case("sum_max_min", lambda a: (jnp.sum(a), jnp.max(a, 0), jnp.min(a, 1)), [array((8, 8))], [XY])
case("sum_of_pair", manual(lambda a, b: lax.psum((a, b, a.sum()), "x"), (XY, P("y")), (XY, P("y"), P())),
     [array((8, 8)), array((4,), "int32")], [XY, P("y")])
case("arg_max_cumsum_sort", lambda a: (jnp.argmax(a, 0), jnp.argmin(a, 1), jnp.cumsum(a, 0), jnp.sort(a, 0)),
     [array((8, 8))], [XY])


def columns(v):
    """A vector laid out over y."""
    return [v[4 * (p % 2):4 * (p % 2) + 4] for p in range(4)]


BITS = array((8, 8), "int32")
for name, op, start, by_hand in (("and", lax.bitwise_and, -1, np.bitwise_and), ("or", lax.bitwise_or, 0, np.bitwise_or),
                                 ("xor", lax.bitwise_xor, 0, np.bitwise_xor)):
    case(f"bits_{name}", lambda a, op=op, start=start: lax.reduce(a, np.int32(start), op, (0,)), [BITS], [XY],
         out=P("y"), expect=[columns(by_hand.reduce(BITS, axis=0))])
case("custom_reduction", lambda a: lax.reduce(a, np.float32(0), lambda p, q: p + q + p * q, (0,)), [array((8, 8))],
     [XY], out=P("y"), expect=[columns(np.zeros(8, np.float32))], refused="all-reduce")

# ---- gathers, scatters, all-to-all ----------------------------------------------------------------------------------

for axis in (0, 1):
    for tiled in (True, False):
        case(f"gather_axis{axis}_{'tiled' if tiled else 'stacked'}",
             manual(lambda a, axis=axis, tiled=tiled: lax.all_gather(a, "x", axis=axis, tiled=tiled), XY, P(None, "y")),
             [array((8, 12))], [XY])
case("gather_over_both", manual(lambda a: (lax.all_gather(a, ("x", "y"), axis=1, tiled=True),
                                           lax.all_gather(a, ("y", "x"), axis=0, tiled=True)), XY,
                                (P("x", None), P(None, "y"))), [array((8, 12))], [XY])
case("gather_matmul", lambda a, b: (a @ b, a.T @ b.T), [array((8, 12)), array((12, 8))], [XY, XY], out=(P(), P("y", "x")))
case("gather_whole", lambda a: jnp.tanh(a) * 2, [array((8, 12))], [XY], out=P())
case("gather_transposed", lambda a: jnp.tanh(a).T.reshape(-1), [array((8, 12))], [XY], out=P())
case("gather_3d", manual(lambda a: lax.all_gather(a.transpose(2, 0, 1), "y", axis=1, tiled=True), P("x", "y", None),
                         P(None, "x", "y")), [array((4, 6, 3))], [P("x", "y", None)])
for t in NUMBERS + ["bool"]:
    case(f"move_{t}", manual(lambda a: (lax.all_gather(a, "x", axis=1, tiled=True),
                                        lax.all_to_all(a, "y", 0, 1, tiled=True),
                                        lax.ppermute(a, "x", [(0, 1), (1, 0)])), XY, (P("x", None), XY, XY)),
         [array((8, 8), t)], [XY])
for axis, spec in ((0, XY), (1, P(None, ("y", "x")))):
    case(f"scatter_axis{axis}",
         manual(lambda a, axis=axis: lax.psum_scatter(a, "x", scatter_dimension=axis, tiled=True), P(None, "y"), spec),
         [array((8, 16))], [P(None, "y")])
for t in ("bfloat16", "float64", "int8"):
    case(f"scatter_over_both_{t}", manual(lambda a: lax.psum_scatter(a, BOTH, scatter_dimension=1, tiled=True), P(),
                                          P(None, BOTH)), [array((8, 16), t)], [P()])
case("scatter_transposed", manual(lambda a: lax.psum_scatter(jnp.tanh(a).T, "y", scatter_dimension=0, tiled=True),
                                  P(None, "x"), P(("y", "x"))), [array((8, 16))], [P(None, "x")])
for split, concat in ((0, 1), (1, 0), (0, 0)):
    case(f"all_to_all_{split}{concat}",
         manual(lambda a, s=split, c=concat: lax.all_to_all(a, "x", s, c, tiled=True), XY, XY), [array((8, 16))], [XY])
case("all_to_all_over_both", manual(lambda a: lax.all_to_all(a, BOTH, 1, 0, tiled=True), P(BOTH), P(None, BOTH)),
     [array((8, 16))], [P(BOTH)])
case("all_to_all_reshard", lambda a: jnp.tanh(a), [array((8, 16))], [P("x", None)], out=P(None, "x"))
case("all_to_all_untiled", manual(lambda a: lax.all_to_all(a, "y", 0, 1), P(None, "x", "y"), P("y", "x")),
     [array((2, 4, 8))], [P(None, "x", "y")])

# ---- permutes, broadcast, ragged ------------------------------------------------------------------------------------

SWAP = [(0, 1), (1, 0)]
case("permute_partial", manual(lambda a: lax.ppermute(a, "x", [(0, 1)]), XY, XY), [array((8, 8))], [XY])
case("permute_self", manual(lambda a: lax.ppermute(a, BOTH, [(0, 0), (1, 2), (2, 1), (3, 3)]), XY, XY), [array((8, 8))],
     [XY])
case("permute_tree", manual(lambda a, b: lax.ppermute((a, b), "x", SWAP), (XY, XY), (XY, XY)),
     [array((8, 8)), array((8, 8), "int32")], [XY, XY])
case("permute_roll", lambda a: jnp.roll(a, 3, 0), [array((8, 8))], [XY], out=XY)

BLOCKS = array((8, 8))
CORNERS = [BLOCKS[4 * i:4 * i + 4, 4 * j:4 * j + 4] for i in range(2) for j in range(2)]


def to_broadcast(text):
    pairs = "source_target_pairs = dense<[[0, 2], [2, 0], [1, 3], [3, 1]]> : tensor<4x2xi64>"
    assert "stablehlo.collective_permute" in text and pairs in text
    return (text.replace("stablehlo.collective_permute", "stablehlo.collective_broadcast")
            .replace(pairs, "replica_groups = dense<[[2, 0], [3, 1]]> : tensor<2x2xi64>"))


case("broadcast", manual(lambda a: lax.ppermute(a, "x", SWAP), XY, XY), [BLOCKS], [XY], edit=to_broadcast,
     expect=[[CORNERS[2], CORNERS[3], CORNERS[2], CORNERS[3]]])


def ragged():
    data, rows = array((16, 3)), 8
    send = np.array([[1, 3], [3, 1], [2, 1], [0, 4]], np.int32)  # rows from each partition to each member of its group
    start = np.array([[0, 1], [0, 3], [0, 2], [0, 0]], np.int32)
    place, receive = np.zeros((4, 2), np.int32), np.zeros((4, 2), np.int32)
    results = []
    for group in ((0, 1), (2, 3)):
        for j, member in enumerate(group):
            place[group[1], j] = send[group[0], j]
            receive[member] = [send[g, j] for g in group]
        for j, member in enumerate(group):
            result = np.full((rows, 3), -1, np.float32)
            for g in group:
                from_ = data[4 * g:4 * g + 4]
                result[place[g, j]:place[g, j] + send[g, j]] = from_[start[g, j]:start[g, j] + send[g, j]]
            results.append(result)

    def f(data, start, send, place, receive):
        sizes = [v.reshape(2) for v in (start, send, place, receive)]
        return lax.ragged_all_to_all(data, jnp.full((rows, 3), -1, jnp.float32), *sizes, axis_name="y")

    case("ragged", manual(f, (P(BOTH),) * 5, P(BOTH)), [data, start, send, place, receive], [P(BOTH)] * 5,
         expect=[results])


ragged()

# ---- control flow ---------------------------------------------------------------------------------------------------

case("scan", manual(lambda a: lax.scan(lambda c, v: (jnp.tanh(c + lax.psum(v * c, "x")), lax.pmax(c, "y")), a[0], a),
                    P(None, "x", "y"), (XY, P(None, "x", "y"))), [array((5, 4, 4))], [P(None, "x", "y")])
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
case("fori_ring", manual(lambda a: lax.fori_loop(0, 5, lambda i, c: jnp.sin(lax.ppermute(c, BOTH, RING)) + i, a), XY, XY),
     [array((8, 8))], [XY])
case("while_condition", manual(lambda a: lax.while_loop(lambda c: lax.psum(jnp.sum(c * c), BOTH) > 1.0,
                                                        lambda c: c * 0.5 + 0 * lax.psum(c, "x"), a), XY, XY),
     [array((8, 8))], [XY])
ONE = np.array([1], np.int32)
case("cond", manual(lambda p, a: lax.cond(p[0] > 0, lambda a: lax.psum(a, "x"), lambda a: lax.ppermute(a, "y", SWAP), a),
                    (P(), XY), XY), [ONE, array((8, 8))], [P(), XY])
case("cond_that_differs", manual(lambda a: lax.cond(lax.axis_index("x") == 0, lambda a: lax.psum(a, "y"),
                                                    lambda a: a * 2, a), XY, XY), [array((8, 8))], [XY])
case("switch", manual(lambda p, a: lax.switch(p[0], [lambda a: lax.psum(a, "x"), lambda a: lax.pmax(a, "y"),
                                                     lambda a: a], a), (P(), XY), XY), [ONE, array((8, 8))], [P(), XY])


def nest(a):
    inner = lambda d, _: (lax.pmin(d, "y") + 0.1, None)
    even, odd = lambda c: lax.psum(c, "x") * 0.5, lambda c: lax.scan(inner, c, None, length=2)[0]
    return lax.fori_loop(0, 3, lambda i, c: lax.cond(i % 2 == 0, even, odd, c), a)


case("nested", manual(nest, XY, XY), [array((8, 8))], [XY])
case("scan_partitioned", lambda w, x: lax.scan(lambda c, wi: (jnp.tanh(c @ wi), None), x, w)[0],
     [array((4, 8, 8)) * np.float32(0.3), array((8, 8))], [P(None, "y", None), P("x", None)])
shared = jax.jit(lambda u, w: jnp.tanh(lax.psum(u @ w, "x")))
case("function_called_thrice", manual(lambda a, w: (shared(a, w), shared(a * 2, w), shared(shared(a + 1, w), w)),
                                      (XY, P()), (XY,) * 3), [array((8, 8)), array((4, 4))], [XY, P()])
branch = lambda c: lax.psum(c, "x") * 0.5
case("branches_alike", manual(lambda p, a: lax.cond(p[0] > 0, branch, branch,
                                                    lax.cond(p[0] > 1, branch, lambda c: c, a)), (P(), XY), XY),
     [ONE, array((8, 8))], [P(), XY])
case("many_at_once", manual(lambda a: sum(lax.ppermute(jnp.sin(a * i) @ a, "x", SWAP) for i in range(12)), XY, XY),
     [array((16, 16))], [XY])

# ---- manual, automatic, mixed ---------------------------------------------------------------------------------------

case("mixed", lambda a, b: manual(lambda u: lax.psum(u, "x"), XY, P(None, "y"))(jnp.tanh(a @ b)).sum(0) + jnp.mean(a),
     [array((8, 8)), array((8, 8))], [XY, P("y", "x")])
case("partly_manual", lambda a, b: manual(lambda u, v: lax.psum(jnp.tanh(u @ v), "x"), (P(None, "x"), P("x", None)), P(),
                                          axis_names={"x"})(a, b) @ b, [array((8, 8)), array((8, 8))], [P("y", "x"), XY])
case("gradient", jax.grad(lambda w, x: jnp.sum(manual(lambda u, v: lax.psum(u @ v, "y"), (XY, P("y", None)),
                                                      P("x", None))(x, jnp.tanh(w)) ** 2)),
     [array((8, 8)), array((8, 8))], [P("y", None), XY])
case("axis_index", manual(lambda a: a + lax.axis_index("x") * 10 + lax.axis_index("y"), XY, XY),
     [array((8, 8), "int32")], [XY])
case("vmap", lambda a: jax.vmap(manual(lambda u: lax.psum(u, "x"), XY, P(None, "y")))(a), [array((3, 8, 8))],
     [P(None, "x", "y")])
case("devices_in_another_order", lambda a: jnp.tanh(a).sum(0), [array((8, 8))], [XY],
     mesh=Mesh(np.array(jax.devices())[[0, 3, 1, 2]].reshape(2, 2), BOTH, axis_types=(AxisType.Auto,) * 2))
case("random", lambda k: (jax.random.normal(jax.random.wrap_key_data(k), (8, 8), np.float32),
                          jax.random.permutation(jax.random.wrap_key_data(k), 8)), [np.array([1, 2], np.uint32)], [P()],
     out=(XY, P()))
case("gather_scatter", lambda a, i: (a[i], a.at[i].add(1.0), lax.dynamic_slice(a, (i[0], i[1]), (2, 2))),
     [array((8, 8)), np.array([1, 5, 5, 7], np.int32)], [XY, P("y")])
case("fft_conv", lambda a, k: (jnp.fft.fft(a, axis=1), lax.conv(a[None, None], k[None, None], (1, 1), "SAME")),
     [array((8, 8)), array((3, 3))], [XY, P()])
case("bfloat16_layer", lambda x, w: jnp.tanh((x @ w) * 2 + x).sum(0) + jnp.exp(x[0]),
     [array((8, 8), "bfloat16") * jnp.bfloat16(0.1), array((8, 8), "bfloat16") * jnp.bfloat16(0.1)], [XY, P("y", None)],
     out=P())


def mlp_step(w1, w2, x, y):
    loss = lambda w1, w2: jnp.mean((jnp.tanh(x @ w1) @ w2 - y) ** 2)
    value, (g1, g2) = jax.value_and_grad(loss, argnums=(0, 1))(w1, w2)
    return value, w1 - 0.1 * g1, w2 - 0.1 * g2


case("train_step", mlp_step, [array((16, 32)), array((32, 8)), array((8, 16)), array((8, 8))],
     [P(None, "y"), P("y", None), P("x", None), P("x", None)],
     out=(P(), P(None, "y"), P("y", None)), donate=(0, 1))

# ---- signatures and donation ----------------------------------------------------------------------------------------

case("donated", lambda a, b: (a + b.sum(0), b * 2), [array((8, 8)), array((8, 8))], [XY, XY], out=(XY, XY), donate=(0,))
case("donated_open", lambda a, b: (a + b.sum(0), b * 2), [array((8, 8)), array((8, 8))], [XY, XY], donate=(0,))
case("scalars", lambda a, s: (a.sum() * s, s + 1, a.astype(jnp.int32).sum()), [array((8, 8)), np.float32(3)], [XY, P()])
case("zero_size", lambda a, z: (a[:, :0], z + 1, a.sum(0)), [array((8, 8)), np.zeros((0, 4), np.float32)],
     [XY, P(None, "y")])
case("no_inputs", lambda: (jnp.arange(64.0).reshape(8, 8).sum(0), jnp.float32(1)), [], [], out=(P("y"), P()))
case("unused", lambda a, b, c: (a.sum(0), c[0]), [array((8, 8))] * 3, [XY] * 3)
case("unused_kept", lambda a, b, c: (a.sum(0), c[0]), [array((8, 8))] * 3, [XY] * 3, keep_unused=True)
case("passed_through", lambda a, b: (b, a, a, jnp.ones((8,))), [array((8, 8)), array((4,))], [XY, P("y")])
case("uneven", lambda a: (jnp.tanh(a).sum(0), a[:5]), [array((8, 8))], [XY])
case("uneven_inside", lambda a: lax.with_sharding_constraint(jnp.tanh(a[:7, :5]), NamedSharding(MESH, XY)).sum(0),
     [array((8, 8))], [XY], out=P())
case("large_sum", manual(lambda a: (lax.psum(a, BOTH), lax.all_gather(a, "x", axis=1, tiled=True)), XY,
                         (XY, P("x", None))), [array((512, 1024))], [XY])


def shards(value, devices):
    by_device = {s.device.id: np.asarray(s.data) for s in value.addressable_shards}
    return [by_device[d.id] for d in devices]


def write(directory, name, c):
    sharding = lambda spec: NamedSharding(c.mesh, spec)
    args = [jax.device_put(a, sharding(s)) for a, s in zip(c.args, c.specs)]
    options = {}
    if c.out is not None:
        options["out_shardings"] = tuple(map(sharding, c.out)) if isinstance(c.out, tuple) and not isinstance(
            c.out, P) else sharding(c.out)
    lowered = jax.jit(c.f, donate_argnums=c.donate, keep_unused=c.keep_unused, **options).lower(*args)
    text = lowered.as_text()
    devices = list(c.mesh.devices.flat)
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])  # JAX drops unused arguments
    inputs = [shards(args[i], devices) for i in kept]
    if c.expect is None:
        outputs = [shards(v, devices) for v in jax.tree.leaves(lowered.compile()(*args))]
    else:
        outputs = c.expect
    lines = [f"open {int(c.out is None)}", f"refused {c.refused}" if c.refused else "runs"]
    with open(f"{directory}/{name}.bin", "wb") as data:
        for kind, leaves in (("input", inputs), ("output", outputs)):
            for leaf in leaves:
                first = np.asarray(leaf[0])
                lines.append(" ".join([kind, first.dtype.name, *map(str, first.shape)]))
                for part in leaf:
                    part = np.asarray(part)
                    assert part.shape == first.shape and part.dtype == first.dtype
                    data.write(part.tobytes())
    with open(f"{directory}/{name}.mlir", "w") as f:
        f.write(c.edit(text) if c.edit else text)
    with open(f"{directory}/{name}.txt", "w") as f:
        f.write("\n".join(lines) + "\n")


def main():
    directory, names = sys.argv[1], sys.argv[2:] or list(CASES)
    os.makedirs(directory, exist_ok=True)
    for name in names:
        write(directory, name, CASES[name])
    with open(f"{directory}/cases", "w") as f:
        f.write("\n".join(names) + "\n")


if __name__ == "__main__":
    main()

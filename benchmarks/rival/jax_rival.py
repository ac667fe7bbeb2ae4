"""JAX's own figures for what lockstep is measured on, one JSON object a line. usage: jax_rival.py JOB [RANK N PORT]

JOB is dispatch, trace, compile or step; step with RANK, N and PORT runs as one of N processes.
"""
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P


def report(**values):
    print(json.dumps(values), flush=True)


def best(f, n, rounds=5):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        f(n)
        times.append((time.perf_counter() - start) / n)
    return min(times)


def gpt(layers, width, heads, vocabulary, context):
    def init(key):
        keys = iter(jax.random.split(key, 2 + 4 * layers))
        normal = lambda *shape: 0.02 * jax.random.normal(next(keys), shape)
        norm = lambda: dict(scale=jnp.ones(width), bias=jnp.zeros(width))
        return dict(
            tokens=normal(vocabulary, width),
            positions=normal(context, width),
            blocks=[dict(ln1=norm(), qkv=normal(width, 3 * width), out=normal(width, width), ln2=norm(),
                         up=normal(width, 4 * width), down=normal(4 * width, width)) for _ in range(layers)],
            last=norm())

    def layer_norm(p, x):
        mean = x.mean(-1, keepdims=True)
        variance = jnp.square(x - mean).mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["bias"]

    def logits(p, tokens):
        batch, time_ = tokens.shape
        x = p["tokens"][tokens] + p["positions"][:time_]
        mask = jnp.tril(jnp.ones((time_, time_), bool))
        for b in p["blocks"]:
            q, k, v = jnp.split(layer_norm(b["ln1"], x) @ b["qkv"], 3, axis=-1)
            q, k, v = (t.reshape(batch, time_, heads, width // heads).transpose(0, 2, 1, 3) for t in (q, k, v))
            scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(width / heads)
            weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
            attended = jnp.einsum("bhqk,bhkd->bhqd", weights, v).transpose(0, 2, 1, 3).reshape(batch, time_, width)
            x = x + attended @ b["out"]
            x = x + jax.nn.gelu(layer_norm(b["ln2"], x) @ b["up"]) @ b["down"]
        return layer_norm(p["last"], x) @ p["tokens"].T

    def loss(p, rows):
        logp = jax.nn.log_softmax(logits(p, rows[:, :-1]))
        return -jnp.take_along_axis(logp, rows[:, 1:, None], -1).mean()

    def step(state, rows):
        params, mu, nu, count = state
        value, grads = jax.value_and_grad(loss)(params, rows)
        count = count + 1
        tree = jax.tree_util.tree_map
        mu = tree(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
        nu = tree(lambda v, g: 0.95 * v + 0.05 * g * g, nu, grads)
        params = tree(lambda p, m, v: p - 3e-4 * ((m / (1 - 0.9**count)) / (jnp.sqrt(v / (1 - 0.95**count)) + 1e-8) + 0.1 * p),
                      params, mu, nu)
        return (params, mu, nu, count), value

    return init, step


def dispatch():
    x = jnp.ones(8)
    one = jax.jit(lambda a: a + 1)
    one(x).block_until_ready()

    def run_one(n):
        y = x
        for _ in range(n):
            y = one(y)
        y.block_until_ready()

    report(name="dispatch_1", seconds=best(run_one, 20000))
    leaves = {f"w{i}": jnp.ones(8) for i in range(100)}
    many = jax.jit(lambda p: {k: v + 1 for k, v in p.items()})
    jax.block_until_ready(many(leaves))

    def run_many(n):
        p = leaves
        for _ in range(n):
            p = many(p)
        jax.block_until_ready(p)

    report(name="dispatch_100", seconds=best(run_many, 1000))


def gpt_2_small():
    init, step = gpt(12, 768, 12, 50257, 256)
    params = jax.eval_shape(init, jax.random.key(0))
    state = (params, params, params, jax.ShapeDtypeStruct((), jnp.float32))
    return jax.jit(step, donate_argnums=0), state, jax.ShapeDtypeStruct((2, 257), jnp.int32)


def trace():
    f, *arguments = gpt_2_small()
    times = []
    for _ in range(3):
        jax.clear_caches()
        start = time.perf_counter()
        lowered = f.trace(*arguments).lower()
        times.append(time.perf_counter() - start)
    ops = sum("stablehlo." in line and "=" in line and "stablehlo.constant" not in line
              for line in lowered.as_text().splitlines())
    report(name="trace_lower", seconds=min(times), ops=ops)


def compile():
    f, *arguments = gpt_2_small()
    lowered = f.trace(*arguments).lower()
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    lowered.compile()
    report(name="compile", seconds=time.perf_counter() - start)


def step(rank=None, n=1, port=None):
    if rank is not None:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", n, rank)
    mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
    everywhere, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    for name, config, batch, steps in (("step_small", (4, 128, 4, 256, 64), 8, 20), ("step_mid", (6, 384, 6, 256, 256), 8, 4)):
        init, step_function = gpt(*config)
        params = jax.jit(init, out_shardings=everywhere)(jax.random.key(0))
        zeros = jax.jit(lambda p: jax.tree_util.tree_map(jnp.zeros_like, p), out_shardings=everywhere)
        count = jax.jit(lambda: jnp.float32(0), out_shardings=everywhere)()
        state = (params, zeros(params), zeros(params), count)
        rows = np.random.default_rng(1).integers(0, 256, (batch, config[4] + 1)).astype(np.int32)
        rows = jax.make_array_from_callback(rows.shape, split, lambda index: rows[index])
        f = jax.jit(step_function, donate_argnums=0, out_shardings=(everywhere, everywhere))
        state, value = f(state, rows)
        value.block_until_ready()
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            state, value = f(state, rows)
            value.block_until_ready()
            times.append(time.perf_counter() - start)
        if not rank:
            report(name=f"{name}_{n}p", seconds=sorted(times)[len(times) // 2], loss=float(value))


if __name__ == "__main__":
    job, *rest = sys.argv[1:]
    globals()[job](*[int(a) for a in rest])

"""Runs lockstep's benchmark and JAX's side by side and prints one table. usage: compare.py BUILD_FOLDER [JOB...]"""
import json
import os
import re
import socket
import subprocess
import sys

BARS = {  # ratio to JAX now; what the design aims at is stricter
    "dispatch_1": ("warm dispatch, 1 leaf", 1.0),
    "dispatch_100": ("warm dispatch, 100 leaves", 1.0),
    "trace_lower": ("trace + lower, GPT-2 small AdamW step", 0.2),
    "compile": ("compile of the same, a core each", 1.0),
    "step_small_1p": ("GPT step 4 x 128, one process", 1.0),
    "step_mid_1p": ("GPT step 6 x 384, one process", 1.0),
    "step_small_2p": ("GPT step 4 x 128, two processes", 1.0),
    "step_mid_2p": ("GPT step 6 x 384, two processes", 1.0),
    "register": ("256 clients register", 0.7),
    "barrier": ("256 clients pass a barrier", 0.7),
    "kv": ("key-value round trip", 0.7),
}
ROUNDS = {"dispatch": 2, "trace": 3, "step": 3, "coordination": 3}  # the best of so many counts
COMPILES = 4  # an even number: their mean counts


def lines(text):
    found = {}
    for line in text.splitlines():
        line = line[line.find("{"):] if "{" in line else ""
        if line:
            try:
                values = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[values["name"]] = values
    return found


def keep_best(found, measured):
    for name, values in measured.items():
        if name not in found or values["seconds"] < found[name]["seconds"]:
            found[name] = values


def run(command, **environment):
    env = {**os.environ, "JAX_PLATFORMS": "cpu", **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=1200)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def coordination(command):
    """The best of three barriers: the first finds cold caches on both sides."""
    text = run([*command, "256"])
    number = lambda name, scale: scale * min(float(x) for x in re.findall(rf"{name} ([0-9.]+)", text))
    return {name: {"name": name, "seconds": seconds}
            for name, seconds in (("register", number("register_s", 1)), ("barrier", number("barrier_ms", 1e-3)),
                                  ("kv", number("kv_set_get_us", 1e-6)))}


def side_by_side(*commands):
    """Of commands that say "ready", and run when they are told to: at the same time, a core each, in turns on each core.
    What the machine has to do for others, a quarter of a compilation at some times and nothing at others, meets them
    alike."""
    cores, seconds = sorted(os.sched_getaffinity(0)), [0.0] * len(commands)
    for turn in range(COMPILES):
        processes = []
        for i, command in enumerate(commands):
            core = cores[(turn + i) % len(cores)]
            processes.append(subprocess.Popen(["taskset", "-c", str(core), *command], stdin=subprocess.PIPE, text=True,
                                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                              env={**os.environ, "JAX_PLATFORMS": "cpu"}))
        for p in processes:
            if p.stdout.readline() != "ready\n":
                sys.exit(f"{' '.join(p.args)} failed")
        for p in processes:
            p.stdin.write("\n")
            p.stdin.flush()
        for i, p in enumerate(processes):
            seconds[i] += lines(p.communicate(timeout=1200)[0])["compile"]["seconds"] / COMPILES
    return [{"compile": {"name": "compile", "seconds": s}} for s in seconds]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def two_of_jax(rival):
    port, cores = str(free_port()), len(os.sched_getaffinity(0))
    threads = {"PJRT_NPROC": str(max(1, cores // 2))}  # as `lockstep run` gives to each of two processes
    processes = [subprocess.Popen([sys.executable, rival, "step", str(rank), "2", port], stdout=subprocess.PIPE, text=True,
                                  env={**os.environ, "JAX_PLATFORMS": "cpu", **threads}) for rank in range(2)]
    outputs = [p.communicate(timeout=1200)[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit("JAX's two processes failed")
    return "".join(outputs)


def main():
    build, *jobs = sys.argv[1:]
    jobs = jobs or ["dispatch", "trace", "compile", "step", "coordination"]
    ours_program, tool = f"{build}/benchmarks/bench", f"{build}/tools/lockstep"
    rival = os.path.join(os.path.dirname(__file__), "rival", "jax_rival.py")
    ours, theirs = {}, {}
    for job in jobs:
        print(f"measuring {job} ...", file=sys.stderr, flush=True)
        if job == "coordination":
            for _ in range(ROUNDS[job]):
                keep_best(ours, coordination([f"{build}/benchmarks/coordination"]))
                keep_best(theirs, coordination([sys.executable, os.path.join(os.path.dirname(rival), "coordination_rival.py")]))
            continue
        if job == "compile":
            for found, measured in zip((ours, theirs), side_by_side([ours_program, job], [sys.executable, rival, job])):
                found.update(measured)
            continue
        for _ in range(ROUNDS.get(job, 1)):  # one after the other, since the machine's speed changes by the minute
            keep_best(ours, lines(run([ours_program, job])))
            keep_best(theirs, lines(run([sys.executable, rival, job])))
            if job == "step":
                keep_best(ours, lines(run([tool, "run", "-n", "2", "--", ours_program, job])))
                keep_best(theirs, lines(two_of_jax(rival)))
    print(f"{'what':<42}{'ours':>12}{'JAX':>12}{'ratio':>8}{'bar':>7}")
    missed = 0
    for name, (what, bar) in BARS.items():
        if name not in ours or name not in theirs:
            continue
        a, b = ours[name]["seconds"], theirs[name]["seconds"]
        unit, scale = ("us", 1e6) if b < 1e-3 else ("ms", 1e3) if b < 10 else ("s", 1)
        verdict = "pass" if a / b <= bar else "miss"
        missed += verdict == "miss"
        print(f"{what:<42}{a * scale:>9.2f} {unit:<2}{b * scale:>9.2f} {unit:<2}{a / b:>8.2f}{bar:>7.2f}  {verdict}")
    if "trace_lower" in ours:
        a, b = ours["trace_lower"]["ops"], theirs["trace_lower"]["ops"]
        print(f"StableHLO operations of the step: ours {a}, JAX's {b} ({100 * (a / b - 1):+.0f}%)")
    print(f"{missed} missed")


main()

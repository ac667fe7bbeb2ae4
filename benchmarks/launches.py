"""What the comparison of launches costs in a warm step of two processes: with it, without, and the ratio, by time, CPU time
and instructions. Instructions are counted by callgrind, where it is installed, if the kernel can't count them.

usage: launches.py BUILD [--no-callgrind]
The last line is "pass" or "miss": at most 1% more of what is counted most exactly (instructions, or else CPU time).
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(sys.argv[1])
PROGRAM, LOCKSTEP = os.path.join(BUILD, "benchmarks/launches"), os.path.join(BUILD, "tools/lockstep")
BAR = 1.01


def run(*command, **more):
    done = subprocess.run([LOCKSTEP, "run", "-n", "2", "--no-prefix", "--", *command], capture_output=True, text=True,
                          timeout=1800, **more)
    if done.returncode != 0:
        raise SystemExit(done.stdout + done.stderr)
    return {r["name"]: r for r in (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))}


def by_callgrind():
    """Instructions per step, {name: [compared, without]}, of both processes together."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        run("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out.%p",
            "--fair-sched=try", PROGRAM, "1", "200")
        for path in glob.glob(f"{folder}/out.*"):
            with open(path) as file:
                text = file.read()
            part = re.search(r"desc: Trigger: Client Request: (\w+) (compared|without) (\d+)", text)
            total = re.search(r"^(?:summary|totals): (\d+)", text, re.M)
            if part and total:
                found.setdefault(part[1], ([], []))[part[2] == "without"].append(int(total[1]) / int(part[3]))
    return {name: [sum(counts) / len(counts) for counts in pair] for name, pair in found.items()}


def main():
    results = run(PROGRAM)
    counted = all("instructions" in r for r in results.values())
    if not counted and "--no-callgrind" not in sys.argv and shutil.which("valgrind"):
        for name, pair in by_callgrind().items():
            results[name]["instructions"] = pair
    print(f"{'step':<8}{'':<14}{'ours':>16}{'without':>16}{'ratio':>9}")
    good = True
    for name, r in results.items():
        for what in ("seconds", "cpu_seconds", "instructions"):
            if what in r:
                ours, without = r[what]
                print(f"{name:<8}{what:<14}{ours:>16.9g}{without:>16.9g}{ours / without:>9.4f}")
        ours, without = r.get("instructions", r["cpu_seconds"])
        good = good and ours <= BAR * without
    print("pass" if good else "miss")
    return not good


if __name__ == "__main__":
    sys.exit(main())

"""What the comparison of launches costs in a warm step of two processes, by time, CPU time and instructions: of a training
step (the bar: at most 1% more), and, for the absolute figure, of a program that does next to nothing.

usage: launches.py BUILD [--no-callgrind]
Instructions are counted by callgrind, where it is installed, if the kernel can't count them; of the small program only, since
the comparison is the same for each launch and each frame. The last line is "pass" or "miss".
"""
import glob
import json
import os
import re
import shutil
import statistics
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
    """Instructions per step of the small program, [without, ratio], of both processes together."""
    counts, steps = {"compared": [], "without": []}, 100
    with tempfile.TemporaryDirectory() as folder:
        run("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out.%p",
            "--fair-sched=try", PROGRAM, "tiny", "4", str(steps))
        for path in glob.glob(f"{folder}/out.*"):
            with open(path) as file:
                text = file.read()
            part = re.search(r"desc: Trigger: Client Request: (\w+)", text)
            total = re.search(r"^totals: (\d+)", text, re.M)
            if part and total:
                counts[part[1]].append(int(total[1]) / steps)
    ours, without = (statistics.median(counts[which]) for which in ("compared", "without"))
    return [without, ours / without]


def main():
    results = {**run(PROGRAM, "tiny", "200", "50"), **run(PROGRAM, "gpt", "60", "1")}
    counted = all("instructions" in r for r in results.values())
    if not counted and "--no-callgrind" not in sys.argv and shutil.which("valgrind"):
        results["tiny"]["instructions"] = by_callgrind()
    print(f"{'step':<8}{'':<14}{'without':>16}{'with':>16}{'ratio':>9}")
    for name, r in results.items():
        for what in ("seconds", "cpu_seconds", "instructions"):
            if what in r:
                without, ratio = r[what]
                print(f"{name:<8}{what:<14}{without:>16.9g}{without * ratio:>16.9g}{ratio:>9.4f}")
    gpt = results["gpt"]
    good = gpt.get("instructions", gpt["cpu_seconds"])[1] <= BAR and gpt["seconds"][1] <= BAR
    print("pass" if good else "miss")
    return not good


if __name__ == "__main__":
    sys.exit(main())

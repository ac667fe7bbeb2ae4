"""Every fault of one process, in every state of a gang, on rank 0 and another: the survivors end in time, with the right
exit code and the right name, and leave nothing behind.

usage: faults.py FAULTY [--rounds N] [--kills N] [--short]
  --rounds  how often each row is done (2)
  --kills   how many processes are killed at random moments besides (60)
  --short   each fault in one state and rank in turn, ten kills: for the test suite

Ends with a table and the line "N passed, N failed"; the exit status says whether any failed.
"""
import argparse
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import hosts
import ranks

HEARTBEAT = 2.0  # seconds, so that silence is found soon
SLACK = 3.0  # for a busy machine, besides the time-outs
CRASHED, UNREACHABLE, COORDINATOR_LOST = 81, 82, 84
STATES = ["idle", "compiling", "collective", "loading"]
# What is done to the victim; the survivors' exit code if it is rank 0, and if it is another; how it is found.
FAULTS = {
    "kill -9": (COORDINATOR_LOST, CRASHED),
    "segfault": (COORDINATOR_LOST, CRASHED),
    "exit(0)": (COORDINATOR_LOST, CRASHED),
    "exception": (CRASHED, CRASHED),
    "SIGSTOP": (COORDINATOR_LOST, UNREACHABLE),
    "network cut": (COORDINATOR_LOST, UNREACHABLE),
}
ACTS = {"segfault": "segfault", "exit(0)": "exit", "exception": "throw"}
FOUND = re.compile(r"died: its connection closed|is lost|does not answer|failed: uncaught exception|closed the connection")


class Gang:
    def __init__(self, program, count, state, fault, victim):
        self.hosts = hosts.Hosts(count) if fault == "network cut" else None
        self.victim, self.outputs, self.processes = victim, [], []
        address = f"{self.hosts.addresses[0]}:51234" if self.hosts else f"127.0.0.1:{ranks.free_port()}"
        for rank in range(count):
            output = tempfile.TemporaryFile("w+")
            where = ["ip", "netns", "exec", self.hosts.names[rank]] if self.hosts else []
            env = ranks.environment(rank, count, address, JAX_NUM_CPU_DEVICES="1", PJRT_NPROC="1",
                                    FAULTY_HEARTBEAT=str(int(HEARTBEAT * 1000)), LOCKSTEP_TOKEN="faults")
            self.outputs.append(output)
            self.processes.append(subprocess.Popen([*where, program, state, ACTS.get(fault, "nothing"), str(victim)], env=env,
                                                   stdout=output, stderr=subprocess.STDOUT, start_new_session=True))

    def text(self, rank):
        self.outputs[rank].seek(0)
        return self.outputs[rank].read()

    def wait_for(self, what, ranks, timeout=60):
        deadline = time.monotonic() + timeout
        while not all(re.search(what, self.text(r)) for r in ranks):
            if time.monotonic() > deadline or any(self.processes[r].poll() is not None for r in ranks):
                raise AssertionError("the gang never came to it:\n" + "\n".join(self.text(r) for r in ranks))
            time.sleep(0.02)

    def harm(self, fault):
        process = self.processes[self.victim]
        if fault == "kill -9":
            process.kill()
        elif fault == "SIGSTOP":
            process.send_signal(signal.SIGSTOP)
        elif fault == "network cut":
            self.hosts.cut(self.victim)
        else:
            process.send_signal(signal.SIGUSR1)

    def close(self):
        """How many processes were still there."""
        left = 0
        for rank, process in enumerate(self.processes):
            if process.poll() is None:
                left += rank != self.victim
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for output in self.outputs:
            output.close()
        if self.hosts:
            self.hosts.close()
        return left


def run(program, fault, state, victim, count=3, after=0.3):
    """(time until a survivor said so, "" or what was wrong, processes left behind)"""
    gang = Gang(program, count, state, fault, victim)
    survivors = [r for r in range(count) if r != victim]
    wrong, found_after, left = "", None, 0
    try:
        gang.wait_for(f"in {state}", range(count))
        time.sleep(after)
        gang.harm(fault)
        start = time.monotonic()
        silent = fault in ("SIGSTOP", "network cut")
        # Found, then the time to tell the program, which is half a second here, and to end.
        deadline = start + (HEARTBEAT * 1.5 if silent else 1) + 2 + SLACK
        while any(gang.processes[r].poll() is None for r in survivors) and time.monotonic() < deadline:
            if found_after is None and any(FOUND.search(gang.text(r)) for r in survivors):
                found_after = time.monotonic() - start
            time.sleep(0.01)
        if found_after is None and any(FOUND.search(gang.text(r)) for r in survivors):
            found_after = time.monotonic() - start
        expected = FAULTS[fault][0 if victim == 0 else 1]
        for r in survivors:
            text, status = gang.text(r), gang.processes[r].poll()
            if status is None:
                wrong = f"process {r} hangs:\n{text}"
            elif status != expected:
                wrong = f"process {r} ended with {status}, not {expected}:\n{text}"
            elif not re.search(rf"process {victim} \(", text):
                wrong = f"process {r} does not name process {victim}:\n{text}"
    except AssertionError as e:
        wrong = str(e)
    finally:
        left = gang.close()
    return found_after, wrong, left


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    can_cut = hosts.available()
    rows = []
    for i, fault in enumerate(FAULTS):
        if fault == "network cut" and not can_cut:
            print("network cut: skipped, this machine makes no network namespaces")
            continue
        # Over several hosts an idle gang is what can be cut here.
        states = ["idle"] if fault == "network cut" else STATES
        if options.short:
            rows += [(fault, states[i % len(states)], 0), (fault, states[(i + 2) % len(states)], 1)]
        else:
            rows += [(fault, state, victim) for state in states for victim in (0, 1)]
    rounds, kills = (1, 10) if options.short else (options.rounds, options.kills)
    table, passed, failed = [], 0, 0

    def do(label, cases):
        nonlocal passed, failed
        times, right, behind = [], 0, 0
        for fault, state, victim, after in cases:
            found, wrong, left = run(options.program, fault, state, victim, after=after)
            times += [found] if found is not None else []
            behind += left
            right += not wrong
            if wrong or left:
                failed += 1
                print(f"FAIL {label}: {wrong}\n{left} left behind", flush=True)
            else:
                passed += 1
        table.append((label, times, right, len(cases), behind))
        print(f"{label}: {right} of {len(cases)}", flush=True)

    for fault, state, victim in rows:
        do(f"{fault}, {state}, {'rank 0' if victim == 0 else 'another'}", [(fault, state, victim, 0.3)] * rounds)
    print(f"random kills with --seed {options.seed}")
    chance = random.Random(options.seed)
    do("kill -9 at random moments",
       [("kill -9", chance.choice(STATES), chance.randrange(3), chance.random() * 1.5) for _ in range(kills)])

    print(f"\n{'fault':<44}{'detected p50':>14}{'max':>10}{'named right':>14}{'left behind':>13}")
    for label, times, right, count, behind in table:
        p50 = f"{statistics.median(times):.2f} s" if times else "-"
        most = f"{max(times):.2f} s" if times else "-"
        print(f"{label:<44}{p50:>14}{most:>10}{f'{right} of {count}':>14}{behind:>13}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

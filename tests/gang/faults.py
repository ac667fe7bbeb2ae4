"""Every fault of one process, in every state of a gang, on rank 0 and another: the survivors end in time, with the right
exit code and the right name, and nothing is left behind: no process, no file in /dev/shm, the directory of
temporary files or the present one, no socket.

usage: faults.py FAULTY [--rounds N] [--kills N] [--short] [--only TEXT] [--seed N]
  --rounds  how often each row is done (2)
  --kills   how many processes are killed at random moments besides (60), every other one while the gang starts
  --short   each fault in one state and rank in turn, ten kills: for the test suite
  --only    rows whose name has this text

Ends with a table and the line "N passed, N failed"; the exit status says whether any failed. A cut network needs network
namespaces, a full disk mounts, the OOM killer a cgroup: what this machine does not let it make is left out, and said.
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
import sandbox

HEARTBEAT = 2.0  # seconds, so that silence is found soon
INITIALIZATION, SHUTDOWN = 4.0, 3.0
GRACE = 0.5  # what faulty.cc leaves a program after a failure
SLACK = 3.0  # for a busy machine, besides the time-outs
CRASHED, UNREACHABLE, COORDINATOR_LOST, STALLED = 81, 82, 84, 86
STATES = ["idle", "compiling", "collective", "loading"]


class Fault:
    """`zero`, `other`: the survivors' exit code if rank 0, which runs the coordinator, is the victim, and if another is;
    `ends`: the victim's own status; `act`: what faulty.cc does at the signal; `said`: on every survivor."""

    def __init__(self, zero, other, ends, act="nothing", said="", silent=False):
        self.zero, self.other, self.ends, self.act, self.said, self.silent = zero, other, ends, act, said, silent


FAULTS = {
    "kill -9": Fault(COORDINATOR_LOST, CRASHED, -signal.SIGKILL),
    "segfault": Fault(COORDINATOR_LOST, CRASHED, -signal.SIGSEGV, "segfault"),
    "exit(0)": Fault(CRASHED, CRASHED, None, "exit"),
    "_exit(0)": Fault(COORDINATOR_LOST, CRASHED, 0, "_exit"),
    "exception": Fault(CRASHED, CRASHED, -signal.SIGABRT, "throw", "no more cheese"),
    "OOM kill": Fault(COORDINATOR_LOST, CRASHED, -signal.SIGKILL, "allocate"),
    "SIGSTOP": Fault(COORDINATOR_LOST, UNREACHABLE, None, silent=True),
    "network cut": Fault(COORDINATOR_LOST, UNREACHABLE, None, silent=True),
    "full disk": Fault(CRASHED, CRASHED, -signal.SIGABRT, "save", "saving checkpoint: No space left on device"),
}
FOUND = re.compile(r"died: its connection closed|is lost|does not answer|failed: uncaught exception|closed the connection|"
                   r"has left the gang|timed out after")
BLAMED = re.compile(r"process (\d+) \([^)]*\) (?:died:|does not answer)|run by process (\d+) \([^)]*\), is lost")
GANG_CODES = range(CRASHED, STALLED + 1)


class Gang:
    def __init__(self, program, count, state, fault, victim):
        self.fault, self.victim, self.outputs, self.processes = fault, victim, [], []
        self.sandbox = sandbox.Sandbox()
        self.hosts = hosts.Hosts(count) if fault == "network cut" else None
        self.disk = sandbox.SmallDisk() if fault == "full disk" else None
        self.memory = sandbox.MemoryLimit(f"lockstep-faults-{os.getpid()}") if fault == "OOM kill" else None
        self.port = 51234 if self.hosts else ranks.free_port()
        address = f"{self.hosts.addresses[0] if self.hosts else '127.0.0.1'}:{self.port}"
        for rank in range(count):
            on_disk = self.disk is not None and rank == victim
            output = tempfile.TemporaryFile("w+", dir=self.disk.path if on_disk else None)
            where = ["ip", "netns", "exec", self.hosts.names[rank]] if self.hosts else []
            env = ranks.environment(rank, count, address, JAX_NUM_CPU_DEVICES="1", PJRT_NPROC="1", LOCKSTEP_TOKEN="faults",
                                    FAULTY_HEARTBEAT=str(int(HEARTBEAT * 1000)),
                                    FAULTY_INITIALIZATION=str(int(INITIALIZATION * 1000)),
                                    FAULTY_SHUTDOWN=str(int(SHUTDOWN * 1000)), **self.sandbox.environment)
            act = FAULTS[fault].act if rank == victim else "nothing"
            self.outputs.append(output)
            self.processes.append(subprocess.Popen(
                [*where, *self.sandbox.words, program, state, act, str(victim)], env=env, stdout=output,
                cwd=self.disk.path if on_disk else self.sandbox.parts["cwd"], stderr=subprocess.STDOUT,
                start_new_session=True))
            if self.memory and rank == victim:
                self.memory.add(self.processes[-1].pid)

    def text(self, rank):
        self.outputs[rank].seek(0)
        return self.outputs[rank].read()

    def running(self, ranks):
        return [r for r in ranks if self.processes[r].poll() is None]

    def wait_for(self, what, ranks, timeout=60):
        deadline = time.monotonic() + timeout
        while not all(re.search(what, self.text(r)) for r in ranks):
            if time.monotonic() > deadline or len(self.running(ranks)) < len(ranks):
                raise AssertionError("the gang never came to it:\n" + "\n".join(self.text(r) for r in ranks))
            time.sleep(0.02)

    def harm(self):
        process = self.processes[self.victim]
        if self.fault == "kill -9":
            process.kill()
        elif self.fault == "SIGSTOP":
            process.send_signal(signal.SIGSTOP)
        elif self.fault == "network cut":
            self.hosts.cut(self.victim)
        elif self.fault == "OOM kill":
            self.memory.leave(32 << 20)
            process.send_signal(signal.SIGUSR1)
            process.wait(30)  # it takes a while to fill the memory
            if self.memory.kills() != 1:
                raise AssertionError("the kernel's OOM killer has killed nobody")
        else:
            if self.disk:
                self.disk.fill()
            process.send_signal(signal.SIGUSR1)

    def victims_end(self):
        """"", or what is wrong with how the victim ended."""
        process, expected = self.processes[self.victim], FAULTS[self.fault].ends
        if self.fault == "SIGSTOP":
            process.send_signal(signal.SIGCONT)  # it finds itself left by all
        try:
            status = process.wait(HEARTBEAT * 1.5 + GRACE + 2 + SLACK)
        except subprocess.TimeoutExpired:
            return f"the victim, process {self.victim}, hangs:\n{self.text(self.victim)}"
        allowed = [expected] if expected is not None else [0, *GANG_CODES]
        if self.fault == "exit(0)":
            allowed += [-signal.SIGSEGV, -signal.SIGABRT]  # of a thread that goes on while exit() takes all down
        if status not in allowed:
            return f"the victim, process {self.victim}, ended with {status}:\n{self.text(self.victim)}"
        return ""

    def close(self):
        """What was left behind: processes, files, sockets."""
        left = [f"process {pid}" for pid in sandbox.in_sessions({p.pid for p in self.processes})]
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for namespace in self.hosts.names if self.hosts else [None]:
            left += sandbox.sockets_at(self.port, namespace)
        left += self.sandbox.left()
        for output in self.outputs:
            output.close()
        for part in (self.hosts, self.disk, self.memory, self.sandbox):
            if part:
                part.close()
        return left


def end_of(gang, survivors, limit):
    """Waits for the survivors' end; when the first of them said what has happened, if any did."""
    start, found = time.monotonic(), None
    while True:
        running = gang.running(survivors)
        if found is None and any(FOUND.search(gang.text(r)) for r in survivors):
            found = time.monotonic() - start
        if not running or time.monotonic() > start + limit:
            return found
        time.sleep(0.01)


def wrong_with(gang, rank, victim, statuses, said):
    text, status = gang.text(rank), gang.processes[rank].poll()
    blamed = {int(a or b) for a, b in BLAMED.findall(text)}
    if status is None:
        return f"process {rank} hangs:\n{text}"
    if status not in statuses:
        return f"process {rank} ended with {status}, not {statuses}:\n{text}"
    if not re.search(said, text):
        return f"process {rank} does not say '{said}':\n{text}"
    if blamed - {victim}:
        return f"process {rank} blames {blamed}, not {victim} alone:\n{text}"
    return ""


def run(program, fault, state, victim, count=3, after=0.3):
    """(time until a survivor said so, "" or what was wrong, what was left behind)"""
    gang = Gang(program, count, state, fault, victim)
    survivors = [r for r in range(count) if r != victim]
    kind = FAULTS[fault]
    statuses, said = [kind.zero if victim == 0 else kind.other], rf"process {victim} \("
    detection = HEARTBEAT * 1.5 if kind.silent else 1
    if fault == "exit(0)":
        detection = 2  # it has left in good order; whether anybody has failed is waited for
        if state in ("idle", "compiling"):  # nobody misses it before its wait for the others is over
            detection, statuses, said = SHUTDOWN + 1, [STALLED], rf"shutdown\(\) timed out.*arrived: {victim};"
        if state == "compiling":  # or it crashes, since exit() takes from the compiler what the compiling thread uses
            statuses += [kind.zero if victim == 0 else kind.other, COORDINATOR_LOST if victim == 0 else CRASHED]
            said += rf"|process {victim} \("
    wrong, found = "", None
    try:
        gang.wait_for(f"in {state}", range(count))
        time.sleep(after)
        gang.harm()
        # Found, then the time to tell the program, and to end.
        found = end_of(gang, survivors, detection + GRACE + 1.5 + SLACK)
        for r in survivors:
            wrong = wrong or wrong_with(gang, r, victim, statuses, said)
            wrong = wrong or wrong_with(gang, r, victim, statuses, re.escape(kind.said))
        if found is None or found > detection + SLACK:
            wrong = wrong or f"detected after {found} s, not {detection} s"
        wrong = wrong or gang.victims_end()
    except AssertionError as e:
        wrong = str(e)
    finally:
        left = gang.close()
    return found, wrong, left


def run_at_start(program, _, state, victim, count=3, after=0.3):
    """The same for a process that is killed `after` seconds after the start of all."""
    gang = Gang(program, count, state, "kill -9", victim)
    survivors = [r for r in range(count) if r != victim]
    wrong, found = "", None
    try:
        time.sleep(after)
        gang.harm()
        joined = [r for r in survivors if "in " + state in gang.text(r)]
        found = end_of(gang, survivors, INITIALIZATION + GRACE + 2 + SLACK)
        for r in survivors:
            # Before all have come initialize() throws, and nobody catches it. Who has given up already is missing too.
            statuses = [COORDINATOR_LOST if victim == 0 else CRASHED] + ([] if joined else [-signal.SIGABRT])
            said = rf"process {victim} \(|missing: [\d, ]*\b{victim}\b|no coordinator at" if not joined else rf"process {victim} \("
            wrong = wrong or wrong_with(gang, r, victim, statuses, said)
    finally:
        left = gang.close()
    return found, wrong, left


def possible():
    """The faults that this machine lets a test make."""
    lacks = {"network cut": "" if hosts.available() else "makes no network namespaces",
             "full disk": "" if sandbox.can_mount() else "lets nobody mount",
             "OOM kill": "" if sandbox.MemoryLimit.available() else "has no memory cgroup that can be written"}
    for fault, why in lacks.items():
        if why:
            print(f"{fault}: left out, this machine {why}")
    return [fault for fault in FAULTS if not lacks.get(fault)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    rounds, kills = (1, 10) if options.short else (options.rounds, options.kills)
    table, passed, failed, began = [], 0, 0, time.monotonic()

    def do(label, cases, run):
        nonlocal passed, failed
        if options.only not in label:
            return
        times, right, behind = [], 0, 0
        for fault, state, victim, after in cases:
            found, wrong, left = run(program, fault, state, victim, after=after)
            times += [found] if found is not None else []
            behind += len(left)
            right += not wrong
            if wrong or left:
                failed += 1
                print(f"FAIL {label}: {fault}, {state}, rank {victim}, after {after:.3f} s: {wrong}\nleft behind: {left}",
                      flush=True)
            else:
                passed += 1
        table.append((label, times, right, len(cases), behind))
        print(f"{label}: {right} of {len(cases)}", flush=True)

    for i, fault in enumerate(possible()):
        rows = [(state, victim) for state in STATES for victim in (0, 1)]
        if options.short:
            rows = [(STATES[i % 4], 0), (STATES[(i + 2) % 4], 1)]
        for state, victim in rows:
            do(f"{fault}, {state}, {'rank 0' if victim == 0 else 'another'}", [(fault, state, victim, 0.3)] * rounds, run)
    print(f"random kills with --seed {options.seed}")
    chance = random.Random(options.seed)
    choose = lambda longest: ("kill -9", chance.choice(STATES), chance.randrange(3), chance.random() * longest)
    do("kill -9 at random moments", [choose(1.5) for _ in range(kills - kills // 2)], run)
    do("kill -9 while the gang starts", [choose(2.5) for _ in range(kills // 2)], run_at_start)

    print(f"\n{'fault':<44}{'detected p50':>14}{'max':>10}{'named right':>14}{'left behind':>13}")
    for label, times, right, count, behind in table:
        p50 = f"{statistics.median(times):.2f} s" if times else "-"
        most = f"{max(times):.2f} s" if times else "-"
        print(f"{label:<44}{p50:>14}{most:>10}{f'{right} of {count}':>14}{behind:>13}")
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())

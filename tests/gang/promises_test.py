"""What a user is promised when something is wrong with a gang: an error on every process that says who, what and where,
in time; never a hang. Real processes of promises.cc. usage: promises_test.py LOCKSTEP PROMISES CLOCK_SHIFT_LIBRARY
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks
import sandbox

LOCKSTEP, PROGRAM, CLOCK_SHIFT = sys.argv[1:4]
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "promises.cc")


def line_of(mark):
    """promises.cc:LINE of the line that is marked so."""
    with open(SOURCE) as file:
        for number, line in enumerate(file, 1):
            if line.rstrip().endswith(f"// line: {mark}"):
                return f"promises.cc:{number}"
    raise KeyError(mark)


class Process:
    def __init__(self, *words, environment, before=()):
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*before, PROGRAM, *words], env=environment, stdout=self.output,
                                        stderr=subprocess.STDOUT)
        self.pid = self.process.pid

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def wait(self, timeout=60):
        """Its exit status; it may take `timeout` seconds."""
        return self.process.wait(timeout)

    def wait_for(self, what, timeout=60):
        deadline = time.monotonic() + timeout
        while not re.search(what, self.text()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no {what!r} in:\n{self.text()}")
            time.sleep(0.02)

    def send(self, number):
        self.process.send_signal(number)


class Promises(unittest.TestCase):
    def start(self, rank, act="train", count=2, port=None, steps=1000000, devices=1, before=(), **environment):
        port = port or self.port
        process = Process(act, str(steps), before=before, environment=ranks.environment(
            rank, count, f"127.0.0.1:{port}", JAX_NUM_CPU_DEVICES=str(devices), PJRT_NPROC="1", **environment))
        self.addCleanup(process.output.close)
        self.addCleanup(process.process.wait)
        self.addCleanup(process.process.kill)
        return process

    def setUp(self):
        self.port = ranks.free_port()

    def all(self, act="train", count=2, **environment):
        return [self.start(rank, act, count, **environment) for rank in range(count)]

    def expect(self, process, status, *parts, timeout=60):
        try:
            ended = process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.fail(f"still running after {timeout} s:\n{process.text()}")
        text = process.text()
        self.assertEqual(ended, status, text)
        for part in parts:
            self.assertRegex(text, part)

    # --- starting

    def test_address_in_use(self):
        first = self.start(0)
        first.wait_for("process 0 of 2")
        time.sleep(0.3)
        self.expect(self.start(0), 4, "refused distributed: initialize: address already in use",
                    f"127.0.0.1:{self.port}", re.escape(line_of("initialize")))

    def test_missing_peer_is_named_and_the_timeout_kept(self):
        start = time.monotonic()
        both = [self.start(0, count=3, PROMISES_INIT="5"), self.start(2, count=3, PROMISES_INIT="30")]
        for process in both:
            self.expect(process, 4, "2 of 3 processes have joined: 0 .*, 2 .*; missing: 1", re.escape(line_of("initialize")))
        self.assertLess(time.monotonic() - start, 12)

    def test_coordinator_that_is_never_started(self):
        start = time.monotonic()
        self.expect(self.start(1, PROMISES_INIT="1"), 4, "refused timeout: initialize: no coordinator at 127.0.0.1",
                    re.escape(line_of("initialize")))
        self.assertLess(time.monotonic() - start, 5)

    def test_different_settings_and_counts(self):
        for process in [self.start(0), self.start(1, JAX_ENABLE_X64="1")]:
            self.expect(process, 4, r"jax_enable_x64: false on process 0 \(.*; true on process 1 \(",
                        re.escape(line_of("initialize")))
        self.port = ranks.free_port()
        for process in [self.start(0, XLA_FLAGS="--xla_dump_to=/tmp/x --xla_cpu_enable_fast_math=true"), self.start(1)]:
            self.expect(process, 4, r"XLA_FLAGS: --xla_cpu_enable_fast_math=true on process 0 \(.*; unset on process 1 \(")
        self.port = ranks.free_port()
        for process in [self.start(0), self.start(1, count=3)]:
            self.expect(process, 4, "num_processes = 3, the coordinator with 2")

    def test_plugin_not_found(self):
        both = [self.start(0, PROMISES_INIT="20"), self.start(1, LOCKSTEP_CPU_PLUGIN="/no/such/plugin.so")]
        self.expect(both[1], 4, "the CPU plugin was not found", "/no/such/plugin.so", re.escape(line_of("initialize")))
        self.expect(both[0], 4, "the CPU plugin was not found")

    def test_another_build_of_the_plugin(self):
        """The same but for a byte behind its end."""
        with tempfile.TemporaryDirectory() as folder:
            plugin = os.environ.get("LOCKSTEP_CPU_PLUGIN") or re.search(
                r"(\S+/pjrt_c_api_cpu_plugin\.so)", subprocess.run([LOCKSTEP, "plugins"], capture_output=True, text=True).stdout)[1]
            other = os.path.join(folder, "pjrt_c_api_cpu_plugin.so")
            shutil.copyfile(plugin, other)
            with open(other, "ab") as file:
                file.write(b"x")
            for process in [self.start(0), self.start(1, LOCKSTEP_CPU_PLUGIN=other)]:
                self.expect(process, 4, r"plugin: cpu, PJRT C API \d+\.\d+, build [0-9a-f]+ on process 0 \(.*; "
                                        r"cpu, PJRT C API \d+\.\d+, build [0-9a-f]+ on process 1 \(",
                            re.escape(line_of("initialize")))

    @unittest.skipUnless(sandbox.can_mount(), "no root, or nobody may mount")
    def test_another_processor(self):
        with open("/proc/cpuinfo") as file:
            text = file.read()
        with tempfile.NamedTemporaryFile("w") as older:
            older.write(re.sub(r" (avx\S*|fma)\b", "", text))
            older.flush()
            before = ["unshare", "-m", "sh", "-c", f"mount --bind {older.name} /proc/cpuinfo && exec \"$@\"", "sh"]
            for process in [self.start(0), self.start(1, before=before)]:
                self.expect(process, 4, r"CPU features \(LOCKSTEP_MIXED_CPUS=1 lets them differ\): .*avx.* on process 0 \(.*; "
                                        r"[^a]*sse4_1[^a]* on process 1 \(", re.escape(line_of("initialize")))
            self.port = ranks.free_port()
            for process in [self.start(0, steps=3, LOCKSTEP_MIXED_CPUS="1"),
                            self.start(1, steps=3, LOCKSTEP_MIXED_CPUS="1", before=before)]:
                self.expect(process, 0, "done")

    # --- mistakes of one process

    def test_bad_specs_end_the_gang_with_the_line(self):
        for act, said in (("bad_axis", "'?\"?model"), ("bad_size", r"3,2|\(3, 2\)|5, 2|5,2")):
            self.port = ranks.free_port()
            both = self.all(act)
            self.expect(both[1], -signal.SIGABRT, said, re.escape(line_of(act)))
            self.expect(both[0], 81, r"process 1 \(.*failed: uncaught exception: ", re.escape(line_of(act)))

    def test_a_different_program_on_one(self):
        for act, here, there in (("another_program", "step", "another_program"), ("another_call", "sum", "another_call"),
                                 ("another_shape", "step", "step")):
            self.port = ranks.free_port()
            for process in self.all(act):
                self.expect(process, 85, "do different things", re.escape(line_of(here)), re.escape(line_of(there)),
                            "first difference", r"process 0.*\n.*process 1")

    def test_another_mesh_or_launch_on_one(self):
        for act, said, line in (("another_mesh", r"process 0: mesh Mesh\('data': 2.*\n.*process 1: mesh Mesh\('rows': 2", "first_call"),
                                ("another_number", r"process 0: launch 2 on the mesh\n.*process 1: launch 3 on the mesh", "step")):
            with self.subTest(act=act):
                self.port = ranks.free_port()
                start = time.monotonic()
                for process in self.all(act):
                    self.expect(process, 85, "do different things", "first difference", said)
                self.assertLess(time.monotonic() - start, 20)

    def test_one_has_a_program_that_another_makes_anew(self):
        for process in self.all("remade", steps=3):
            self.expect(process, 0, "done")

    def test_another_order_of_known_programs(self):
        """Found by what each has launched, without a word between the processes before each launch."""
        for act, here, there in (("swaps", "step", "another_program"), ("skips", "plain", "step"),
                                 ("threads", "step", "another_program")):
            self.port = ranks.free_port()
            start = time.monotonic()
            for process in self.all(act):
                self.expect(process, 85, r"launch \d+ differs: process 0 launches jit\(", "process 1 launches jit",
                            re.escape(line_of(here)), re.escape(line_of(there)))
            self.assertLess(time.monotonic() - start, 20)

    def test_caught_divergence_is_an_error_of_its_own_kind(self):
        for process in self.all("another_program", PROMISES_CATCH="1"):
            self.expect(process, 3, "caught diverged: jit")

    def test_never_calls(self):
        start = time.monotonic()
        both = self.all("never_calls", LOCKSTEP_COLLECTIVE_TIMEOUT="3")
        for process in both:
            self.expect(process, 86, r"connect: no connection of processes 0, 1 for their collectives: .* timed out after 3\.\d s; "
                                     r"arrived: 0; missing: process 1 \(.*in 'loading data.*' for \d", re.escape(line_of("sum")))
        self.assertLess(time.monotonic() - start, 20)

    def test_stops_before_a_new_program(self):
        start = time.monotonic()
        both = self.all("stops_calling_new", LOCKSTEP_COLLECTIVE_TIMEOUT="3")
        self.expect(both[0], 86, r"timed out after 3\.\d s", r"missing: process 1 \(", re.escape(line_of("step")))
        self.expect(both[1], 86, r"timed out after 3\.\d s", r"missing: process 1 \(", r"process 0 \(")
        self.assertLess(time.monotonic() - start, 20)

    def test_stops_calling(self):
        """Also if the program catches the error and goes on: the others must not go on without it."""
        for more in ({}, {"PROMISES_CATCH": "1", "PROMISES_GO_ON": "1"}):
            self.port = ranks.free_port()
            both = self.all("stops_calling", LOCKSTEP_COLLECTIVE_TIMEOUT="3", **more)
            for process in both:
                self.expect(process, 86, r"all_reduce: all-reduce.* \(\w+, " + re.escape(line_of("step")) + r"\) in launch \d+ "
                                         r"has not ended after 3.* s: partition 0 arrived; missing: partition 1 of process 1 .*"
                                         r"in host code for")
            self.assertEqual("caught timeout" in both[0].text(), bool(more))

    def test_clocks_hours_apart(self):
        """Nothing depends on what time it is."""
        clocks = [{}, {"LD_PRELOAD": CLOCK_SHIFT, "CLOCK_SHIFT": "-18000"}, {"LD_PRELOAD": CLOCK_SHIFT, "CLOCK_SHIFT": "90000"}]
        for process in [self.start(r, count=3, steps=5, PROMISES_HEARTBEAT="3", **c) for r, c in enumerate(clocks)]:
            self.expect(process, 0, "done")
        self.port = ranks.free_port()
        start = time.monotonic()
        three = [self.start(r, "stops_calling_new", 3, LOCKSTEP_COLLECTIVE_TIMEOUT="3", **c) for r, c in enumerate(clocks)]
        for process in three:
            self.expect(process, 86, r"timed out after 3\.\d s", r"missing: process 1 \(.* for \d\.\d s, heard \d\.\d s ago")
        self.assertLess(time.monotonic() - start, 20)

    # --- ends of one process

    def test_killed_during_a_step(self):
        for victim, code, said in ((1, 81, r"process 1 \(.*died"), (0, 84, r"run by process 0 \(.*is lost")):
            self.port = ranks.free_port()
            three = self.all(count=3)
            for process in three:
                process.wait_for("training")
            three[victim].send(signal.SIGKILL)
            start = time.monotonic()
            for rank in {0, 1, 2} - {victim}:
                self.expect(three[rank], code, said, f"pid {three[victim].pid}")
            self.assertLess(time.monotonic() - start, 8)

    def test_stopped_during_a_step(self):
        both = self.all(PROMISES_HEARTBEAT="2")
        for process in both:
            process.wait_for("training")
        both[1].send(signal.SIGSTOP)
        self.expect(both[0], 82, r"process 1 \(.*does not answer: no heartbeat for 2\.0 s")

    def test_exceptions_and_exits_are_told(self):
        for act, own, said in (("throws", -signal.SIGABRT, "failed: uncaught exception: no more cheese"),
                               ("exits", 7, r"exited with status 7 without shutdown\(\)"),
                               ("_exits", 0, "died: its connection closed")):
            for odd in ("1", "0") if act in ("throws", "exits") else ("1",):
                with self.subTest(act=act, odd=odd):
                    self.port = ranks.free_port()
                    both = self.all(act, PROMISES_RANK=odd)
                    self.expect(both[int(odd)], own)
                    self.expect(both[1 - int(odd)], 81, said, rf"process {odd} \(")

    def test_returns_too_early(self):
        """It waits in shutdown() for the other, whose step can't complete and says so at once."""
        both = self.all("returns")
        both[0].wait_for("training")
        start = time.monotonic()
        self.expect(both[0], 81, r"process 1 \(.*has left the gang, in good order: it takes part in nothing more")
        self.expect(both[1], 81, r"process 0 \(.* failed: .*process 1 .*has left the gang")
        self.assertLess(time.monotonic() - start, 8)

    # --- all is well

    def test_nothing_is_wrong(self):
        for devices in (1, 2):
            self.port = ranks.free_port()
            for process in self.all(steps=5, devices=devices):
                self.expect(process, 0, "done")

    def test_the_launcher_returns_the_first_failing_status(self):
        command = [LOCKSTEP, "run", "-n", "2", "--", PROGRAM, "exits"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 7, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"process 1 \(pid \d+\) exited with status 7")
        self.assertRegex(done.stderr, r"\[0\] .*exit code 81")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)

"""The example on gangs of real processes: the same losses whatever the number of processes and devices, and an error,
not a hang, when a process is killed or runs another program. usage: train_gpt_test.py LOCKSTEP TRAIN_GPT LEAVES_EARLY"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

LOCKSTEP, TRAIN, LEAVES_EARLY = sys.argv[1:4]
WITHOUT_HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.deps/test-plugins/api-0.106/libpjrt_cpu.so")
SMALL = ["--layers", "1", "--width", "32", "--heads", "2", "--context", "16", "--batch", "8", "--sample", "0", "--log-every", "1"]


def text_file(folder):
    name = os.path.join(folder, "text.txt")
    with open(name, "w") as f:
        f.write("".join(f"line {i}: the quick brown fox jumps over the lazy dog\n" for i in range(400)))
    return name


def rank(program, index, count, port, **environment):
    env = ranks.environment(index, count, f"127.0.0.1:{port}", **environment)
    return subprocess.Popen(program, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class TrainGpt(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.program = [TRAIN, "--text", text_file(self.folder.name), *SMALL]

    def losses(self, processes, devices=1, steps=20, **environment):
        command = [LOCKSTEP, "run", "-n", str(processes), "--devices-per-process", str(devices), "--", *self.program, "--steps", str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240, env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        found = [float(x) for x in re.findall(r"loss:? ([0-9.]+)", done.stdout)]
        self.assertEqual(len(found), steps + 1, done.stdout)  # and the held-out one
        return found

    def test_losses_do_not_depend_on_the_gang(self):
        alone = self.losses(1)
        self.assertLess(alone[-1], alone[0] - 0.5)
        for processes, devices in ((2, 1), (4, 1), (2, 2)):
            for a, b in zip(alone, self.losses(processes, devices)):  # within 1e-4; they are printed to 4 decimals
                self.assertAlmostEqual(a, b, delta=1.5e-4, msg=f"{processes} processes, {devices} devices each")

    def test_losses_do_not_depend_on_the_plugin(self):
        """By the XlaTransform hook, without using it, and with a plugin that has none."""
        by_hook = self.losses(2, steps=3, LOCKSTEP_PARTITION_ROUTE="hook")
        for other in ({"LOCKSTEP_PARTITION_ROUTE": "whole_compile"}, {"LOCKSTEP_CPU_PLUGIN": WITHOUT_HOOK}):
            for a, b in zip(by_hook, self.losses(2, steps=3, **other)):
                self.assertAlmostEqual(a, b, delta=1.5e-4, msg=str(other))

    def test_process_that_returns_first_still_does_its_part(self):
        def loss(processes):
            done = subprocess.run([LOCKSTEP, "run", "-n", str(processes), "--", LEAVES_EARLY], capture_output=True, text=True,
                                  timeout=120)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return float(re.search(r"loss ([0-9.]+)", done.stdout)[1])

        alone = loss(1)
        for _ in range(3):
            self.assertAlmostEqual(loss(2), alone, delta=1e-5)

    def start_two(self, second=None, steps="100000", **environment):
        port = ranks.free_port()
        second = second or self.program
        both = [rank([*self.program, "--steps", steps], 0, 2, port, **environment), rank([*second, "--steps", steps], 1, 2, port, **environment)]
        self.addCleanup(lambda: [p.kill() for p in both if p.poll() is None] and [p.wait() for p in both])
        return both

    def wait_for_steps(self, process):
        for line in process.stdout:
            if line.startswith("step    10/"):
                return
        self.fail("the gang never started")

    def test_killed_peer_ends_the_other_with_its_name(self):
        first, second = self.start_two()
        self.wait_for_steps(first)
        second.send_signal(signal.SIGKILL)
        start = time.time()
        output, _ = first.communicate(timeout=60)
        self.assertLess(time.time() - start, 20)
        self.assertNotEqual(first.returncode, 0)
        self.assertRegex(output, r"process 1")

    def test_different_program_is_refused_on_both(self):
        other = [x if x != "32" else "64" for x in self.program]  # another width
        both = self.start_two(second=other, steps="5")
        for p in both:
            output, _ = p.communicate(timeout=120)
            self.assertNotEqual(p.returncode, 0, output)
            self.assertRegex(output, r"differ|diverged|different")


del sys.argv[1:]
unittest.main(verbosity=2)

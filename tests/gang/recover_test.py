"""Gangs that go on without processes that die, and several gangs in the same processes.
usage: recover_test.py LOCKSTEP SURVIVE GANGS SOME_PROCESSES"""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import ranks

LOCKSTEP, SURVIVE, GANGS, SOME_PROCESSES = sys.argv[1:5]


class Recovery(unittest.TestCase):
    def run_survive(self, *words, processes=3, devices=1):
        command = [LOCKSTEP, "run", "-n", str(processes), "--recoverable", "--devices-per-process", str(devices), "--", SURVIVE]
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)

    def check(self, done, sizes):
        """The gang had these sizes one after another, and the training came to its end."""
        text = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, text)
        self.assertEqual([int(n) for n in re.findall(r"Mesh\('data': (\d+)", done.stdout)], sizes, text)
        self.assertRegex(done.stdout, r"\[0\] step 200  loss 0\.0000")
        self.assertLess(float(re.search(r"off by at most (\S+)", done.stdout)[1]), 1e-3)

    def test_nobody_dies(self):
        self.check(self.run_survive(), [3])

    def test_one_is_killed(self):
        done = self.run_survive("--die", "2@70")
        self.check(done, [3, 2])
        self.assertRegex(done.stdout, r"going on with 2 processes from step 70")
        self.assertRegex(done.stderr, r"process 2 \(.*\) died")

    def test_one_is_killed_before_anything_ran_over_a_mesh(self):
        command = [LOCKSTEP, "run", "-n", "3", "--recoverable", "--", SOME_PROCESSES, "die"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout.count("ok")), (0, 2), done.stdout + done.stderr)

    def test_all_but_process_0_and_with_two_devices_each(self):
        self.check(self.run_survive("--die", "1@30", processes=2, devices=2), [4, 2])

    def test_without_process_0_the_gang_ends(self):
        done = self.run_survive("--die", "0@30")
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stdout + done.stderr)
        for rank in (1, 2):
            self.assertRegex(done.stderr, rf"process {rank} \(pid \d+\) exited with status 84 \(coordinator lost\)")

    def start(self, count, *words):
        address = f"127.0.0.1:{ranks.free_port()}"
        processes = []
        for rank in range(count):
            process = subprocess.Popen([SURVIVE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                       env=ranks.environment(rank, count, address))
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def test_kills_at_any_time(self):
        """Two of four, from outside, one a little after the other: whoever is left goes on or says why not."""
        processes = self.start(4, "--steps", "3000")
        line = processes[0].stdout.readline()
        while "step 50" not in line:
            line = processes[0].stdout.readline()
            self.assertTrue(line)
        processes[3].kill()
        time.sleep(0.15)
        processes[1].kill()
        output = processes[0].communicate(timeout=100)[0]
        self.assertEqual(processes[0].returncode, 0, output)
        self.assertEqual(processes[2].wait(60), 0)
        self.assertRegex(output, r"going on with 2 processes")
        self.assertRegex(output, r"step 3000  loss 0\.0000")

    def test_one_that_was_given_up_ends_when_it_comes_back(self):
        processes = self.start(3, "--steps", "3000", "--heartbeat", "2")
        line = processes[0].stdout.readline()
        while "step 50" not in line:
            line = processes[0].stdout.readline()
            self.assertTrue(line)
        processes[2].send_signal(signal.SIGSTOP)
        output = processes[0].communicate(timeout=100)[0]
        processes[2].send_signal(signal.SIGCONT)
        self.assertEqual(processes[0].returncode, 0, output)
        self.assertRegex(output, r"process 2 \(.*\) does not answer")
        self.assertEqual(processes[1].wait(60), 0)
        last_words = processes[2].communicate(timeout=60)[0]
        self.assertRegex(last_words, "gone on without this process|coordinator .* is lost")
        self.assertNotEqual(processes[2].returncode, 0)


class Gangs(unittest.TestCase):
    def test_one_after_another(self):
        for devices in (1, 2):
            with self.subTest(devices=devices):
                addresses = [f"127.0.0.1:{ranks.free_port()}" for _ in range(2)]
                clean = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
                processes = [
                    subprocess.Popen([GANGS, *addresses], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                     env={**clean, "LOCKSTEP_TEST_ID": str(i), "JAX_NUM_CPU_DEVICES": str(devices)})
                    for i in range(3)]
                for process in processes:
                    self.addCleanup(process.stdout.close)
                    self.addCleanup(process.kill)
                for i, process in enumerate(processes):
                    output = process.communicate(timeout=120)[0]
                    self.assertEqual((process.returncode, output.splitlines()[-1:]), (0, ["ok"]), f"process {i}: {output}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

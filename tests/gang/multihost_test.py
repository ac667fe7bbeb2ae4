"""multihost_utils, the control channel, preemption and reports on request, on real processes.
usage: multihost_test.py LOCKSTEP MULTIHOST PREEMPTED"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

LOCKSTEP, MULTIHOST, PREEMPTED = sys.argv[1:4]


class Values(unittest.TestCase):
    def check(self, processes, devices):
        ranks.check_all_ok(self, LOCKSTEP, MULTIHOST, processes, devices)

    def test_one_process_behaves_like_many(self):
        self.check(1, 2)

    def test_many(self):
        self.check(2, 1)
        self.check(3, 2)


class Signals(unittest.TestCase):
    def start(self, *words, processes=2, **environment):
        self.output = tempfile.TemporaryFile("w+")
        self.addCleanup(self.output.close)
        command = [LOCKSTEP, "run", "-n", str(processes), "--", PREEMPTED, *words]
        run = subprocess.Popen(command, stdout=self.output, stderr=subprocess.STDOUT, env={**os.environ, **environment})
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def wait_for(self, what, timeout=60):
        deadline = time.monotonic() + timeout
        while not re.search(what, self.text()):
            self.assertLess(time.monotonic(), deadline, f"no {what!r} in:\n{self.text()}")
            time.sleep(0.02)

    def pid_of(self, rank):
        """From the report that every process gives at SIGQUIT."""
        return int(re.search(rf"process {rank} \(.*, pid (\d+)\)", self.text())[1])

    def test_one_notice_is_one_step_for_all(self):
        for processes, victim in ((3, 1), (2, 0), (1, 0)):
            with self.subTest(processes=processes):
                run = self.start(processes=processes)
                self.wait_for("step 40")
                if processes == 1:
                    run.send_signal(signal.SIGTERM)
                else:
                    run.send_signal(signal.SIGQUIT)
                    self.wait_for(rf"process {victim} \(.*, pid")
                    os.kill(self.pid_of(victim), signal.SIGTERM)
                self.assertEqual(run.wait(60), 0, self.text())
                saved = re.findall(r"saved at (\d+)", self.text())
                self.assertEqual(len(saved), processes, self.text())
                self.assertEqual(len(set(saved)), 1, self.text())

    def test_notice_to_all(self):
        run = self.start(processes=3)
        self.wait_for("step 40")
        run.send_signal(signal.SIGTERM)
        self.assertEqual(run.wait(60), 0, self.text())
        saved = re.findall(r"saved at (\d+)", self.text())
        self.assertEqual(len(saved), 3, self.text())
        self.assertEqual(len(set(saved)), 1, self.text())

    def test_where_a_process_stands(self):
        run = self.start("1000000", "20")
        self.wait_for("step 20")
        time.sleep(0.5)
        run.send_signal(signal.SIGQUIT)
        self.wait_for(r"process 0 of 2 is in '[^']*' for [\d.]+ s\n(?:.*waiting in .*\n)*.*process 0 \(.*\n.*process 1 \(.*: connected, in '")
        self.wait_for(r"process 1 of 2 is in 'host code' for [\d.]+ s")
        self.assertIsNone(run.poll(), "it goes on")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)

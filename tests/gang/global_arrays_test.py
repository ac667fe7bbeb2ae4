"""Arrays that span real processes. usage: global_arrays_test.py LOCKSTEP GLOBAL_ARRAYS"""
import subprocess
import sys
import unittest

LOCKSTEP, PROGRAM = sys.argv[1:3]


class GlobalArrays(unittest.TestCase):
    def check(self, processes, devices):
        command = [LOCKSTEP, "run", "-n", str(processes), "--devices-per-process", str(devices), "--", PROGRAM]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("ok"), processes, done.stdout)

    def test_one_process(self):
        self.check(1, 4)

    def test_two_processes(self):
        self.check(2, 1)
        self.check(2, 2)

    def test_four_processes(self):
        self.check(4, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

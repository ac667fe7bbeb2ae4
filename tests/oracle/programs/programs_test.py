"""JAX's lowered programs, run by gangs of processes, give what JAX gives. usage: programs_test.py RUN_PROGRAMS"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import cases
import numpy as np

PROGRAM = sys.argv.pop()
# What the compiler refuses when it has to compile the whole program for a CPU by itself (compile/partition.h).


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.TemporaryDirectory()
        cls.cases = os.path.join(cls.root.name, "cases")
        os.mkdir(cls.cases)
        cls.expected = cases.write_cases(cls.cases)

    @classmethod
    def tearDownClass(cls):
        cls.root.cleanup()

    def run_gang(self, names, processes, devices, route, launch):
        directory = os.path.join(self.root.name, f"{processes}x{devices}_{route}_{launch}")
        for name in names:
            shutil.copytree(os.path.join(self.cases, name), os.path.join(directory, name))
        os.mkdir(os.path.join(directory, "store"))
        environment = {k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"}  # JAX has set it
        gang = []
        for rank in range(processes):
            command = [PROGRAM, directory, str(rank), str(processes), str(devices), route, launch]
            gang.append(subprocess.Popen(command, env=environment))
            self.addCleanup(gang[-1].kill)
        for process in gang:
            self.assertEqual(process.wait(timeout=800), 0)
        return directory

    def check(self, directory, name, expected):
        errors = glob.glob(os.path.join(directory, name, "error_*.txt"))
        messages = []
        for path in errors:
            with open(path) as file:
                messages.append(file.read())
        if isinstance(expected, str):
            self.assertNotEqual(messages, [])
            for message in messages:
                self.assertIn(expected, message)
            return
        self.assertEqual(messages, [])
        for k, partitions in enumerate(expected):
            for partition, want in enumerate(partitions):
                path = os.path.join(directory, name, f"result{k}_{partition}.bin")
                got = np.fromfile(path, want.dtype).reshape(want.shape)
                # Exact but for rounding, which depends on the order of sums.
                tolerance = 0
                if want.dtype.kind not in "iub":
                    tolerance = 4e-3 if want.dtype.itemsize == 2 else 4e-6
                wide = np.complex128 if want.dtype.kind == "c" else np.float64
                if tolerance:
                    got, want = got.astype(wide), want.astype(wide)
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=f"result {k}, {partition}")

    def check_all(self, processes, devices, route="hook", launch="threads", every=1):
        """every: only each so-manieth program."""
        names = sorted(self.expected)[::every]
        directory = self.run_gang(names, processes, devices, route, launch)
        for name in names:
            expected = self.expected[name]
            with self.subTest(name):
                self.check(directory, name, expected)

    def test_two_processes_of_two_devices(self):
        self.check_all(2, 2)

    def test_four_processes(self):
        self.check_all(4, 1, every=4)

    def test_one_thread_launches_two_devices(self):
        self.check_all(2, 2, launch="background", every=4)

    def test_without_the_transform_hook(self):
        self.check_all(2, 2, route="whole_compile", every=4)


if __name__ == "__main__":
    unittest.main()

"""Arrays that span real processes. usage: global_arrays_test.py LOCKSTEP GLOBAL_ARRAYS SOME_PROCESSES"""
import sys
import unittest

import ranks

LOCKSTEP, PROGRAM, SOME_PROCESSES = sys.argv[1:4]


class GlobalArrays(unittest.TestCase):
    def check(self, processes, devices):
        ranks.check_all_ok(self, LOCKSTEP, PROGRAM, processes, devices)

    def test_one_process(self):
        self.check(1, 4)

    def test_two_processes(self):
        self.check(2, 1)
        self.check(2, 2)

    def test_four_processes(self):
        self.check(4, 1)

    def test_meshes_of_some_processes(self):
        for devices in (1, 2):
            ranks.check_all_ok(self, LOCKSTEP, SOME_PROCESSES, 3, devices)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""The checks of the source find what they are there for, and the counting of tests counts failures."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


class ScratchTree(unittest.TestCase):
    def setUp(self):
        self.tree = tempfile.mkdtemp(prefix="lockstep-checks-test-")
        self.addCleanup(shutil.rmtree, self.tree)

    def write(self, path, text):
        path = os.path.join(self.tree, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def run_script(self, name, *arguments):
        done = subprocess.run([os.path.join(ROOT, "scripts", name), *arguments], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout.splitlines()


class IncludesTest(ScratchTree):
    def setUp(self):
        super().setUp()
        self.write("CMakeLists.txt", """
            # lockstep_room(commented DEPS out)
            lockstep_room(support LIBS spdlog::spdlog)
            lockstep_room(core DEPS support)
            lockstep_room(pjrt DEPS core LIBS lockstep_xla_headers)
            lockstep_room(lower DEPS core)
            lockstep_room(runtime DEPS pjrt)
            lockstep_room(trace DEPS runtime lower LIBS fmt::fmt)
        """)
        for room in ("support", "core", "pjrt", "lower", "runtime", "trace"):
            self.write(f"lockstep/{room}/{room}.h", "#pragma once\n#include <vector>\n")

    def check(self):
        return self.run_script("check_includes.py", self.tree)

    def assert_one(self, *words):
        status, lines = self.check()
        self.assertEqual((status, len(lines)), (1, 1), lines)
        for word in words:
            self.assertIn(word, lines[0])

    def test_allowed(self):
        self.write("lockstep/trace/x.cc", "".join(
            f'#include "lockstep/{room}/{room}.h"\n' for room in ("pjrt", "core", "support", "lower", "trace")))
        self.write("lockstep/pjrt/x.cc", "#include <pjrt_c_api.h>\n#include <spdlog/spdlog.h>\n")
        self.write("lockstep/lockstep.h", '#include "lockstep/trace/trace.h"\n#include <fmt/core.h>\n')
        self.assertEqual(self.check(), (0, []))

    def test_mpi(self):
        self.write("lockstep/mpi.h", '#include <mpi.h>\n#include "lockstep/core/core.h"\n')
        self.assertEqual(self.check(), (0, []))
        self.write("lockstep/core/x.h", "#include <mpi.h>\n")
        self.assert_one("lockstep/core/x.h:1:", "only lockstep/mpi.h includes mpi.h")

    def test_mpi_is_for_users(self):
        self.write("lockstep/mpi.h", "#include <mpi.h>\n")
        self.write("lockstep/core/x.h", '#include "lockstep/mpi.h"\n')
        self.assert_one("lockstep/core/x.h:1:", "mpi.h is for users")

    def test_upward(self):
        self.write("lockstep/core/x.cc", '#include "lockstep/core/core.h"\n#include "lockstep/trace/trace.h"\n')
        self.assert_one("lockstep/core/x.cc:2:", "core/ may not include trace/")

    def test_sideways(self):
        self.write("lockstep/lower/x.h", '#include "lockstep/pjrt/pjrt.h"\n')
        self.assert_one("lockstep/lower/x.h:1:", "lower/ may not include pjrt/")

    def test_support_includes_nothing_above(self):
        self.write("lockstep/support/x.cc", '#include "lockstep/core/core.h"\n')
        self.assert_one("support/ may not include core/")

    def test_generated_headers_count(self):
        self.write("lockstep/lower/x.cc", '#include "lockstep/pjrt/thing.pb.h"\n')
        status, lines = self.check()
        self.assertEqual(status, 1)
        self.assertIn("lower/ may not include pjrt/", lines[-1])

    def test_pjrt_header_elsewhere(self):
        self.write("lockstep/runtime/x.cc", '#include "pjrt_c_api.h"\n')
        self.assert_one("lockstep/runtime/x.cc:1:", "only pjrt/ includes pjrt_c_api.h")

    def test_heavy_header_seen_by_another_room(self):
        self.write("lockstep/pjrt/deep.h", "#include <grpcpp/grpcpp.h>\n")
        self.write("lockstep/pjrt/middle.h", '#include "lockstep/pjrt/deep.h"\n')
        self.write("lockstep/runtime/x.cc", '#include "lockstep/pjrt/middle.h"\n')
        self.assert_one("lockstep/runtime/x.cc:1:", "grpcpp/grpcpp.h", "lockstep/pjrt/deep.h")

    def test_public_header_with_foreign_need(self):
        self.write("lockstep/trace/x.h", "#include <nlohmann/json.hpp>\n")
        self.write("lockstep/lockstep.h", '#include "lockstep/trace/x.h"\n')
        self.assert_one("lockstep/trace/x.h", "nlohmann/json.hpp")

    def test_undeclared_room_and_missing_header(self):
        self.write("lockstep/other/x.cc", "")
        self.write("lockstep/core/x.cc", '#include "lockstep/core/gone.h"\n')
        status, lines = self.check()
        self.assertEqual((status, len(lines)), (1, 2), lines)
        self.assertIn("there is no lockstep/core/gone.h", lines[0])
        self.assertIn("no room 'other'", lines[1])

    def test_own_header_first(self):
        self.write("lockstep/core/core.cc", '#include <string>\n#include "lockstep/core/core.h"\n')
        self.assert_one("lockstep/core/core.cc:1:", "the first include must be lockstep/core/core.h")

    def test_umbrella_inside_a_room(self):
        self.write("lockstep/lockstep.h", "")
        self.write("lockstep/core/x.cc", '#include "lockstep/lockstep.h"\n')
        self.assert_one("lockstep.h is for users")


class LengthsTest(ScratchTree):
    def test_limit(self):
        self.write("lockstep/core/fits.cc", "\n" * 800)
        self.assertEqual(self.run_script("check_lengths.sh", self.tree), (0, []))
        self.write("lockstep/core/long.cc", "\n" * 801)
        self.write("build/generated.cc", "\n" * 5000)
        status, lines = self.run_script("check_lengths.sh", self.tree)
        self.assertNotEqual(status, 0)
        self.assertEqual(lines, ["./lockstep/core/long.cc: more than 800 lines"])


class CountTest(ScratchTree):
    def count(self, cases):
        self.write("junit.xml", "<testsuite>" + "".join(
            f'<testcase name="{name}" status="{status}" time="1"><system-out>{output}</system-out></testcase>'
            for name, status, output in cases) + "</testsuite>")
        return self.run_script("count_tests.py", f"{self.tree}/junit.xml", f"{self.tree}/results")[1]

    def report(self, name, *cases):
        self.write(f"results/{name}.json", json.dumps({"testsuites": [{"name": "Suite", "testsuite": list(cases)}]}))

    def test_gtest(self):
        self.report("a_test", {"name": "Good", "result": "COMPLETED"}, {"name": "Left", "result": "SKIPPED"},
                    {"name": "Bad", "result": "COMPLETED", "failures": [{}]})
        lines = self.count([("a_test", "fail", "")])
        self.assertEqual(lines[-2:], ["FAILED a_test: Suite.Bad", "1 passed, 1 failed, 1 skipped"])

    def test_crash_after_good_cases(self):
        self.report("a_test", {"name": "Good", "result": "COMPLETED"})
        self.assertEqual(self.count([("a_test", "fail", "boom")])[-1], "1 passed, 1 failed")
        self.assertIn("boom", self.count([("a_test", "fail", "boom")]))

    def test_printed_counts(self):
        self.assertEqual(self.count([("oracle", "run", "...\n40 passed, 0 failed\n")])[-1], "40 passed, 0 failed")
        self.assertEqual(self.count([("oracle", "fail", "...\n40 passed, 2 failed\n")])[-1], "40 passed, 2 failed")

    def test_unittest(self):
        output = "FAIL: test_x (m.T)\n\nRan 5 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n"
        self.assertEqual(self.count([("py", "fail", output)])[-1], "3 passed, 2 failed")
        self.assertEqual(self.count([("py", "run", "Ran 5 tests in 0.1s\n\nOK\n")])[-1], "5 passed, 0 failed")

    def test_plain_program(self):
        self.assertEqual(self.count([("x", "run", ""), ("y", "fail", "")])[-1], "1 passed, 1 failed")


if __name__ == "__main__":
    sys.exit(unittest.main())

"""`lockstep plugins`: what it lists, what programs then use, and one line of reason for each plugin that is no good.
usage: plugins_test.py LOCKSTEP DEVICES STUBS"""
import os
import re
import subprocess
import sys
import unittest

STUBS, DEVICES, LOCKSTEP = (os.path.abspath(sys.argv.pop()) for _ in range(3))
CLEARED = ("JAX_PLATFORMS", "PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH", "LOCKSTEP_PLUGIN_PATH", "VIRTUAL_ENV",
           "CONDA_PREFIX", "PYTHONPATH", "LOCKSTEP_CPU_PLUGIN")


def run(*command, **environment):
    env = {k: v for k, v in os.environ.items() if k not in CLEARED}
    return subprocess.run(command, env={**env, **environment}, capture_output=True, text=True, timeout=120)


def stubs(*kinds, **environment):
    names = ",".join(f"{kind}:{STUBS}/stub_{kind}.so" for kind in kinds)
    return {"PJRT_NAMES_AND_LIBRARY_PATHS": names, **environment}


OLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.deps/test-plugins/api-0.81/xla_cpu_pjrt.so")


class Plugins(unittest.TestCase):
    def listed(self, status=0, **environment):
        """The entries by platform."""
        done = run(LOCKSTEP, "plugins", **environment)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        entries = re.split(r"^(?=\S)", done.stdout, flags=re.M)[1:]
        return {e.split()[0]: e for e in entries}

    def test_the_cpu_plugin(self):
        cpu = self.listed(JAX_NUM_CPU_DEVICES="3")["cpu"]
        self.assertRegex(cpu, r"cpu \(used\)\n")
        for line in (r"path +/\S+pjrt_c_api_cpu_plugin\.so", r"found by +with the library", r"API version +0\.\d+",
                     r"extensions +.*FFI", r"devices +3: ", r"attributes +.*stablehlo_current_version 1\."):
            self.assertRegex(cpu, rf"(?m)^  {line}")

    def test_one_line_of_reason_for_each(self):
        reasons = {
            "throws_at_load": "GetPjrtApi: the plugin threw an exception: no license",
            "throws": "PJRT_Client_Create: the plugin threw an exception: no driver; of this kind",
            "crashes": "it crashed the process: Segmentation fault",
            "lacks": "PJRT_Client_Devices: the plugin does not have this function: its PJRT C API is 0.81 with a table of",
            "errors": "PJRT_Client_Create: no device of this kind; is the driver loaded?",
            "no_devices": "it has no device that this process can use",
        }
        entries = self.listed(**stubs(*reasons, "newer", "missing"))
        for kind, reason in reasons.items():
            self.assertTrue(entries[kind].startswith(f"{kind} (rejected)\n"), entries[kind])
            self.assertIn(f"\n  reason       {reason}", entries[kind])
            self.assertEqual(len(entries[kind].splitlines()), 4, entries[kind])
        self.assertIn(f"reason       no such file: {STUBS}/stub_missing.so", entries["missing"])
        self.assertTrue(entries["newer"].startswith("newer (used)\n"), entries["newer"])
        self.assertRegex(entries["newer"], r"API version +0\.999\n[^#]*extensions +997\n +devices +2: STUB_0 \(stub device\)")
        self.assertTrue(entries["cpu"].startswith("cpu\n"), entries["cpu"])

    def test_jax_platforms_decides(self):
        entries = self.listed(JAX_PLATFORMS="cpu", **stubs("newer"))
        self.assertTrue(entries["cpu"].startswith("cpu (used)"))
        entries = self.listed(status=1, JAX_PLATFORMS="errors,cpu", **stubs("errors"))
        self.assertIn("no plugin can be used with JAX_PLATFORMS=errors,cpu", " ".join(entries.values()))
        self.listed(status=1, JAX_PLATFORMS="tpu")

    # What a program does: DEVICES prints the default backend and its devices.

    def test_programs_use_what_works_and_warn_of_the_rest(self):
        done = run(DEVICES, **stubs("errors", "newer"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "stub: StubDevice(id=0) StubDevice(id=1)\n")
        self.assertRegex(done.stderr, r"passed over:\n +/\S+stub_errors.so \(PJRT_NAMES_AND_LIBRARY_PATHS\): "
                                      r"PJRT_Client_Create: no device of this kind; is the driver loaded\?\n")
        done = run(DEVICES, **stubs("throws", "lacks", "throws_at_load", "no_devices"))
        self.assertEqual((done.returncode, done.stdout), (0, "cpu: CpuDevice(id=0)\n"), done.stderr)
        for kind in ("throws", "lacks", "throws_at_load", "no_devices"):
            self.assertIn(f"stub_{kind}.so", done.stderr)

    def test_a_named_platform_is_used_or_refused(self):
        done = run(DEVICES, JAX_PLATFORMS="errors,cpu", **stubs("errors"))
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"JAX_PLATFORMS=errors,cpu, but the platform 'errors' cannot be used:\n  /\S+errors.so")
        done = run(DEVICES, JAX_PLATFORMS="cuda")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"names the platform 'cuda', for which no plugin was found. There are:\n  cpu: /\S+")
        done = run(DEVICES, JAX_PLATFORMS="cpu", **stubs("crashes"))
        self.assertEqual((done.returncode, done.stdout), (0, "cpu: CpuDevice(id=0)\n"), done.stderr)

    # Plugins that span processes by themselves.

    def test_a_plugin_is_told_of_the_gang(self):
        environment = stubs("spans", JAX_PLATFORMS="spans")
        done = run(LOCKSTEP, "run", "-n", "2", "--no-prefix", "--", DEVICES, **environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout, 2 * "stub: StubDevice(id=0) StubDevice(id=1) StubDevice(id=2) StubDevice(id=3)\n")
        done = run(LOCKSTEP, "run", "-n", "2", "--no-prefix", "--linger", "0", "--", DEVICES, "jit", **environment)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the stub was asked to compile mlir for 4 partitions with a mesh and without collectives of lockstep's",
                      done.stderr)

    def test_a_cpu_plugin_that_cannot_span_processes(self):
        """Each process says so, when it compiles."""
        done = run(LOCKSTEP, "run", "-n", "2", "--", DEVICES, "jit", LOCKSTEP_CPU_PLUGIN=OLD)
        self.assertNotEqual(done.returncode, 0)
        for process in (0, 1):
            self.assertRegex(done.stderr, rf"(?m)^\[{process}\] jit: the mesh .* has devices of several processes, which the "
                                          r"CPU plugin \S+ \(PJRT C API 0\.81\) cannot run without an FFI extension")
        done = run(DEVICES, "jit", LOCKSTEP_CPU_PLUGIN=OLD, JAX_NUM_CPU_DEVICES="4")  # within one it can
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_no_process_falls_back_alone(self):
        done = run(LOCKSTEP, "run", "-n", "2", "--linger", "0", "--", DEVICES, **stubs("errors"))
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"the platform 'errors' cannot be used, and none is passed over in a gang")
        done = run(LOCKSTEP, "run", "-n", "2", "--linger", "0", "--", DEVICES, LOCKSTEP_CPU_PLUGIN="/nowhere")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"no plugin can be used:\n.*/nowhere")  # and nothing to do without


if __name__ == "__main__":
    unittest.main()

"""JAX's programs over real processes: every case of make_cases.py on 2 processes with 2 devices, 4 with 1 and 1 with 4;
then a process that is killed and one that is stopped while they run.

usage: gang_test.py GANG_CASE ORACLE_PYTHON DIRECTORY

The same by the way that needs no XlaTransform hook, with the library's plugin, and with one that has none.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

DIRECTORY = sys.argv.pop()
PYTHON = sys.argv.pop()
PROGRAM = sys.argv.pop()
HERE = os.path.dirname(os.path.abspath(__file__))
MAKE_CASES = os.path.join(HERE, "make_cases.py")
WITHOUT_HOOK = os.path.join(HERE, "../../.deps/test-plugins/api-0.106/libpjrt_cpu.so")
# One of each kind.
SOME = """sum_float32 product_int8 max_min_uint64 any_all bits_and bits_or bits_xor custom_reduction gather_axis1_tiled
scatter_axis1 move_bfloat16 all_to_all_01 permute_partial broadcast ragged scan while_condition cond_that_differs nested
many_at_once mixed partly_manual gradient random train_step donated zero_size uneven_inside""".split()


def make_cases():
    """Once for each version of make_cases.py."""
    made = os.path.join(DIRECTORY, "cases")
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(MAKE_CASES):
        subprocess.run([PYTHON, MAKE_CASES, DIRECTORY], check=True, timeout=1200)
    with open(made) as file:
        return file.read().split()


class Gang:
    def __init__(self, processes, devices, *args, **environment):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.processes = []
        for rank in range(processes):
            env = dict(os.environ, JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port}", JAX_NUM_PROCESSES=str(processes),
                       JAX_PROCESS_ID=str(rank), JAX_NUM_CPU_DEVICES=str(devices), NPROC="2", **environment)
            self.processes.append(subprocess.Popen([PROGRAM, DIRECTORY, *args], env=env, stdout=subprocess.PIPE,
                                                   stderr=subprocess.STDOUT, text=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.processes:
            p.kill()
            p.wait()
            p.stdout.close()

    def wait(self, rank, timeout):
        """Status and output."""
        p = self.processes[rank]
        out, _ = p.communicate(timeout=timeout)
        return p.returncode, out


class GangTest(unittest.TestCase):
    def run_all(self, processes, devices, chosen=(), **environment):
        names = make_cases()
        if chosen:
            self.assertLessEqual(set(chosen), set(names))
            names = chosen
        with Gang(processes, devices, *chosen, **environment) as gang:
            for rank in range(processes):
                status, out = gang.wait(rank, 900)
                passed = re.findall(r"^ok (\w+): (\w+)$", out, re.M)
                self.assertEqual(status, 0, f"process {rank}:\n{out}")
                self.assertEqual([name for name, _ in passed], names, f"process {rank}:\n{out}")
            same = sum(verdict == "same" for _, verdict in passed)
            print(f"{processes} x {devices}: {len(passed)} programs, {same} of them bit for bit as JAX", flush=True)

    def test_two_processes_of_two_devices(self):
        self.run_all(2, 2)

    def test_four_processes_of_one_device(self):
        self.run_all(4, 1)

    def test_one_process_of_four_devices(self):
        self.run_all(1, 4)

    def test_without_the_hook(self):
        self.run_all(2, 2, LOCKSTEP_PARTITION_ROUTE="whole_compile")

    def test_over_the_network(self):
        """Without the memory that processes of one host share."""
        self.run_all(2, 2, SOME, LOCKSTEP_SHARED_MEMORY="0")
        self.run_all(2, 2, SOME, LOCKSTEP_SHARED_MEMORY="0", LOCKSTEP_TRANSPORT="grpc")

    def test_a_plugin_that_has_none(self):
        self.run_all(2, 2, SOME, LOCKSTEP_CPU_PLUGIN=WITHOUT_HOOK)

    def disturb(self, number, **environment):
        """Sends a signal to process 1 of 2 in the middle of many launches; what process 0 says, and after what time."""
        make_cases()
        with Gang(2, 2, "--launches", "1000000", "train_step", **environment) as gang:
            time.sleep(5)
            for p in gang.processes:
                self.assertIsNone(p.poll(), "it should still run")
            gang.processes[1].send_signal(number)
            start = time.monotonic()
            status, out = gang.wait(0, 60)
            self.assertNotEqual(status, 0, out)
            return out, time.monotonic() - start

    def test_a_killed_process_ends_the_gang(self):
        out, seconds = self.disturb(signal.SIGKILL)
        self.assertRegex(out, r"process 1")
        self.assertLess(seconds, 15)

    def test_a_stopped_process_is_found_by_the_deadline(self):
        out, _ = self.disturb(signal.SIGSTOP, LOCKSTEP_COLLECTIVE_TIMEOUT="4")
        self.assertRegex(out, r"partitions? [\d, ]+ of process 1 \(127\.0\.0\.1:\d+\)|data from process 1")


if __name__ == "__main__":
    unittest.main()

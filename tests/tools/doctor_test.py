"""`lockstep doctor` on hosts that are network namespaces, with what can be wrong with hosts; without root on this machine
alone. usage: doctor_test.py LOCKSTEP CLOCK_SHIFT_LIBRARY"""
import os
import re
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hosts

LOCKSTEP, CLOCK_SHIFT = sys.argv[1:3]


def doctor(*words, **environment):
    done = subprocess.run([LOCKSTEP, "doctor", *words], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout, done.stderr


class Here(unittest.TestCase):
    def test_three_processes(self):
        status, out, err = doctor("-n", "3")
        self.assertEqual(status, 0, out + err)
        self.assertRegex(out, r"process +host +address +pid +cores +clock\n0 .*127\.0\.0\.1.*\n1 ")
        for pair in ("0 - 1", "0 - 2", "1 - 2"):
            self.assertRegex(out, rf"{pair} +\d+ us +[\d.]+ .B/s +[\d.]+ .B/s")
        self.assertIn("nothing is wrong", out)

    def test_alone_there_is_nothing_to_examine(self):
        status, out, _ = doctor()
        self.assertEqual(status, 2)
        self.assertIn("--hosts", out)

    def test_who_does_not_come_is_named(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        status, _, err = doctor("--timeout", "1", JAX_COORDINATOR_ADDRESS=f"127.0.0.1:{port}", JAX_NUM_PROCESSES="3",
                                JAX_PROCESS_ID="0")
        self.assertEqual(status, 1)
        self.assertIn("missing: 1, 2", err)


@unittest.skipUnless(hosts.available(), "no root, or no network namespaces")
class Elsewhere(unittest.TestCase):
    def setUp(self):
        self.hosts = hosts.Hosts(4)
        self.addCleanup(self.hosts.close)

    def doctor(self, *words):
        return doctor("--hosts", ",".join(self.hosts.addresses), "--ssh", self.hosts.ssh, *words)

    def test_healthy(self):
        status, out, err = self.doctor()
        self.assertEqual(status, 0, out + err)
        for i, address in enumerate(self.hosts.addresses):
            self.assertRegex(out, rf"(?m)^{i} .* {re.escape(address)} ")

    def test_a_slow_link_a_wrong_clock_and_a_firewall(self):
        self.hosts.run(1, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "40mbit", "burst", "32kb", "latency",
                       "50ms")
        self.hosts.set_environment(2, LD_PRELOAD=CLOCK_SHIFT, CLOCK_SHIFT="-7")
        self.hosts.run(3, "ip", "route", "add", "blackhole", self.hosts.addresses[2])
        status, out, err = self.doctor("--timeout", "3")
        self.assertEqual(status, 1, out + err)
        self.assertRegex(out, r"from process 1 \(.*\) to process 3 \(.*\): [1-9] MB/s, where [\d.]+ .B/s is usual here")
        self.assertNotRegex(out, r"from process 3 \(.*\) to process 1 ")
        self.assertRegex(out, r"the clock of process 2 \(.*\) is 7\.0 s behind process 0's")
        self.assertRegex(out, r"process 2 \(.*\) and process 3 \(.*\): no connection to 10\.77\.0\.4:\d+: no answer")

    def test_a_host_that_is_cut_off(self):
        self.hosts.cut(2)
        status, out, err = self.doctor("--timeout", "2")
        self.assertNotEqual(status, 0)
        self.assertIn("missing: 2", err)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)

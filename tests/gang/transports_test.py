"""Gangs over every transport, with and without TLS. usage: transports_test.py LOCKSTEP PROMISES"""
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import ranks

LOCKSTEP, PROGRAM = sys.argv[1:3]
OFF = {"LOCKSTEP_SHARED_MEMORY": "0"}
GRPC = {"LOCKSTEP_TRANSPORT": "grpc"}
IN_CLEAR_TEXT = "data crosses the network in clear text, though TLS is set"


def openssl(*words):
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class Authority:
    """A CA, and a certificate of it for all processes."""

    def __init__(self, directory, name):
        path = lambda file: os.path.join(directory, f"{name}-{file}")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        openssl("req", "-x509", *curve, "-days", "2", "-subj", f"/CN={name}", "-keyout", path("ca.key"), "-out", path("ca.pem"))
        openssl("req", *curve, "-subj", "/CN=process", "-keyout", path("key"), "-out", path("csr"))
        with open(path("ext"), "w") as file:
            file.write("subjectAltName=DNS:lockstep")
        openssl("x509", "-req", "-in", path("csr"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial",
                "-days", "2", "-extfile", path("ext"), "-out", path("pem"))
        self.settings = {"LOCKSTEP_TLS_CERT": path("pem"), "LOCKSTEP_TLS_KEY": path("key"), "LOCKSTEP_TLS_CA": path("ca.pem")}


class Transports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tls = Authority(cls.directory.name, "gang").settings
        cls.others = Authority(cls.directory.name, "others").settings

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def setUp(self):
        self.port = ranks.free_port()

    def start(self, rank, steps, settings, count=2, **more):
        environment = ranks.environment(rank, count, f"127.0.0.1:{self.port}", JAX_NUM_CPU_DEVICES="1", PJRT_NPROC="1", **settings)
        process = subprocess.Popen([PROGRAM, "train", str(steps)], env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, **more)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def end_of(self, process, status=0):
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, out)
        return out

    def training(self, process):
        """Waits until it trains; what it has said so far."""
        said = ""
        for line in process.stdout:
            said += line
            if "training" in line:
                return said
        self.fail(said)

    def shares_memory(self, process):
        with open(f"/proc/{process.pid}/maps") as file:
            return "memfd:lockstep" in file.read()

    def test_every_way_carries_and_ends_with_its_peer(self):
        ways = (({}, True), (OFF, False), (GRPC, True), ({**GRPC, **OFF}, False), (self.tls, True), ({**self.tls, **OFF}, False),
                ({**self.tls, "LOCKSTEP_TRANSPORT": "gloo"}, True))
        before = set(os.listdir("/dev/shm"))
        for settings, shared in ways:
            with self.subTest(settings=settings):
                self.port = ranks.free_port()
                both = [self.start(rank, 1000000, settings) for rank in range(2)]
                said = [self.training(process) for process in both]
                self.assertEqual(IN_CLEAR_TEXT in said[0], "LOCKSTEP_TLS_CA" in settings and "LOCKSTEP_TRANSPORT" in settings, said)
                for process in both:
                    self.assertEqual(self.shares_memory(process), shared)
                both[1].send_signal(signal.SIGKILL)
                start = time.monotonic()
                self.assertRegex(self.end_of(both[0], 81), r"process 1 \(.*died")
                self.assertLess(time.monotonic() - start, 8)
        self.assertEqual({f for f in set(os.listdir("/dev/shm")) - before if "lockstep" in f}, set())

    def test_all_is_well_and_ends_well(self):
        for settings in ({}, {**GRPC, **OFF}, {**self.tls, **OFF}):
            with self.subTest(settings=settings):
                self.port = ranks.free_port()
                for process in [self.start(rank, 20, settings, count=3) for rank in range(3)]:
                    self.assertIn("done", self.end_of(process))

    def test_one_that_has_no_memory_to_share(self):
        few = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        both = [self.start(0, 20, {}), self.start(1, 20, {}, preexec_fn=few)]
        out = [self.end_of(process) for process in both]
        self.assertRegex(out[1], r"bytes to share with the 1 other processes of this host can't be had \(.*ulimit -f")

    def test_different_transports_are_refused(self):
        both = [self.start(0, 20, {}), self.start(1, 20, GRPC)]
        for process in both:
            self.assertRegex(self.end_of(process, 4), r"LOCKSTEP_TRANSPORT")

    def test_an_unknown_transport(self):
        out = self.end_of(self.start(0, 20, {"LOCKSTEP_TRANSPORT": "pigeons"}), 4)
        self.assertIn('there is no transport "pigeons"; use gloo or grpc', out)

    def test_the_interface_is_chosen(self):
        both = [self.start(rank, 20, {"LOCKSTEP_INTERFACE": "lo"}) for rank in range(2)]
        for process in both:
            self.assertIn("done", self.end_of(process))
        self.port = ranks.free_port()
        nowhere = [self.start(rank, 20, {"LOCKSTEP_INTERFACE": "a" * 70}) for rank in range(2)]
        for process in nowhere:
            out, _ = process.communicate(timeout=60)
            self.assertRegex(out, "cannot listen on a{70}, which is neither an interface nor an address")

    def test_who_has_another_certificate_is_told_and_kept_out(self):
        first = self.start(0, 20, self.tls)
        for settings, said in ((self.others, "its certificate is issued by"), ({}, "it demands TLS")):
            start = time.monotonic()
            self.assertIn(said, self.end_of(self.start(1, 20, settings), 4))
            self.assertLess(time.monotonic() - start, 20)
        self.assertIn("done", self.end_of(self.start(1, 20, self.tls)))
        self.assertIn("done", self.end_of(first))

    def test_the_launcher_hands_it_on(self):
        done = subprocess.run([LOCKSTEP, "run", "-n", "2", "--", PROGRAM, "train", "5"], env={**os.environ, **self.tls, **OFF},
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("done"), 2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)

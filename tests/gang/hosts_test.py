"""Gangs over several hosts, which are network namespaces: the same result as one process
has, also if the network between them is slow, far or loses packets; and go on without a host that is lost.
usage: hosts_test.py LOCKSTEP LEAVES_EARLY RANK"""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import hosts
import ranks

LOCKSTEP, PROGRAM, RANK = sys.argv[1:4]


def loss_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return float(re.search(r"loss ([0-9.]+)", done.stdout)[1])


@unittest.skipUnless(hosts.available(), "no root, or no network namespaces")
class Hosts(unittest.TestCase):
    def test_collectives_between_hosts(self):
        """The processes are no one host's: what one of them listens on has to be reachable from the others."""
        gang = hosts.Hosts(4)
        self.addCleanup(gang.close)
        alone = loss_of(PROGRAM)
        for count in (2, 4):
            names = ",".join(gang.addresses[:count])
            self.assertAlmostEqual(loss_of(LOCKSTEP, "run", "--hosts", names, "--ssh", gang.ssh, "--", PROGRAM), alone, delta=1e-5)

    def test_the_coordinator_is_on_the_host_that_has_one_of_its_addresses(self):
        gang = hosts.Hosts(3)
        self.addCleanup(gang.close)
        gang.cut(0)  # nobody is there, nothing answers
        addresses = ",".join(f"{a}:51234" for a in gang.addresses)
        processes = [subprocess.Popen(["ip", "netns", "exec", gang.names[host], RANK, "barrier"], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      env=ranks.environment(rank, 2, addresses, LOCKSTEP_TOKEN="hosts"))
                     for rank, host in enumerate((1, 2))]
        for process in processes:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        for rank, process in enumerate(processes):
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
            self.assertIn(f"joined {rank} of 2", out)
            self.assertIn("passed", out)

    def test_a_gang_goes_on_without_the_host_of_process_0(self):
        gang = hosts.Hosts(3)
        self.addCleanup(gang.close)
        script = f"[ $LOCKSTEP_RESTART = 0 ] && exec env TEST_HEARTBEAT_MS=2000 {RANK} sleep; exec {PROGRAM}"
        with tempfile.TemporaryFile("w+") as output:
            run = subprocess.Popen(
                [LOCKSTEP, "run", "-n", "4", "--hosts", ",".join(gang.addresses), "--ssh", gang.ssh, "--restarts", "1", "--linger",
                 "1", "--grace", "0.5", "--", "/bin/sh", "-c", script], stdout=output, stderr=subprocess.STDOUT)
            self.addCleanup(run.wait)
            self.addCleanup(run.kill)

            def text():
                output.seek(0)
                return output.read()

            deadline = time.monotonic() + 60
            while text().count("joined") < 4:
                self.assertLess(time.monotonic(), deadline, text())
                time.sleep(0.05)
            gang.lose(0)
            self.assertEqual(run.wait(120), 0, text())
            self.assertIn("10.77.0.1 can't be reached any more: no route to 10.77.0.1", text())
            self.assertIn("4 processes as before: 2 on 10.77.0.2, 2 on 10.77.0.3", text())
            self.assertIn("process 0 and the coordinator move to 10.77.0.2", text())
            self.assertAlmostEqual(float(re.search(r"loss ([0-9.]+)", text())[1]), loss_of(PROGRAM), delta=1e-5)


    def same_as_alone(self, gang, *options):
        names = ",".join(gang.addresses)
        loss = loss_of(LOCKSTEP, "run", "--hosts", names, "--ssh", gang.ssh, *options, "--", PROGRAM)
        self.assertAlmostEqual(loss, loss_of(PROGRAM), delta=1e-5)

    def test_a_narrow_network(self):
        gang = hosts.Hosts(2)
        self.addCleanup(gang.close)
        gang.run(1, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "2mbit", "burst", "16kb", "latency", "200ms")
        self.same_as_alone(gang)

    @unittest.skipUnless(os.path.exists("/dev/net/tun"), "no TUN devices")
    def test_a_far_network_that_loses_packets(self):
        gang = hosts.Hosts(2)
        self.addCleanup(gang.close)
        gang.spoil(delay=10, loss=2)
        self.same_as_alone(gang)
        carried, lost = gang.carried_and_lost()
        self.assertGreater(carried, 200)
        self.assertGreater(lost, 0)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)

"""Gangs over several hosts, which are network namespaces: the same result as one process
has, also if the network between them is slow, far or loses packets. usage: hosts_test.py LOCKSTEP LEAVES_EARLY"""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import hosts

LOCKSTEP, PROGRAM = sys.argv[1:3]


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
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)

"""mpirun over several hosts, which are network namespaces: by examples/cluster/mpirun.sh, and of an MPI program.
usage: mpi_hosts_test.py MPIRUN FILE LEAVES_EARLY MPI_PI RANK"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import hosts

MPIRUN, FILE, PROGRAM, PI, RANK = sys.argv[1:6]
TWO_ON_EACH = ["-n", "4", "-H", "node1:2,node2:2"]


@unittest.skipUnless(hosts.available(), "no root, or no network namespaces")
class MpiHosts(unittest.TestCase):
    def setUp(self):
        self.hosts = hosts.Hosts(3)
        self.addCleanup(self.hosts.close)
        self.folder = tempfile.mkdtemp(dir=self.hosts.folder)
        self.ssh = os.path.join(self.folder, "ssh")
        with open(self.ssh, "w") as file:  # nothing of the environment reaches the other host by itself
            file.write(f"#!/bin/sh\nexec env -i PATH=\"$PATH\" HOME=\"$HOME\" TMPDIR=\"$TMPDIR\" {self.hosts.ssh} \"$@\"\n")
        os.chmod(self.ssh, 0o755)

    def mpirun(self, host, *words, program=MPIRUN, **environment):
        """What one gets that is started on that host."""
        given = {**os.environ, "PATH": os.path.dirname(MPIRUN) + ":" + os.environ["PATH"], "PJRT_NPROC": "1",
                 "JAX_NUM_CPU_DEVICES": "1", "TMPDIR": self.folder, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                 "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm_rsh_agent": self.ssh,
                 "OMPI_MCA_hwloc_base_binding_policy": "none", **environment}
        return subprocess.run([*self.hosts.enter(host), program, *words], capture_output=True, text=True, timeout=60, env=given)

    def check(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def test_training(self):
        """Settings hold on both hosts, and data goes between them."""
        out, err = self.check(self.mpirun(0, *TWO_ON_EACH, PROGRAM, program=FILE, JAX_NUM_CPU_DEVICES="2", LOCKSTEP_TRANSPORT="grpc",
                                          XLA_FLAGS="--xla_cpu_max_isa=AVX2"))
        alone = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=60, check=True).stdout
        losses = [float(re.search(r"loss ([0-9.]+)", said)[1]) for said in (alone, out)]
        self.assertAlmostEqual(*losses, delta=1e-5)
        self.assertEqual(len(re.findall(r"coordinator 10\.77\.0\.1:.*, 2 local devices", err)), 4, err)
        self.assertNotIn("without a token", err)

    def test_an_address_that_the_others_do_not_reach(self):
        """mpirun's host is in a network of its own too, whose address it tells first."""
        node1 = self.hosts.names[0]
        self.hosts.ip("-n", node1, "link", "delete", "eth0")
        self.hosts.ip("-n", node1, "link", "add", "own", "type", "bridge")
        self.hosts.ip("-n", node1, "addr", "add", "10.66.0.1/24", "dev", "own")
        self.hosts.ip("-n", node1, "link", "set", "own", "up")
        self.hosts.plug(0)
        out, err = self.check(self.mpirun(0, *TWO_ON_EACH, RANK, "barrier", program=FILE))
        self.assertEqual(out.count("passed"), 4)
        self.assertEqual(len(re.findall(r"process [123] of 4, coordinator 10\.66\.0\.1:\d+,10\.77\.0\.1:", err)), 3, err)

    def test_mpirun_on_another_host(self):
        done = self.mpirun(2, *TWO_ON_EACH, RANK, "barrier", program=FILE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("process 0, which runs the coordinator, has to run on the host on which mpirun was started", done.stdout)
        self.assertIn("Start mpirun on this machine (node1)", done.stdout)
        out, _ = self.check(self.mpirun(2, *TWO_ON_EACH, RANK, "barrier", program=FILE, JAX_COORDINATOR_ADDRESS="node1:5678"))
        self.assertEqual(out.count("passed"), 4)

    def test_an_mpi_program(self):
        """Which may be started anywhere: rank 0 tells its own addresses."""
        out, _ = self.check(self.mpirun(2, *TWO_ON_EACH, PI))
        self.assertRegex(out, r"pi is about 3\.14159, by 4 processes with 4 devices; all agree")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)

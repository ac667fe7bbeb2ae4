"""lockstep as a guest of MPI programs, started by the real mpirun. usage: mpi_test.py MPIRUN MPI_GUEST MPI_PI LIBLOCKSTEP"""
import os
import re
import subprocess
import sys
import unittest

MPIRUN, GUEST, PI, LIBRARY = sys.argv[1:5]


def mpirun(count, *words, **environment):
    """stdout and stderr of a run that has to end well."""
    command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader", "--mca",
               "btl_vader_single_copy_mechanism", "none", "-n", str(count), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          env={**os.environ, "JAX_NUM_CPU_DEVICES": "1", "PJRT_NPROC": "1", **environment})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout, done.stderr


class Guest(unittest.TestCase):
    def check(self, case, count, **environment):
        out, _ = mpirun(count, GUEST, case, **environment)
        self.assertEqual(sorted(re.findall(r"ok (\d+)", out)), [str(r) for r in range(count)], out)

    def test_whole_communicator(self):
        self.check("whole", 2)
        self.check("whole", 4, JAX_NUM_CPU_DEVICES="2")

    def test_two_gangs_side_by_side(self):
        self.check("split", 2)  # of one process each
        self.check("split", 4)

    def test_a_part_of_the_ranks(self):
        self.check("part", 3)

    def test_one_gang_after_another(self):
        self.check("twice", 2)
        self.check("twice", 4)

    def test_an_error_on_one_rank_is_an_error_on_all(self):
        self.check("busy", 4)
        self.check("nowhere", 2)

    def test_what_a_guest_must_not_do_can_be_seen(self):
        self.check("owner", 2)

    def test_the_environment_of_another_launcher_does_not_matter(self):
        self.check("whole", 2, JAX_COORDINATOR_ADDRESS="10.255.255.1:1", JAX_NUM_PROCESSES="7", JAX_PROCESS_ID="3",
                   LOCKSTEP_TOKEN="another")

    def test_the_library_does_not_know_mpi(self):
        symbols = subprocess.run(["nm", "-D", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertIn("lockstep", symbols)
        self.assertIsNone(re.search(r"\bP?MPI_\w+", symbols))
        linked = subprocess.run(["ldd", LIBRARY], check=True, capture_output=True, text=True).stdout
        self.assertNotIn("libmpi", linked)

    def test_the_example(self):
        for count in (1, 4):
            out, _ = mpirun(count, PI)
            self.assertRegex(out, rf"pi is about 3\.14159, by {count} processes with {count} devices; all agree")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)

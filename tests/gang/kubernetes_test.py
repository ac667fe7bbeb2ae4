"""examples/cluster/kubernetes.yaml, with another image, command and resources: its pods become a gang that ends as is
promised. usage: kubernetes_test.py FILE LEAVES_EARLY PREEMPTED RANK"""
import os
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import hosts
import pods

FILE, PROGRAM, PREEMPTED, RANK = sys.argv[1:5]


class TheFile(unittest.TestCase):
    def test_its_parts_agree(self):
        m = pods.Manifest(FILE)
        self.assertEqual(m.job["parallelism"], m.job["completions"])
        self.assertEqual(m.job["backoffLimit"], 0)
        self.assertEqual(m.pod["restartPolicy"], "Never")
        self.assertTrue(m.service["publishNotReadyAddresses"])
        found = m.environment(3)
        self.assertEqual(int(found["JAX_NUM_PROCESSES"]), m.count)
        self.assertEqual(found["JAX_COORDINATOR_ADDRESS"].partition(":")[0] + "." + pods.DOMAIN, m.dns_name(0))
        self.assertEqual(found["PJRT_NPROC"], m.container["resources"]["limits"]["cpu"])


@unittest.skipUnless(hosts.available(), "no root, or no network namespaces")
class Gang(unittest.TestCase):
    def setUp(self):
        manifest = pods.Manifest(FILE)
        manifest.secrets["train-token"]["token"] = os.urandom(16).hex()  # as its comment says
        self.pods = pods.Pods(manifest)
        self.addCleanup(self.pods.close)

    def all_text(self):
        return "\n".join(f"--- {i}\n{self.pods.text(i)}" for i in self.pods.pods)

    def wait_for(self, index, what, timeout=60):
        deadline = time.monotonic() + timeout
        while not re.search(what, self.pods.text(index)):
            self.assertLess(time.monotonic(), deadline, f"no {what!r} from pod {index}:\n{self.all_text()}")
            time.sleep(0.02)

    def test_training(self):
        """The pods start in any order: others look for pod 0 before its name is there."""
        for index in (3, 1, 2):
            self.pods.start(index, [PROGRAM])
        self.wait_for(1, "waiting for the coordinator .* at train-0.train:55527 .*can't be resolved")
        self.pods.start(0, [PROGRAM])
        self.assertEqual(self.pods.statuses(60), {i: 0 for i in range(4)}, self.all_text())
        alone = subprocess.run([PROGRAM], capture_output=True, text=True, timeout=60, check=True).stdout
        losses = [float(re.search(r"loss ([0-9.]+)", said)[1]) for said in (alone, self.pods.text(0))]
        self.assertAlmostEqual(*losses, delta=1e-5)
        for index in range(4):
            self.assertIn(f"process {index} of 4, coordinator train-0.train:55527 (environment, then Kubernetes: "
                          f"JOB_COMPLETION_INDEX={index})", self.pods.text(index))
            self.assertNotIn("without a token", self.pods.text(index))

    def test_deleted_pods_save_at_one_step(self):
        """A node is drained; the job then ends the other pods too."""
        self.pods.start_all([PREEMPTED])
        for index in range(4):
            self.wait_for(index, "step 20")
        self.assertEqual(self.pods.delete([2, 0, 1, 3]), [], self.all_text())
        self.assertEqual(self.pods.statuses(60), {i: 0 for i in range(4)}, self.all_text())
        saved = re.findall(r"saved at (\d+)", self.all_text())
        self.assertEqual(len(saved), 4, self.all_text())
        self.assertEqual(len(set(saved)), 1, self.all_text())

    def test_a_deleted_pod_that_does_not_save_ends_at_once(self):
        self.pods.start_all([RANK, "sleep"])
        for index in range(4):
            self.wait_for(index, "joined")
        begin = time.monotonic()
        self.assertEqual(self.pods.delete([1]), [], self.all_text())
        self.assertEqual(self.pods.statuses(60), {0: 81, 1: 143, 2: 81, 3: 81}, self.all_text())
        self.assertLess(time.monotonic() - begin, 15, self.all_text())

    def test_a_pod_that_is_killed_ends_the_others(self):
        for victim, status in ((2, 81), (0, 84)):
            with self.subTest(victim=victim):
                self.pods.start_all([RANK, "sleep"])
                for index in range(4):
                    self.wait_for(index, "joined")
                begin = time.monotonic()
                self.pods.signal(victim, signal.SIGKILL)
                self.assertEqual(self.pods.statuses(60), {i: 137 if i == victim else status for i in range(4)}, self.all_text())
                self.assertLess(time.monotonic() - begin, 15, self.all_text())
                self.assertRegex(self.pods.text(3), rf"process {victim} \(train-{victim}, pid \d+\)")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)

"""A Kubernetes manifest of an Indexed Job, a headless service and a secret, and what becomes of it: what the Job
controller, the kubelets and the cluster's DNS make of them is done here with processes in namespaces. Each pod has PIDs,
an address, a host name, /etc/hosts, /etc/resolv.conf and an environment of its own; it sees this machine's files. When a pod
has failed the others are left alone: the Job controller takes a second or two to delete them, which a test should not race
with. What a manifest says that is not done here is refused."""
import os
import signal
import subprocess
import sys
import tempfile
import time

import yaml

import hosts

DOMAIN = "default.svc.cluster.local"
INDEX = "batch.kubernetes.io/job-completion-index"
DONE = {  # of each object, what is done; with what makes no difference for one pod on one machine
    "Service": {"clusterIP", "publishNotReadyAddresses", "selector"},
    "Job": {"completionMode", "completions", "parallelism", "backoffLimit", "template"},
    "pod": {"subdomain", "restartPolicy", "terminationGracePeriodSeconds", "shareProcessNamespace", "containers"},
    "container": {"name", "image", "command", "env", "resources"},
}


def known(what, fields):
    more = set(fields) - DONE[what]
    if more:
        raise ValueError(f"{what}: {sorted(more)} can't be played")
    return fields


class Manifest:
    def __init__(self, file):
        with open(file) as stream:
            self.objects = {document["kind"]: document for document in yaml.safe_load_all(stream)}
        if set(self.objects) != {"Service", "Secret", "Job"}:
            raise ValueError(f"{file}: {sorted(self.objects)}")
        self.service = known("Service", self.objects["Service"]["spec"])
        self.secrets = {self.objects["Secret"]["metadata"]["name"]: self.objects["Secret"]["stringData"]}
        self.job = known("Job", self.objects["Job"]["spec"])
        self.pod = known("pod", self.job["template"]["spec"])
        [self.container] = self.pod["containers"]
        known("container", self.container)
        self.name = self.objects["Job"]["metadata"]["name"]
        self.count = self.job["completions"]
        if self.job["completionMode"] != "Indexed" or self.job["parallelism"] < self.count:
            raise ValueError("the pods have to be numbered, and all run at once")

    def labels(self):
        """Of the pods: the template's, and what the Job controller adds."""
        return {**self.job["template"]["metadata"]["labels"], "job-name": self.name, "batch.kubernetes.io/job-name": self.name}

    def dns_name(self, index):
        """The name that the service gives the pod, or None."""
        service = self.objects["Service"]["metadata"]["name"]
        selected = self.service["selector"].items() <= self.labels().items()
        if self.service["clusterIP"] != "None" or not selected or self.pod.get("subdomain") != service:
            return None
        return f"{self.name}-{index}.{service}.{DOMAIN}"

    def environment(self, index):
        """What a container of the pod starts with, besides what its image says."""
        found = {"PATH": os.environ["PATH"], "HOME": "/root", "HOSTNAME": f"{self.name}-{index}",
                 "KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443", "JOB_COMPLETION_INDEX": str(index)}
        for entry in self.container["env"]:
            if "value" in entry:
                found[entry["name"]] = entry["value"]
                continue
            [(kind, source)] = entry["valueFrom"].items()
            if kind != "secretKeyRef":
                raise ValueError(f"{kind} can't be played")
            found[entry["name"]] = self.secrets[source["name"]][source["key"]]
        if not all(isinstance(value, str) for value in found.values()):
            raise ValueError(f"the API server takes nothing but strings in an environment: {found}")
        return found


class Pods:
    def __init__(self, manifest):
        self.manifest = manifest
        self.pods = {}  # index: its process here, outside the pod
        self.output = {}
        self.hosts = hosts.Hosts(manifest.count, [f"{manifest.name}-{i}" for i in range(manifest.count)])
        self.names = tempfile.NamedTemporaryFile("w")
        self.hosts.ip("-n", self.hosts.switch, "addr", "add", "10.77.0.254/24", "dev", "bridge")
        self.dns = subprocess.Popen(
            ["ip", "netns", "exec", self.hosts.switch, sys.executable,
             os.path.join(os.path.dirname(os.path.abspath(__file__)), "name_server.py"), "10.77.0.254", self.names.name],
            stdout=subprocess.PIPE, text=True)
        if self.dns.stdout.readline() != "ready\n":
            self.close()
            raise RuntimeError("no name server")

    def start(self, index, command, **environment):
        m, address = self.manifest, self.hosts.addresses[index]
        name = m.dns_name(index)
        self.hosts.write(index, "hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
                         f"{address}\t{(name + chr(9)) if name else ''}{m.name}-{index}\n")
        self.hosts.write(index, "resolv.conf", f"search {DOMAIN} svc.cluster.local cluster.local\nnameserver 10.77.0.254\n"
                         "options ndots:5\n")
        if name:
            self.names.write(f"{name} {address}\n")
            self.names.flush()
        # The program is process 1, or a child of the runtime's own.
        init = ["sh", "-c", "\"$@\" & wait $!", "sh"] if m.pod.get("shareProcessNamespace") else []
        if index in self.output:
            self.output[index].close()
        self.output[index] = tempfile.TemporaryFile("w+")
        self.pods[index] = subprocess.Popen(
            [*self.hosts.enter(index), "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--", *init, *command],
            stdin=subprocess.DEVNULL, stdout=self.output[index], stderr=subprocess.STDOUT,
            env={**m.environment(index), **environment})

    def start_all(self, command, **environment):
        for index in range(self.manifest.count):
            self.start(index, command, **environment)

    def text(self, index):
        self.output[index].seek(0)
        return self.output[index].read()

    def signal(self, index, number):
        """To the program, as the container runtime sends it."""
        pid = self.pods[index].pid
        for _ in range(2 if self.manifest.pod.get("shareProcessNamespace") else 1):
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                [pid] = map(int, file.read().split())
        os.kill(pid, number)

    def delete(self, indices):
        """SIGTERM, and SIGKILL after the grace period to those that are still there; which they were."""
        running = [i for i in indices if self.pods[i].poll() is None]
        for i in running:
            self.signal(i, signal.SIGTERM)
        deadline = time.monotonic() + self.manifest.pod.get("terminationGracePeriodSeconds", 30)
        killed = []
        for i in running:
            try:
                self.pods[i].wait(max(0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.signal(i, signal.SIGKILL)
                killed.append(i)
        return killed

    def statuses(self, timeout):
        """The exit statuses of all, as Kubernetes shows them."""
        deadline = time.monotonic() + timeout
        found = {i: p.wait(max(0, deadline - time.monotonic())) for i, p in self.pods.items()}
        return {i: status if status >= 0 else 128 - status for i, status in found.items()}

    def close(self):
        for process in [*self.pods.values(), self.dns]:
            process.kill()  # of a pod `unshare`, with which the pod goes
            process.wait()
        self.dns.stdout.close()
        for output in self.output.values():
            output.close()
        self.names.close()
        self.hosts.close()

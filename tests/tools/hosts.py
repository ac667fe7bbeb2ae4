"""Hosts of a test: network namespaces on one bridge, each with an address, a host name and the others' names in its
/etc/hosts, and an `ssh` that reaches them. Needs root and iproute2."""
import os
import shutil
import stat
import subprocess
import sys
import tempfile


def available():
    """Whether this machine lets the test make namespaces and links between them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"lockstep-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    linked = made and subprocess.run(["ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
                                     capture_output=True).returncode == 0
    bridged = linked and subprocess.run(["ip", "-n", name, "link", "add", "b0", "type", "bridge"],
                                        capture_output=True).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return bridged


class Hosts:
    """hosts.addresses[i], called hosts.called[i] by all of them, is reached by hosts.ssh; hosts.run(i, ...) runs a command
    there, hosts.enter(i) are the words before one."""

    def __init__(self, count, called=None):
        self.link = None
        self.prefix = f"lockstep-{os.getpid()}"
        self.names = [f"{self.prefix}-{i}" for i in range(count)]
        self.addresses = [f"10.77.0.{i + 1}" for i in range(count)]
        self.called = called or [f"node{i + 1}" for i in range(count)]
        self.folder = tempfile.mkdtemp(prefix="lockstep-hosts-")
        self.switch = f"{self.prefix}-switch"
        self.ip("netns", "add", self.switch)
        self.ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.switch, "link", "set", "bridge", "up")
        for i, name in enumerate(self.names):
            self.ip("netns", "add", name)
            self.ip("-n", name, "link", "set", "lo", "up")
            self.plug(i)
            self.write(i, "hosts", "127.0.0.1 localhost\n::1 localhost\n" +
                       "".join(f"{address} {called}\n" for address, called in zip(self.addresses, self.called)))
        self.ssh = os.path.join(self.folder, "ssh")
        with open(self.ssh, "w") as file:
            file.write("#!/bin/sh\n[ \"$1\" = -x ] && shift  # no X11: Open MPI says so\ncase $1 in\n")
            for name, address, called in zip(self.names, self.addresses, self.called):
                file.write(f"{address}|{called}) namespace={name} called={called};;\n")
            # In a session of its own, as behind a real connection.
            file.write("*) echo \"no route to $1\" >&2; exit 255;;\nesac\nshift\n"
                       f"[ -f {self.folder}/$namespace ] && . {self.folder}/$namespace\n"
                       "exec setsid -w ip netns exec $namespace unshare --uts sh -c \"hostname $called; $*\"\n")
        os.chmod(self.ssh, stat.S_IRWXU)

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True, text=True)

    def plug(self, host):
        name, port = self.names[host], f"port{host}"
        self.ip("link", "add", "eth0", "netns", name, "type", "veth", "peer", "name", port, "netns", self.switch)
        self.ip("-n", self.switch, "link", "set", port, "master", "bridge", "up")
        self.ip("-n", name, "addr", "add", f"{self.addresses[host]}/24", "dev", "eth0")
        self.ip("-n", name, "link", "set", "eth0", "up")

    def write(self, host, name, text):
        """/etc/NAME as processes that are started there from now on see it; it has to exist on this machine."""
        folder = f"/etc/netns/{self.names[host]}"  # what `ip netns exec` puts in the place of /etc's files
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)

    def enter(self, host):
        return ["ip", "netns", "exec", self.names[host], "unshare", "--uts", "sh", "-c",
                f"hostname {self.called[host]} && exec \"$@\"", "sh"]

    def run(self, host, *words):
        subprocess.run([*self.enter(host), *words], check=True, capture_output=True, text=True)

    def cut(self, host):
        """Pulls the plug of a host: nothing tells the others, packets are lost."""
        self.ip("-n", self.switch, "link", "set", f"port{host}", "down")

    def mend(self, host):
        self.ip("-n", self.switch, "link", "set", f"port{host}", "up")

    def lose(self, host):
        """Cuts it off, and ssh does not reach it any more either."""
        self.cut(host)
        with open(os.path.join(self.folder, self.names[host]), "w") as file:
            file.write(f"echo 'no route to {self.addresses[host]}' >&2; exit 255\n")

    def spoil(self, delay, loss, seed=0):
        """From now on packets between the hosts take `delay` milliseconds, and `loss` percent of them never arrive."""
        for name in self.names:
            self.ip("-n", name, "link", "delete", "eth0")
        link = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lossy_link.py")
        self.link = subprocess.Popen([sys.executable, link, str(delay), str(loss), str(seed),
                                      *(f"{n}={a}" for n, a in zip(self.names, self.addresses))],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.link.stdout.readline() != "ready\n":
            raise RuntimeError("no link")

    def carried_and_lost(self):
        """Ends the link of spoil(); how many packets it has carried, and how many not."""
        link, self.link = self.link, None
        said, _ = link.communicate()
        return [int(word.rstrip(",")) for word in said.split() if word.rstrip(",").isdigit()]

    def set_environment(self, host, **variables):
        """What processes started there find in their environment besides."""
        with open(os.path.join(self.folder, self.names[host]), "w") as file:
            for name, value in variables.items():
                file.write(f"export {name}='{value}'\n")

    def close(self):
        if self.link:
            self.carried_and_lost()
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
            shutil.rmtree(f"/etc/netns/{name}", ignore_errors=True)
        try:
            os.rmdir("/etc/netns")  # unless another test's are still there
        except OSError:
            pass
        shutil.rmtree(self.folder, ignore_errors=True)

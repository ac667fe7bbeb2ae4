"""What a gang of a test may fill and leave behind: directories of its own for temporary files and /dev/shm, a small disk,
a limit of memory. Needs root; without it only what can be seen from outside is checked."""
import os
import shutil
import subprocess
import tempfile
import time


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


def can_mount():
    return os.geteuid() == 0 and run("unshare", "-m", "true").returncode == 0


class MemoryLimit:
    """A cgroup; the kernel's OOM killer ends a process in it that goes on allocating. None if there can't be any."""

    @staticmethod
    def available():
        try:
            MemoryLimit("lockstep-try").close()
        except OSError:
            return False
        return True

    def __init__(self, name):
        if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            self.root, self.usage, self.limit = "/sys/fs/cgroup", "memory.current", "memory.max"
        else:
            self.root, self.usage, self.limit = "/sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes"
        self.path = os.path.join(self.root, name)
        os.mkdir(self.path)
        if not os.path.exists(os.path.join(self.path, self.limit)):
            os.rmdir(self.path)
            raise OSError("the memory controller is not in this hierarchy")

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(str(value))

    def add(self, pid):
        self.write("cgroup.procs", pid)

    def leave(self, spare):
        """From now on there are `spare` bytes."""
        with open(os.path.join(self.path, self.usage)) as file:
            self.write(self.limit, int(file.read()) + spare)
        if os.path.exists(os.path.join(self.path, "memory.swap.max")):
            self.write("memory.swap.max", 0)

    def kills(self):
        """How many processes the kernel has killed here."""
        for name in ("memory.events", "memory.oom_control"):
            path = os.path.join(self.path, name)
            if os.path.exists(path):
                with open(path) as file:
                    return int(dict(line.split() for line in file)["oom_kill"])
        return 0

    def close(self):
        deadline = time.monotonic() + 5
        while True:  # a process that has been waited for may still be accounted for a moment
            try:
                return os.rmdir(self.path)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


class SmallDisk:
    """A file system of a megabyte."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="lockstep-disk-")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.path], check=True)

    def fill(self):
        with open(os.path.join(self.path, "filler"), "wb", buffering=0) as file:
            try:
                while file.write(b"x" * 4096):
                    pass
            except OSError:
                pass

    def close(self):
        subprocess.run(["umount", "-l", self.path], check=True)
        os.rmdir(self.path)


class Sandbox:
    """`words` before a command, `environment` and `parts["cwd"]` as the present directory give it a TMPDIR, a /dev/shm
    and a present directory that can be looked at afterwards."""

    def __init__(self):
        self.mounts = can_mount()
        self.path = tempfile.mkdtemp(prefix="lockstep-sandbox-")
        self.parts = {name: os.path.join(self.path, name) for name in ("tmp", "shm", "cwd")}
        for part in self.parts.values():
            os.mkdir(part)
            os.chmod(part, 0o1777)
        self.shared_before = set(os.listdir("/dev/shm"))
        self.environment = {"TMPDIR": self.parts["tmp"]}
        self.words = []
        if self.mounts:
            self.words = ["unshare", "-m", "--propagation", "private", "sh", "-c",
                          f"mount --bind {self.parts['shm']} /dev/shm && exec \"$@\"", "sh"]

    def left(self):
        """Files that were made and not taken away."""
        names = [f"{name}/{file}" for name, part in self.parts.items() for file in os.listdir(part)]
        if not self.mounts:
            names += [f"/dev/shm/{file}" for file in set(os.listdir("/dev/shm")) - self.shared_before if "lockstep" in file]
        return names

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)


def in_sessions(leaders):
    """The processes that belong to the sessions of these, which need not live any more."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) in leaders and fields[0] != "Z":
            found.append(int(name))
    return found


def sockets_at(port, namespace=None):
    """TCP sockets with this port at one end that somebody still holds."""
    held = {"01", "02", "03", "08", "0A"}  # established, opening, closed by the other side only, listening
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if namespace:
            text = run("ip", "netns", "exec", namespace, "cat", table).stdout
        else:
            with open(table) as file:
                text = file.read()
        for line in text.splitlines()[1:]:
            _, local, remote, state = line.split()[:4]
            if state in held and f"{port:04X}" in (local.rpartition(":")[2], remote.rpartition(":")[2]):
                found.append(line)
    return found

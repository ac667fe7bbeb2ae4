"""What scripts/setup.sh says when it cannot go on, and that a second run does nothing.

Each test runs a copy of the scripts in a directory of its own, with its own cache, and with stand-ins for system
programs first on PATH. Nothing outside that directory is changed and nothing is fetched: the only index that pip is
ever told of is a closed port of this machine, or a directory.
"""
import os
import shutil
import stat
import subprocess
import tempfile
import time
import unittest
import zipfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def wheel_lines():
    with open(os.path.join(ROOT, "scripts/wheels.txt")) as lines:
        return [line.split() for line in lines if line.strip() and not line.startswith("#")]


class SetupTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="lockstep-setup-test-")
        self.addCleanup(shutil.rmtree, self.directory)
        self.tree = os.path.join(self.directory, "tree")
        self.cache = os.path.join(self.directory, "cache")
        self.tools = os.path.join(self.directory, "tools")
        os.makedirs(self.tools)
        shutil.copytree(os.path.join(ROOT, "scripts"), os.path.join(self.tree, "scripts"))
        self.environment = {
            "PATH": self.tools + ":/usr/bin:/bin",
            "HOME": self.directory,
            "XDG_CACHE_HOME": self.cache,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple",  # the discard port: nobody listens
            "PIP_RETRIES": "1",
        }

    def stand_in(self, name, script):
        path = os.path.join(self.tools, name)
        with open(path, "w") as file:
            file.write("#!/bin/bash\n" + script + "\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def packages_are_installed(self):
        self.stand_in("dpkg-query", 'for p in "${@:4}"; do echo "ii  $p"; done')

    def package_is_missing(self, name):
        self.stand_in("dpkg-query", f'for p in "${{@:4}}"; do [ "$p" = {name} ] || echo "ii  $p"; done')

    def run_setup(self):
        done = subprocess.run([os.path.join(self.tree, "scripts/setup.sh")], env=self.environment, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        return done

    def assert_fails(self, *words):
        done = self.run_setup()
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("setup: error: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.tree, ".deps/stamp")))
        return done

    def test_unsupported_architecture(self):
        self.stand_in("uname", '[ "$1" = -m ] && echo aarch64 || echo Linux')
        self.assert_fails("unsupported architecture: Linux aarch64", "x86_64")

    def test_unsupported_system(self):
        self.stand_in("uname", '[ "$1" = -m ] && echo x86_64 || echo Darwin')
        self.assert_fails("unsupported architecture: Darwin x86_64")

    def test_no_root_for_packages_gives_the_line_to_run(self):
        self.package_is_missing("libgloo-dev")
        self.stand_in("id", "echo 1000")
        self.stand_in("apt-get", 'echo "apt-get was run" >&2; exit 9')
        self.assert_fails("no root for packages", "sudo apt-get install -y --no-install-recommends libgloo-dev")

    def test_packages_without_network(self):
        self.package_is_missing("libgloo-dev")
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", 'echo "E: Failed to fetch: Temporary failure resolving" >&2; exit 100')
        self.assert_fails("no network", "apt-get")

    def test_packages_that_do_not_install(self):
        self.package_is_missing("libgloo-dev")
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", 'echo "E: Unable to locate package libgloo-dev" >&2; exit 100')
        self.assert_fails("apt-get failed: E: Unable to locate package libgloo-dev")

    def test_missing_packages_are_installed_in_one_go(self):
        self.package_is_missing("libgloo-dev")
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", f'echo "$*" >> {self.directory}/apt; exit 0')
        self.assert_fails("no network")  # goes on to the wheels
        with open(os.path.join(self.directory, "apt")) as calls:
            self.assertEqual(calls.read(), "update\ninstall -y --no-install-recommends libgloo-dev\n")

    def test_missing_tool(self):
        self.packages_are_installed()
        programs = "bash dirname cat cut uname mkdir flock awk grep dpkg-query sha256sum g++ cmake protoc python3 unzip"
        for program in programs.split():
            if not os.path.exists(os.path.join(self.tools, program)):
                os.symlink(shutil.which(program, path="/usr/bin:/bin"), os.path.join(self.tools, program))
        self.stand_in("env", 'exec /usr/bin/env "$@"')
        self.environment["PATH"] = self.tools
        self.assert_fails("missing tool: ninja")

    def test_missing_dpkg(self):
        for program in "bash dirname cat uname mkdir flock".split():
            os.symlink(shutil.which(program, path="/usr/bin:/bin"), os.path.join(self.tools, program))
        self.environment["PATH"] = self.tools
        self.assert_fails("missing tool: dpkg-query", "Debian")

    def test_no_network(self):
        self.packages_are_installed()
        self.assert_fails("no network", wheel_lines()[0][0])

    def test_bad_checksum(self):
        self.packages_are_installed()
        name, version, expected, file = wheel_lines()[0]
        wheels = os.path.join(self.directory, "wheels")
        os.makedirs(wheels)
        info = f"{name.replace('-', '_')}-{version}.dist-info"
        with zipfile.ZipFile(os.path.join(wheels, file), "w") as wheel:
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
        self.environment.update(PIP_NO_INDEX="1", PIP_FIND_LINKS=wheels)
        self.assert_fails("bad checksum", file, expected)
        self.assertFalse(os.path.exists(os.path.join(self.cache, "lockstep", file)))

    def test_damaged_cache_is_fetched_again(self):
        self.packages_are_installed()
        name, _, _, file = wheel_lines()[0]
        os.makedirs(os.path.join(self.cache, "lockstep"))
        with open(os.path.join(self.cache, "lockstep", file), "w") as damaged:
            damaged.write("half a wheel")
        self.assert_fails("no network", name)

    def test_cache_that_cannot_be_written(self):
        self.environment["XDG_CACHE_HOME"] = "/proc/nothing"
        self.assert_fails("cannot write to the cache", "XDG_CACHE_HOME")

    def test_second_run_does_nothing(self):
        deps = os.path.join(self.tree, ".deps")
        os.makedirs(deps)
        shutil.copy(os.path.join(ROOT, ".deps/stamp"), deps)
        self.packages_are_installed()
        start = time.monotonic()
        done = self.run_setup()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "setup: ready\n", ""))
        self.assertLess(time.monotonic() - start, 2)

    def test_what_is_unpacked(self):
        """The tree that this test runs in was set up by the script."""
        for file in ("plugin/pjrt_c_api_cpu_plugin.so", "include/pjrt_c_api.h", "include/xla/ffi/api/ffi.h",
                     "licenses/jaxlib/LICENSE.txt", "licenses/xla-cpu-plugin/THIRD_PARTY_NOTICES",
                     "test-plugins/api-0.106/libpjrt_cpu.so", "test-plugins/api-0.81/xla_cpu_pjrt.so"):
            self.assertTrue(os.path.isfile(os.path.join(ROOT, ".deps", file)), file)


if __name__ == "__main__":
    unittest.main()

"""Shardings cut, print and lower as JAX's do. usage: sharding_test.py DESCRIBE_SHARDINGS"""
import os
import subprocess
import sys
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUM_CPU_DEVICES"] = "8"
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

PROGRAM = sys.argv.pop()


class Shardings(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        cls.random = np.random.default_rng(0)

    @classmethod
    def tearDownClass(cls):
        cls.program.communicate(timeout=60)

    def described(self, mesh, spec, shape):
        def word(entry):
            if entry is None:
                return "."
            if entry is PartitionSpec.UNCONSTRAINED:
                return "?"
            return entry if isinstance(entry, str) else "+".join(entry)

        axes = ",".join(f"{name}={size}" for name, size in mesh.shape.items())
        ids = ",".join(str(d.id) for d in mesh.devices.flat)
        line = f"{axes}|{ids}|{' '.join(map(word, spec))} |{' '.join(map(str, shape))} \n"
        self.program.stdin.write(line)
        self.program.stdin.flush()
        lines = []
        while (text := self.program.stdout.readline().rstrip("\n")) != "":
            lines.append(text)
        return lines

    def random_mesh(self):
        sizes = [(8,), (4, 2), (2, 4), (2, 2, 2), (2, 2), (1, 4), (3, 2), (1,)]
        shape = sizes[self.random.integers(len(sizes))]
        devices = self.random.permutation(8)[: np.prod(shape)]
        return Mesh(np.array(jax.devices())[devices].reshape(shape), ("x", "y", "z")[: len(shape)])

    def random_spec(self, mesh, rank):
        names = list(self.random.permutation(mesh.axis_names))
        entries = []
        for _ in range(self.random.integers(0, rank + 1)):
            take = self.random.integers(0, len(names) + 1) if self.random.random() < 0.7 else 0
            axes, names = [str(n) for n in names[:take]], names[take:]
            entries.append(None if not axes else axes[0] if len(axes) == 1 else tuple(axes))
        return PartitionSpec(*entries)

    def test_random_ones(self):
        legal = 0
        for _ in range(400):
            mesh = self.random_mesh()
            shape = tuple(int(n) for n in self.random.choice([0, 1, 2, 4, 6, 8, 12, 16, 24], self.random.integers(0, 4)))
            spec = self.random_spec(mesh, len(shape))
            sharding = NamedSharding(mesh, spec)
            lines = self.described(mesh, spec, shape)
            try:
                regions = sharding.devices_indices_map(shape)
                shard_shape = sharding.shard_shape(shape)
            except ValueError:
                self.assertEqual(lines[-1], "error sharding")
                continue
            legal += 1
            self.assertEqual(lines[2], str(sharding))
            self.assertEqual(lines[3], f"{int(sharding.is_fully_replicated)}{shard_shape}")
            replicas = {}
            for line, device in zip(lines[4:], mesh.devices.flat, strict=True):
                box = [s.indices(n)[:2] for s, n in zip(regions[device], shape)]
                text = "[" + ", ".join(f"{a}:{b}" for a, b in box) + "]"
                key = str(regions[device])
                replicas[key] = replicas.get(key, -1) + 1
                if 0 in shape:  # JAX's regions of empty arrays coincide
                    self.assertEqual(line.rsplit(" ", 1)[0], f"{device.id} {text}")
                else:
                    self.assertEqual(line, f"{device.id} {text} {replicas[key]}")
        self.assertGreater(legal, 200)

    def test_shardy_text(self):
        for spec in [("x",), (None, "y"), (("x", "y"),), (("y", "x"), None), (PartitionSpec.UNCONSTRAINED, "x"), ()]:
            mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
            sharding = NamedSharding(mesh, PartitionSpec(*spec))
            x = jax.ShapeDtypeStruct((8, 8), np.float32)
            text = jax.jit(lambda x: jax.lax.with_sharding_constraint(x, sharding)).lower(x).as_text()
            mesh_text, sharding_text = self.described(mesh, PartitionSpec(*spec), (8, 8))[:2]
            self.assertIn(f"sdy.mesh @mesh = {mesh_text}", text)
            self.assertIn(f"sdy.sharding_constraint %arg0 {sharding_text} :", text)


if __name__ == "__main__":
    unittest.main()

"""What the tests of gangs of real processes share."""
import os
import socket
import subprocess


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def environment(rank, count, address, **more):
    """Of process `rank` of `count` whose coordinator is at `address`."""
    return {**os.environ, "JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(count), "JAX_PROCESS_ID": str(rank), **more}


def check_all_ok(test, lockstep, program, processes, devices):
    """Every process of the program says "ok" and ends well."""
    command = [lockstep, "run", "-n", str(processes), "--devices-per-process", str(devices), "--", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
    test.assertEqual(done.stdout.count("ok"), processes, done.stdout)

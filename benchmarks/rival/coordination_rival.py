"""JAX's coordination service with N client threads in one process, measured as benchmarks/coordination.cc measures ours.
usage: coordination_rival.py [N]"""
import os
import socket
import sys
import threading
import time

from jaxlib import _jax

n = int(sys.argv[1]) if len(sys.argv) > 1 else 256
with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{s.getsockname()[1]}"
service = _jax.get_distributed_runtime_service(address, n)
clients = [_jax.get_distributed_runtime_client(address, i, init_timeout=120, use_compression=True) for i in range(n)]


def in_parallel(f):
    threads = [threading.Thread(target=f, args=(i,)) for i in range(n)]
    begin = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return time.perf_counter() - begin


print(f"clients {n} register_s {in_parallel(lambda i: clients[i].connect()):.3f}")
for k in range(3):
    print(f"barrier_ms {1e3 * in_parallel(lambda i: clients[i].wait_at_barrier(f'b{k}', 60000)):.1f}")
best = float("inf")
for j in range(50):
    begin = time.perf_counter()
    clients[0].key_value_set(f"k{j}", "v")
    clients[1 % n].blocking_key_value_get(f"k{j}", 1000)
    best = min(best, time.perf_counter() - begin)
print(f"kv_set_get_us {1e6 * best:.1f}", flush=True)
os._exit(0)

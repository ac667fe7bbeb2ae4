"""A network between namespaces in user space: every packet takes its time, and some are lost. For kernels that have no
netem. usage: lossy_link.py DELAY_MS LOSS_PERCENT SEED NAMESPACE=ADDRESS...

Each namespace gets a device tun0 with its address in a /24. Says "ready", then carries packets until its standard input
ends, and says how many it has carried and lost.
"""
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000


def open_tun(namespace, address):
    """A device in the namespace; its end in this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{namespace}") as place:
        if libc.setns(place.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH", b"tun0", IFF_TUN | IFF_NO_PI))
    for words in (("addr", "add", f"{address}/24", "dev", "tun0"), ("link", "set", "tun0", "up", "mtu", "1400")):
        subprocess.run(["ip", *words], check=True)
    return tun


def main():
    delay, loss = float(sys.argv[1]) / 1000, float(sys.argv[2]) / 100
    chance = random.Random(int(sys.argv[3]))
    tuns = {}
    for word in sys.argv[4:]:
        namespace, address = word.split("=")
        tuns[bytes(map(int, address.split(".")))] = open_tun(namespace, address)
    print("ready", flush=True)
    under_way, order, carried, lost = [], 0, 0, 0
    while True:
        wait = max(under_way[0][0] - time.monotonic(), 0) if under_way else None
        readable, _, _ = select.select([*tuns.values(), sys.stdin], [], [], wait)
        if sys.stdin in readable:
            print(f"carried {carried}, lost {lost}", flush=True)
            return
        now = time.monotonic()
        for tun in readable:
            packet = os.read(tun, 65536)
            to = tuns.get(packet[16:20])  # of IPv4
            if to is None:
                continue
            if chance.random() < loss:
                lost += 1
                continue
            order += 1
            heapq.heappush(under_way, (now + delay, order, to, packet))
        while under_way and under_way[0][0] <= now:
            _, _, to, packet = heapq.heappop(under_way)
            try:
                os.write(to, packet)
                carried += 1
            except BlockingIOError:
                lost += 1


if __name__ == "__main__":
    main()

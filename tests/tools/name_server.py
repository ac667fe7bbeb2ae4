"""A DNS server for tests. usage: name_server.py ADDRESS FILE
FILE has a name and its IPv4 address on each line; it is read again for every question. Says "ready" once it listens."""
import socket
import struct
import sys


def question(packet):
    """The name, its type, and where the question ends."""
    labels, at = [], 12
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("ascii").lower())
        at += 1 + packet[at]
    return ".".join(labels), struct.unpack_from("!H", packet, at + 1)[0], at + 5


def answer(packet, names):
    name, kind, end = question(packet)
    found = names.get(name)
    records = b""
    if found and kind == 1:  # A
        records = struct.pack("!HHHIH", 0xC00C, 1, 1, 5, 4) + socket.inet_aton(found)
    # A response, authoritative; a name that is there has no addresses of other kinds, one that is not there has none.
    flags = 0x8580 | (0 if found else 3)
    return packet[:2] + struct.pack("!HHHHH", flags, 1, 1 if records else 0, 0, 0) + packet[12:end] + records


def main():
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((sys.argv[1], 53))
    print("ready", flush=True)
    while True:
        packet, client = server.recvfrom(4096)
        with open(sys.argv[2]) as file:
            names = dict(line.split() for line in file)
        server.sendto(answer(packet, names), client)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Holds the code in lockstep/ to the rooms that CMakeLists.txt declares. usage: check_includes.py [ROOT]

- a file of a room includes only its own room, the rooms below it (lockstep_room's DEPS, and theirs), core and support;
- x.cc includes the x.h beside it first;
- pjrt_c_api.h is included in pjrt/ only;
- a header that another room includes does not bring in, itself or through others, what is slow to compile or would
  force its own dependencies on users: gRPC, protobuf, Gloo, spdlog, CLI11, JSON, iostream, regex;
- the public headers (all that lockstep/lockstep.h and lockstep/mpi.h include) need the standard library and fmt/core.h,
  nothing else; only lockstep/mpi.h needs mpi.h, and nothing in the library includes it.

Prints one line for each violation; the exit status is 1 if there was any.
"""
import os
import re
import sys

HEAVY = re.compile(r"(grpc|grpcpp|google/protobuf|gloo|spdlog|CLI|nlohmann)/|(iostream|regex)$|.*\.pb\.h$")
PUBLIC_SYSTEM = re.compile(r"[a-z_0-9]+$|fmt/core\.h$")  # <vector>, <source_location>: no directory, no .h
PUBLIC = ("lockstep/lockstep.h", "lockstep/mpi.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def declared_rooms(root):
    """{room: the rooms it may include}, from the lockstep_room(...) lines of CMakeLists.txt."""
    rooms = {}
    text = re.sub(r"#.*", "", open(os.path.join(root, "CMakeLists.txt")).read())
    for call in re.findall(r"lockstep_room\(([^)]*)\)", text):
        name, *words = call.split()
        deps, keyword = [], None
        for word in words:
            if word in ("DEPS", "LIBS"):
                keyword = word
            elif keyword == "DEPS":
                deps.append(word)
        base = {"support"} if name in ("core", "support") else {"core", "support"}
        rooms[name] = {name} | base | set().union(*(rooms[dep] for dep in deps))
    return rooms


def read_includes(root):
    """{path: [(line number, included path)]} for every source file below lockstep/."""
    includes = {}
    for directory, _, files in os.walk(os.path.join(root, "lockstep")):
        for file in sorted(files):
            if file.endswith((".h", ".cc")):
                path = os.path.join(directory, file)
                with open(path) as lines:
                    matches = [(number, INCLUDE.match(line)) for number, line in enumerate(lines, 1)]
                includes[os.path.relpath(path, root)] = [(n, m[1]) for n, m in matches if m]
    return includes


def room_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "lockstep" else None


def closure(path, includes, seen):
    """All that `path` brings in, as {included: who includes it}."""
    for _, target in includes.get(path, []):
        if target not in seen:
            seen[target] = path
            closure(target, includes, seen)
    return seen


def violations(root):
    rooms, includes = declared_rooms(root), read_includes(root)
    for path, lines in includes.items():
        room = room_of(path)
        if room is not None and room not in rooms:
            yield f"{path}:1: CMakeLists.txt declares no room '{room}'"
            continue
        own = path[:-3] + ".h"
        if path.endswith(".cc") and own in includes and (not lines or lines[0][1] != own):
            yield f"{path}:1: the first include must be {own}"
        for number, target in lines:
            other = room_of(target)
            if target.startswith("lockstep/") and target.endswith(".h") and not target.endswith(".pb.h"):
                if target not in includes:
                    yield f"{path}:{number}: there is no {target}"
            if room and target in PUBLIC:
                yield f"{path}:{number}: {os.path.basename(target)} is for users; include what is needed"
            if target == "mpi.h" and path != "lockstep/mpi.h":
                yield f"{path}:{number}: only lockstep/mpi.h includes mpi.h"
            if room and other and other not in rooms[room]:
                yield f"{path}:{number}: {room}/ may not include {other}/ (it declares {', '.join(sorted(rooms[room]))})"
            if os.path.basename(target) == "pjrt_c_api.h" and room != "pjrt":
                yield f"{path}:{number}: only pjrt/ includes pjrt_c_api.h"
            if room and other and other != room:
                for heavy, by in closure(target, includes, {target: path}).items():
                    if HEAVY.match(heavy):
                        yield f"{path}:{number}: {target} brings in {heavy} (by {by}); hide it behind a pimpl"
    for public in PUBLIC:
        for target, by in closure(public, includes, {}).items():
            if not target.startswith("lockstep/") and not PUBLIC_SYSTEM.match(target) and target != "mpi.h":
                yield f"{by}: the public headers need {target}; they may need the standard library and fmt/core.h only"


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    found = sorted(set(violations(root)))
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Every public function of numpy/, lax/ and nn/ has a case that is compared with JAX. usage: completeness_test.py [RUN_FUNCTIONS]

Names come from the headers, calls from the sources of the programs whose cases the oracle's tests run (all of them:
oracle.main refuses cases that nothing asks for).
"""
import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ORACLE = ROOT / "tests" / "oracle"
SOURCES = [*ORACLE.glob("functions/*_cases.cc"), ORACLE / "elementwise/elementwise.cc", ORACLE / "structural/structural_cases.cc"]

# Functions without a case, and what proves them instead.
ELSEWHERE = {
    "numpy": {
        "array": "host data: tests/numpy/host_test.cc",
        "asarray": "host data: tests/numpy/host_test.cc",
        "array_str": "oracle/printing compares its text with NumPy's",
        "array_repr": "oracle/printing compares its text with JAX's",
        "format_array": "what array_str and array_repr are made of",
        "roll_dynamic": "what roll by a traced shift is made of",
    },
    "lax": {
        "conv_dimension_numbers": "what convolutions make of their layouts; JAX's takes shapes",
        "dilate_dim": "arithmetic on sizes that convolutions and windows are made of",
        "padding_pairs": "as dilate_dim",
        "stride_dim": "as dilate_dim",
        "precision_list": "text for StableHLO",
        "precision_config": "text for StableHLO",
        "with_sharding_constraint": "the identity, but for where the array lies: tests/user/mesh_test.cc, oracle/sharding",
    },
    "nn": {},
}
# Headers that other rooms include but users do not.
INTERNAL = {"numpy": {"jitted.h", "operands.h", "promote.h", "axes.h", "dtypes.h", "float_text.h"}, "lax": set(), "nn": set()}


def without(text, pattern):
    """The text without the braced blocks that follow the pattern."""
    while found := re.search(pattern + r"[^;{}]*\{", text):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[:found.start()] + ";" + text[end:]
    return text


def namespace(text, name):
    """What stands inside `namespace lockstep::name {` or, inside lockstep, `namespace name {`."""
    out = ""
    for found in re.finditer(rf"namespace (?:lockstep::)?{name} \{{", text):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        out += text[found.end():end - 1]
    return out


def declared(room):
    """The functions that a room's headers declare. Those of lax are in ops/, as lax.h includes them."""
    if room == "lax":
        index = (ROOT / "lockstep/lax/lax.h").read_text()
        headers = [ROOT / h for h in re.findall(r'#include "(lockstep/[^"]+)"', index)]
    else:
        headers = [h for h in (ROOT / "lockstep" / room).glob("*.h") if h.name not in INTERNAL[room]]
    names = set()
    for header in headers:
        text = re.sub(r"//[^\n]*", "", header.read_text())
        text = re.sub(r"#define(?:[^\n]*\\\n)*[^\n]*", "", text)
        text = without(namespace(text, room), r"namespace internal ")
        names |= set(re.findall(r"LOCKSTEP_REDUCTION\((\w+),", text))
        # Functions that are objects: `inline constexpr struct Sin {...} sin{};`, `inline constexpr Sin abs{}, absolute{};`
        objects = re.findall(r"inline constexpr struct \w+ \{[^}]*\}\s*(\w+)\{\};", text)
        for group in re.findall(r"inline constexpr \w+ ((?:\w+\{\}(?:,\s*)?)+);", text):
            objects += re.findall(r"(\w+)\{\}", group)
        names |= set(objects)
        text = re.sub(r"=\s*\{[^{}]*\}", "", text)  # defaults
        text = re.sub(r"LOCKSTEP_REDUCTION\([^)]*\)", "", text)
        text = without(text, r"(?m:^)(?:class|struct|enum class) \w+")
        text = without(text, r"\)(?: const)?\s")  # bodies
        found = re.findall(r"^(?:inline )?(?:std::)?\w+(?:<[^;()]*>)?(?:::\w+)?&? (\w+)\(", text, re.MULTILINE)
        names |= set(found) - {"operator", "print_param", "hash_param", "requires"}
    return names


def called():
    """room -> functions that cases call: np::sum(...), or UNARY(sin) for np::sin."""
    text = "\n".join(p.read_text() for p in SOURCES)
    rooms = {"np": "numpy", "numpy": "numpy", "lax": "lax", "nn": "nn"}
    out = {room: set() for room in rooms.values()}
    for space, name in re.findall(r"\b(np|numpy|lax|nn)::(\w+)", text):
        out[rooms[space]].add(name)
    out["numpy"] |= set(re.findall(r"\b(?:UNARY|BINARY|REDUCTION)\((\w+)\)", text))
    out["lax"] |= set(re.findall(r"\b(?:ENTRY|SCATTER)\((\w+)\)", text))
    out["nn"] |= set(re.findall(r"\bNN_UNARY\((\w+)\)", text))
    return out


class Completeness(unittest.TestCase):
    maxDiff = None

    def check(self, room):
        names, calls, elsewhere = declared(room), called()[room], ELSEWHERE[room]
        self.assertGreater(len(names), 15, "the headers were not understood")
        self.assertEqual(sorted(names - calls - set(elsewhere)), [], f"functions of {room} without a case")
        self.assertEqual(sorted(set(elsewhere) & calls), [], f"listed as proven elsewhere, but with a case")
        self.assertEqual(sorted(set(elsewhere) - names), [], f"listed, but not functions of {room}")

    def test_numpy(self):
        self.check("numpy")

    def test_lax(self):
        self.check("lax")

    def test_nn(self):
        self.check("nn")


unittest.main(argv=sys.argv[:1])

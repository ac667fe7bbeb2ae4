#!/usr/bin/env python3
"""Counts the test cases of a ctest run. usage: count_tests.py JUNIT_XML TEST_RESULTS_DIRECTORY

Prints the end of the output of each failed test, one line for each failed case, and "N passed, N failed[, N skipped]". GoogleTest programs are counted by
their cases (their JSON reports), other tests by the "N passed, N failed" or the unittest summary they print, or else as
one. A program that failed without saying which case counts as one failure more.
"""
import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

OUTPUT_LINES = 200

def gtest_cases(report):
    passed, failed, skipped = 0, [], 0
    for suite in report["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("failures"):
                failed.append(f"{suite['name']}.{case['name']}")
            elif case.get("result") == "COMPLETED":
                passed += 1
            else:
                skipped += 1
    return passed, failed, skipped


def printed_cases(output):
    counts = re.findall(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", output, re.MULTILINE)
    if counts:
        passed, failed, skipped = (int(n or 0) for n in counts[-1])
        return passed, [f"{failed} cases"] if failed else [], skipped, failed
    ran = re.search(r"^Ran (\d+) tests? in ", output, re.MULTILINE)
    if ran:
        bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", output))
        skipped = sum(int(n) for n in re.findall(r"skipped=(\d+)", output))
        names = re.findall(r"^(?:FAIL|ERROR): (\S+)", output, re.MULTILINE)
        return int(ran[1]) - bad - skipped, names, skipped, bad
    return None


def count(junit, results):
    total_passed, total_failed, total_skipped, lines = 0, 0, 0, []
    for test in ElementTree.parse(junit).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        report = os.path.join(results, name + ".json")
        if status in ("notrun", "disabled") and test.find("skipped") is not None:
            total_skipped += 1
            continue
        printed = printed_cases(test.findtext("system-out") or "")
        if os.path.exists(report):
            with open(report) as file:
                passed, names, skipped = gtest_cases(json.load(file))
            failed = len(names)
        elif printed:
            passed, names, skipped, failed = printed
        else:
            passed, names, skipped, failed = int(status == "run"), [], 0, 0
        if status != "run" and failed == 0:
            failed, names = 1, ["the program failed: see its output above"]
        if status != "run":
            print(f"-- {name} failed after {float(test.get('time', 0)):.1f} s; the end of its output:")
            print("\n".join((test.findtext("system-out") or "").splitlines()[-OUTPUT_LINES:]))
        lines += [f"FAILED {name}: {case}" for case in names]
        total_passed, total_failed, total_skipped = total_passed + passed, total_failed + failed, total_skipped + skipped
    print("\n".join(lines), end="\n" if lines else "")
    return total_passed, total_failed, total_skipped


if __name__ == "__main__":
    passed, failed, skipped = count(sys.argv[1], sys.argv[2])
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))

#!/usr/bin/env bash
# Every fault of one process in every state of a gang, and 60 kills at random moments. Ends with one table and the line
# "N passed, N failed". usage: scripts/faults.sh [--rounds N] [--kills N] [--short] [--seed N]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh --tests >/dev/null
cmake --preset release >/dev/null
cmake --build --preset release --target faulty >/dev/null
exec python3 tests/gang/faults.py build/release/tests/gang/faulty "$@"

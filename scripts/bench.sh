#!/usr/bin/env bash
# Prints ours / JAX / ratio / bar / pass or miss for everything that lockstep promises to be fast at. Both are measured in
# the same run, one after the other, with the same number of threads; compilations at the same time, a core each. Ours
# links lockstep::malloc, as a program that wants to be fast would.
# usage: scripts/bench.sh [dispatch] [trace] [compile] [step] [coordination]
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh --tests >/dev/null
cmake --preset release >/dev/null
cmake --build --preset release --target bench coordination lockstep_tool >/dev/null
exec .venv/bin/python benchmarks/compare.py build/release "$@"

#!/usr/bin/env bash
# Builds a preset, configuring first where that is needed. usage: scripts/build.sh PRESET [TARGET...]
# Without targets, what the preset names: everything (release), unit_tests (debug), thread_tests (tsan).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset=${1:?usage: scripts/build.sh PRESET [TARGET...]}
shift
if [[ ! build/$preset/build.ninja -nt CMakePresets.json ]]; then
  mkdir -p "build/$preset"
  cmake --preset "$preset" >"build/$preset/configure.log" 2>&1 || {
    cat "build/$preset/configure.log" >&2
    exit 1
  }
fi
if [[ -t 1 ]]; then # ninja shows its progress on one line
  cmake --build --preset "$preset" ${1+--target "$@"}
else
  cmake --build --preset "$preset" ${1+--target "$@"} -- --quiet 2>&1 | { grep -vE '^(ninja: no work to do|-- )' || true; }
fi

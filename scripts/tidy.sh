#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) on the given files, by default on those that differ from the branch main. Slow: seconds a
# file. usage: scripts/tidy.sh [file.cc...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v clang-tidy-16 >/dev/null || {
  echo "tidy: error: missing tool: clang-tidy-16; run scripts/setup.sh --tests" >&2
  exit 1
}
files=("$@")
((${#files[@]})) || mapfile -t files < <(git diff --name-only --diff-filter=d main -- 'lockstep/*.cc' 'tools/*.cc' 'examples/*.cc')
((${#files[@]})) || exit 0
scripts/build.sh release
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 1 clang-tidy-16 -p build/release --quiet 2>/dev/null

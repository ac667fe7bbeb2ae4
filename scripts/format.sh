#!/usr/bin/env bash
# Formats all C++ files with clang-format; with --check changes none and fails if one would change.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
case "${1-}" in
  '') mode=(-i) ;;
  --check) mode=(--dry-run -Werror) ;;
  *)
    echo "usage: scripts/format.sh [--check]" >&2
    exit 2
    ;;
esac
command -v clang-format >/dev/null || {
  echo "format: error: missing tool: clang-format; run scripts/setup.sh --tests" >&2
  exit 1
}
find lockstep tools examples benchmarks tests -name '*.cc' -o -name '*.h' | sort | xargs -P 2 -n 20 clang-format "${mode[@]}"

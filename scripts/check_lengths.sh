#!/usr/bin/env bash
# Refuses source files of more than 800 lines: a file holds one idea. usage: check_lengths.sh [ROOT]
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"
find . \( -path './build*' -o -path './.deps' -o -path './.venv' -o -path './.git' \) -prune -o -type f \
  \( -name '*.cc' -o -name '*.h' -o -name '*.py' -o -name '*.sh' -o -name '*.cmake' -o -name CMakeLists.txt \) -print0 |
  xargs -0 awk 'FNR == 801 {print FILENAME ": more than 800 lines"; long = 1} END {exit long}'

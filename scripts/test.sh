#!/usr/bin/env bash
# Sets everything up, builds and runs all tests. usage: scripts/test.sh [stage...]; without a stage, all of them:
#   setup     packages, wheels, .venv
#   checks    formatting, includes between rooms, file lengths
#   release   the optimised build, all its tests
#   install   a project outside uses an installed and moved tree; a small user program compiles fast enough
#   debug     the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan      runtime, collectives and coordination under ThreadSanitizer
# LOCKSTEP_TEST_EXCLUDE, a regular expression, leaves tests of these names out.
# The last line is "N passed, N failed" over all stages; the exit status says whether any failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all_stages=(setup checks release install debug tsan)
jobs=$(nproc)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check LABEL COMMAND...: one test; shows the command's output only if it fails.
check() {
  local label=$1 status=PASS
  shift
  "$@" >"$work/output" 2>&1 || {
    status=FAIL
    cat "$work/output"
  }
  printf '%s %s\n' $status "$label"
  [[ $status == PASS ]] && echo "1 passed, 0 failed" >>"$work/counts" || echo "0 passed, 1 failed" >>"$work/counts"
}

run_ctest() { # run_ctest PRESET [ctest option...]: runs the tests, shows the output of the failed ones, counts
  local directory=build/$1
  shift
  rm -rf "$directory/test-results" "$directory/test-results.xml"
  ctest --test-dir "$directory" --parallel "$jobs" --no-tests=ignore --test-output-size-passed 65536 \
    --test-output-size-failed 1048576 ${LOCKSTEP_TEST_EXCLUDE:+-E "$LOCKSTEP_TEST_EXCLUDE"} --output-junit test-results.xml "$@" </dev/null 2>&1 |
    grep -E '^ *[0-9]+/[0-9]+ Test ' || true
  python3 scripts/count_tests.py "$directory/test-results.xml" "$directory/test-results" | tee "$work/ctest"
  tail -n 1 "$work/ctest" >>"$work/counts"
}

stage_setup() { scripts/setup.sh --tests; }

stage_checks() {
  check "formatting (scripts/format.sh)" scripts/format.sh --check
  check "includes between rooms (scripts/check_includes.py)" python3 scripts/check_includes.py
  check "file lengths (scripts/check_lengths.sh)" scripts/check_lengths.sh
}

stage_release() {
  scripts/build.sh release
  check "every header compiles alone" scripts/build.sh release header_checks
  run_ctest release
}

stage_install() {
  scripts/build.sh release
  check "an outside project uses the installed, moved tree" tests/install/run.sh build/release
  check "a small program compiles in time (scripts/check_compile_time.sh)" scripts/check_compile_time.sh
}

stage_debug() {
  scripts/build.sh debug
  run_ctest debug -L unit
}

stage_tsan() {
  scripts/build.sh tsan
  run_ctest tsan -L threads
}

stages=("$@")
((${#stages[@]})) || stages=("${all_stages[@]}")
for stage in "${stages[@]}"; do
  [[ " ${all_stages[*]} " == *" $stage "* ]] || {
    echo "test: error: no stage '$stage'; there are: ${all_stages[*]}" >&2
    exit 2
  }
done

summary=()
for stage in "${stages[@]}"; do
  printf '\n== %s\n' "$stage"
  : >"$work/counts"
  start=$SECONDS
  set +e
  (
    set -e
    "stage_$stage"
  )
  status=$?
  set -e
  ((status == 0)) || echo "0 passed, 1 failed" >>"$work/counts"
  cat "$work/counts" >>"$work/all_counts"
  summary+=("$(awk -v stage="$stage" -v seconds=$((SECONDS - start)) \
    '{p += $1; f += $3; s += $5} END {printf "%-8s %5d s   %d passed, %d failed, %d skipped", stage, seconds, p, f, s}' \
    "$work/counts")")
  if [[ $stage == setup && $status != 0 ]]; then break; fi
done

printf '\n== summary\n'
printf '%s\n' "${summary[@]}"
awk '{p += $1; f += $3; s += $5}
  END {printf "%d passed, %d failed%s\n", p, f, s ? ", " s " skipped" : ""; exit f > 0}' "$work/all_counts"

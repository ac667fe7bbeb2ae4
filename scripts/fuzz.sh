#!/usr/bin/env bash
# Builds the fuzzers (clang, libFuzzer) and runs each for some time. usage: scripts/fuzz.sh [SECONDS [TARGET...]]
# SECONDS are those of each target (60). New inputs are kept in build/fuzz/corpus/TARGET and used again; what fails is left
# in build/fuzz/findings/TARGET-*, and becomes a file of tests/fuzz/corpus/TARGET once it is mended.
# scripts/fuzz.sh --merge [TARGET...] adds to tests/fuzz/corpus what reaches code that nothing there reaches yet.
# Ends with one line for each target and "N passed, N failed".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
merge=false seconds=60
if [[ ${1-} == --merge ]]; then
  merge=true
  shift
elif (($#)); then
  seconds=$1
  shift
  [[ $seconds =~ ^[0-9]+$ ]] || {
    echo "fuzz: '$seconds' is no number of seconds; usage: scripts/fuzz.sh [SECONDS [TARGET...]]" >&2
    exit 2
  }
fi
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(ls tests/fuzz/corpus)

scripts/setup.sh --fuzz
scripts/build.sh fuzz "${targets[@]/#/fuzz_}"
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1
findings=build/fuzz/findings
mkdir -p "$findings"
passed=0 failed=0
for target in "${targets[@]}"; do
  program=build/fuzz/tests/fuzz/fuzz_$target seeds=tests/fuzz/corpus/$target found=build/fuzz/corpus/$target
  mkdir -p "$found"
  if $merge; then
    "$program" -merge=1 "$seeds" "$found" >"$findings/$target.log" 2>&1 || {
      tail -n 30 "$findings/$target.log"
      exit 1
    }
    echo "$target: $(ls "$seeds" | wc -l) inputs"
    continue
  fi
  if "$program" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$findings/$target-" "$found" "$seeds" >"$findings/$target.log" 2>&1; then
    passed=$((passed + 1)) word=passed
  else
    failed=$((failed + 1)) word=FAILED
    grep -A 40 -m 1 -E '^==|ERROR|runtime error' "$findings/$target.log" | head -60 || true
    grep -E 'Test unit written' "$findings/$target.log" || true
  fi
  runs=$(awk '/stat::number_of_executed_units/ {print $2}' "$findings/$target.log")
  coverage=$(grep -oE 'cov: [0-9]+' "$findings/$target.log" | tail -n 1 || true)
  echo "$target: $word, ${runs:-?} runs, $coverage (log: $findings/$target.log)"
done
$merge || {
  echo "$passed passed, $failed failed"
  ((failed == 0))
}

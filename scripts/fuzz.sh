#!/usr/bin/env bash
# Runs every fuzz target for some seconds, one on each processor at a time, and says how often each was run. Those that
# read what guests and recipes say have all of the time, the others a third.
# Usage: fuzz.sh [SECONDS [NAME-REGEXP]]. An input that fails stays below the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
only=${2:-.}
seconds=${1:-10} logs=$(mktemp -d)
export seconds logs
trap 'rm -rf "$logs"' EXIT

# Go before 1.27 may call the end of -fuzztime itself a failure on a busy machine (go.dev/issue/75804): then that is
# all the log tells of, there is no input that failed.
out_of_time() { # LOG
  sed -e '/^fuzz: elapsed: /d' -e '/^fuzz: minimizing /d' "$1" | tr '\n' ' ' |
    grep -Eq '^--- FAIL: Fuzz[A-Za-z]+ \([0-9.]+s\) +context deadline exceeded FAIL (exit status 1 )?FAIL[[:space:]][^ ]+[[:space:]][0-9.]+s (FAIL )?$'
}
fuzz() { # PACKAGE TARGET
  local log=$logs/$2 verdict=ok time=$((seconds / 3 + 1)) runs
  case $1 in ./internal/guest* | ./internal/template*) time=$seconds ;; esac
  # Making inputs smaller, for up to a minute each unless told otherwise, could take all of the time.
  if ! go test -run '^$' -fuzz "^$2\$" -fuzztime "${time}s" -fuzzminimizetime 1s -parallel 1 "$1" >"$log" 2>&1 && ! out_of_time "$log"; then
    verdict=FAILED
    cat "$log" >&2
  fi
  runs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
  printf '%-6s %-28s %-20s %10d executions\n' "$verdict" "$1" "$2" "${runs:-0}" | tee "$log.line"
}
export -f fuzz out_of_time

grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | sed 's|/[^/]*:func | |' | sort | grep -E "$only" |
  xargs -r -P "$(nproc)" -L 1 bash -c 'fuzz "$1" "$2"' fuzz
awk '{ runs += $4; if ($1 != "ok") failed = 1 } END { printf "%d executions of %d targets in all\n", runs, NR; exit failed }' "$logs"/*.line

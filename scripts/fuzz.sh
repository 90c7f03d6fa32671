#!/usr/bin/env bash
# Runs every fuzz target for some seconds, one after another, and says how often each was run.
# Usage: fuzz.sh [SECONDS [NAME-REGEXP]]. An input that fails stays below the package's testdata/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10} only=${2:-.}
total=0 failed=()
while IFS=: read -r file target; do
  package=./$(dirname "$file")
  log=$(mktemp)
  if go test -run '^$' -fuzz "^$target\$" -fuzztime "${seconds}s" "$package" >"$log" 2>&1; then
    verdict=ok
  else
    verdict=FAILED
    failed+=("$package $target")
    cat "$log" >&2
  fi
  runs=$(sed -n 's/.*execs: \([0-9]*\).*/\1/p' "$log" | tail -n 1)
  rm -f "$log"
  total=$((total + ${runs:-0}))
  printf '%-6s %-28s %-20s %10d executions\n' "$verdict" "$package" "$target" "${runs:-0}"
done < <(grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' . | sed 's|^\./||; s/func //' | sort | grep -E "$only")
printf '%d executions in all\n' "$total"
if [ ${#failed[@]} -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed[@]}" >&2
  exit 1
fi

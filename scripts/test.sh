#!/usr/bin/env bash
# Installs what the tests need and runs all of them: Go, the kernel host, the SDK, and everything with real VMs.
# The tests with VMs work on copies of a built template; PANDASTACK_TEST_DATA names its data directory.
set -euo pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
failed=()
log=$(mktemp) ends=$(mktemp) # of the step that runs; the ends of those that failed
trap 'rm -f "$log" "$ends"' EXIT
telling='^ *--- FAIL|^(FAIL|FAILED|E  |panic:)|^ *✖'
failures() { # the lines of the log that tell of one, else its end
  if grep -Eq "$telling" "$log"; then
    grep -E -A4 "$telling" "$log" | cut -c1-400 | sed -n 1,40p
  else
    tail -n 20 "$log"
  fi
}
step() { # NAME COMMAND…
  local name=$1 at=$SECONDS
  shift
  printf '\n=== %s  (%d s so far)\n' "$name" $((SECONDS - began))
  if "$@" 2>&1 | tee "$log"; then
    printf -- '--- %s: passed in %d s\n' "$name" $((SECONDS - at))
  else
    printf -- '--- %s: FAILED after %d s\n' "$name" $((SECONDS - at))
    failed+=("$name")
    { printf '\n=== what went wrong in: %s\n' "$name"; failures; } >>"$ends"
  fi
}

export PANDASTACK_TEST_DATA=${PANDASTACK_TEST_DATA:-${PANDASTACK_DATA_DIR:-/var/lib/pandastack}}
unset PANDASTACK_DATA_DIR PANDASTACK_API PANDASTACK_API_KEY
if [ -z "${PANDASTACK_SHARED:-}" ] && [ -d ../shared/cases ]; then
  PANDASTACK_SHARED=$(cd ../shared && pwd)
  export PANDASTACK_SHARED
fi

more=(fonts-wqy-microhei fonts-symbola curl zsh fish)
command -v node >/dev/null || more+=(nodejs npm) # for the published TypeScript client
scripts/setup.sh "${more[@]}"
make -s build
scripts/python-env.sh build/test sdk/python/pyproject.toml test/requirements.txt -- -e 'sdk/python[test]' -r test/requirements.txt
py=$PWD/build/test/bin/python
export PANDASTACK_TEST_PYTHON=$py PANDASTACK_TEST_SDK_PYTHON=$py

step 'Go, without VMs' go test -race ./...
step 'Python kernel host' "$py" -m pytest -q guestpy
step 'Python SDK, without VMs' "$py" -m pytest -q sdk/python/tests/unit
step 'template' bin/pandastack template build code-interpreter --data-dir "$PANDASTACK_TEST_DATA"
step 'Go, with VMs' go test -count=1 -tags vm -p 1 -timeout 40m ./internal/vmm/... ./internal/template/... ./test/...
step 'Python SDK, with VMs' scripts/with-server.sh "$py" -m pytest -q sdk/python/tests/live
step 'reported cases' scripts/with-server.sh "$py" -m pytest -q test/cases
step 'API document' scripts/with-server.sh scripts/test-schema.sh
step 'fuzzing' scripts/fuzz.sh 60
step 'published clients' scripts/with-server.sh scripts/test-clients.sh

printf '\n%d s in all\n' $((SECONDS - began))
if [ ${#failed[@]} -gt 0 ]; then
  cat "$ends"
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo 'all tests passed'

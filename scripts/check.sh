#!/usr/bin/env bash
# What must hold before a commit: format, vet, static analysis, layers, generated files, Python lint and types.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
failed=0
step() { # NAME COMMAND…
  local name=$1 began=$SECONDS out
  shift
  if out=$("$@" 2>&1); then
    printf 'ok    %-22s %3d s\n' "$name" $((SECONDS - began))
  else
    printf 'FAIL  %-22s %3d s\n%s\n' "$name" $((SECONDS - began)) "$out"
    failed=1
  fi
}
empty() { local out; out=$("$@"); [ -z "$out" ] || { echo "$out"; return 1; }; }

staticcheck=honnef.co/go/tools/cmd/staticcheck@v0.8.2
lint=build/lint
scripts/python-env.sh $lint scripts/lint-requirements.txt -- -r scripts/lint-requirements.txt
py=$lint/bin/python

step gofmt empty gofmt -l api client cmd guestpy internal templates test ./*.go
step 'go vet' go vet ./...
step 'go vet -tags vm' go vet -tags vm ./...
step staticcheck go run $staticcheck -tags vm ./...
step 'go mod tidy' go mod tidy -diff
step layers go test -count=1 .
step 'generated files' go test -count=1 ./api/...
step 'generated SDK' $py sdk/python/generate_sync.py --check
step ruff $py -m ruff check guestpy sdk/python examples test
step 'ruff format' $py -m ruff format --check guestpy sdk/python examples test
step 'mypy sdk' $py -m mypy --config-file sdk/python/pyproject.toml sdk/python/src
step 'mypy kernel' $py -m mypy --config-file guestpy/pyproject.toml guestpy/pandastack_kernel
step 'shell syntax' bash -n scripts/*.sh .ci/run
exit $failed

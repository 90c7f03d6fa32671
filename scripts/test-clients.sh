#!/usr/bin/env bash
# The published clients of PandaStack, each in an environment of its own, against the server that
# PANDASTACK_API and PANDASTACK_API_KEY name. Usage: test-clients.sh [python|harbor|node|node-default]…
# node-default is the TypeScript client with a server that has the template base, and does not run by default.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${PANDASTACK_API:?names the server}" "${PANDASTACK_API_KEY:?is its key}"

python_client() { # NAME
  local env=build/clients/$1 list=test/clients/$1/requirements.txt
  # Every package the client needs is pinned in the list; nothing else is to come along.
  scripts/python-env.sh "$env" "$list" -- --no-deps -r "$list"
  "$env/bin/python" -m pytest -q -p no:cacheprovider "test/clients/$1"
}

node_client() { # [FILE…]
  local env=build/clients/node
  mkdir -p "$env"
  cp test/clients/node/* "$env"
  (cd "$env" && npm ci --silent --no-audit --no-fund && node --test --test-reporter=spec "$@")
}

[ $# -gt 0 ] || set -- python harbor node
failed=0
for client in "$@"; do
  printf '== %s\n' "$client"
  case $client in
    python | harbor) python_client "$client" || failed=1 ;;
    node) node_client || failed=1 ;;
    node-default) node_client default_template.js || failed=1 ;;
    *) echo "no such client: $client" >&2; exit 2 ;;
  esac
done
exit $failed

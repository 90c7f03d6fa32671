#!/usr/bin/env bash
# Runs a command with a server of its own, on a data directory linked from a built template, and removes both,
# also the sandboxes that a command left which was stopped. Where the command failed, the logs of the server and of
# the machines that did not start stay in build/failed-server.
# Usage: with-server.sh COMMAND…    The command finds PANDASTACK_API and PANDASTACK_API_KEY in its environment.
set -euo pipefail
seed=${PANDASTACK_TEST_DATA:-/var/lib/pandastack}
data=$(mktemp -d "$seed/tmp/test-XXXXXX")
server=
keep_logs() {
  tail -n 20 "$data/server.log" >&2
  rm -rf build/failed-server
  mkdir -p build/failed-server
  cp "$data/server.log" build/failed-server/
  [ ! -e "$data/logs" ] || cp -r "$data/logs" build/failed-server/
  echo "the server's logs are in build/failed-server" >&2
}
finish() {
  local code=$?
  if [ -n "$server" ]; then
    bin/pandastack down --data-dir "$data" >/dev/null 2>&1 || kill -INT "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  [ $code -eq 0 ] || keep_logs || true
  rm -rf "$data"
  exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM
for part in images warm boot templates jail; do
  [ ! -e "$seed/$part" ] || cp -al "$seed/$part" "$data/"
done
bin/pandastack serve --data-dir "$data" --listen 127.0.0.1:0 >"$data/server.log" 2>&1 &
server=$!
for _ in $(seq 600); do
  grep -q '^listening on' "$data/server.log" && break
  kill -0 "$server" 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
  sleep 0.1
done
PANDASTACK_SERVER_PID=$server
export PANDASTACK_SERVER_PID
PANDASTACK_API=$(sed -n 's/^listening on *//p' "$data/server.log") PANDASTACK_API_KEY=$(cat "$data/key")
export PANDASTACK_API PANDASTACK_API_KEY
"$@"

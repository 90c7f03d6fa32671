#!/usr/bin/env bash
# From a fresh machine to the README's cells answered in a microVM. Nothing is left running.
set -euo pipefail
cd "$(dirname "$0")/.."
began=$SECONDS
server=
work=$(mktemp -d)
finish() {
  local code=$?
  if [ -n "$server" ]; then
    kill -INT "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  if [ $code -ne 0 ] && [ -s "$work/server.log" ]; then
    echo "--- the server's last lines" >&2
    tail -n 15 "$work/server.log" >&2
  fi
  rm -rf "$work"
  exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

steps=5 step=0
say() { step=$((step + 1)); printf '\n[%d/%d] %s  (%d s so far)\n' $step $steps "$1" $((SECONDS - began)); }

say "installing what is missing"
scripts/setup.sh
say "building bin/pandastack"
make -s build
say "Python environment with the SDK in build/demo"
scripts/python-env.sh build/demo sdk/python/pyproject.toml -- -e sdk/python
say "template code-interpreter (some minutes the first time, then cached)"
root=()
[ "$(id -u)" -eq 0 ] || root=(sudo --preserve-env=PANDASTACK_DATA_DIR)
"${root[@]}" bin/pandastack template build code-interpreter

say "starting a server and running examples/sales.py"
export PANDASTACK_DATA_DIR=${PANDASTACK_DATA_DIR:-/var/lib/pandastack}
if ! bin/pandastack sandbox ls >/dev/null 2>&1; then
  "${root[@]}" bin/pandastack serve --listen 127.0.0.1:0 >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 300); do # it says when it listens; 30 s are far more than it needs
    grep -q '^listening on' "$work/server.log" && break
    kill -0 "$server" 2>/dev/null || { echo "the server did not start" >&2; exit 1; }
    sleep 0.1
  done
fi
build/demo/bin/python examples/sales.py build/sales-chart.png

cat <<TEXT

Done in $((SECONDS - began)) s; nothing is left running. To go on by hand:
  bin/pandastack serve                                 # in one terminal
  bin/pandastack run -c 'import pandas; pandas.__version__'   # in another
  build/demo/bin/python                                # from pandastack import Sandbox
TEXT

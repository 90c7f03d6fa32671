#!/usr/bin/env bash
# Prints NAME VALUE UNIT lines and writes bench/results.json. Usage: bench.sh [REGEXP of the rows to measure]
# PANDASTACK_DATA_DIR says where the baked template is; the default is the server's own.
set -euo pipefail
cd "$(dirname "$0")/.."
only=${1:-}

scripts/setup.sh
make --no-print-directory build
go build -trimpath -o build/bench ./test/bench
env=build/bench-python
scripts/python-env.sh $env test/bench/requirements.txt sdk/python/pyproject.toml -- -r test/bench/requirements.txt -e sdk/python

data=${PANDASTACK_DATA_DIR:-}
if [ -z "$data" ]; then
  if [ "$(id -u)" -eq 0 ]; then data=/var/lib/pandastack; else data=$HOME/.local/share/pandastack; fi
fi
out=bench/results.json
[ -z "$only" ] || out=build/bench-part.json # a part is no record of a run
exec $env/bin/python test/bench/bench.py --only "$only" --program "$PWD/bin/pandastack" --bare "$PWD/build/bench" \
  --data-dir "$data" --out "$out"

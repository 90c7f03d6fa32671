#!/usr/bin/env bash
# Builds the Python SDK's wheel into build/dist, unless it is there for these very sources.
set -euo pipefail
cd "$(dirname "$0")/.."
sum=$(find sdk/python/src sdk/python/pyproject.toml sdk/python/README.md -type f ! -name '*.pyc' -print0 | sort -z | xargs -0 sha256sum | sha256sum | cut -c1-16)
[ -e "build/dist/.stamp-$sum" ] && exit 0
[ -x build/wheel/bin/python ] || python3 -m venv build/wheel
rm -rf build/dist
build/wheel/bin/python -m pip wheel -q --disable-pip-version-check --no-deps -w build/dist sdk/python
touch "build/dist/.stamp-$sum"

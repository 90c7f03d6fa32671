#!/usr/bin/env bash
# Makes or updates a Python environment. Usage: python-env.sh DIR STAMP-INPUT… -- PIP-ARGUMENT…
# It installs anew only when one of the inputs' content changed.
set -euo pipefail

dir=$1; shift
inputs=()
while [ "$1" != -- ]; do inputs+=("$1"); shift; done
shift
stamp="$dir/.stamp-$(cat "${inputs[@]}" /dev/null | sha256sum | cut -c1-16)"
[ -e "$stamp" ] && exit 0
[ -x "$dir/bin/python" ] || python3 -m venv "$dir"
"$dir/bin/python" -m pip install -q --disable-pip-version-check "$@"
rm -f "$dir"/.stamp-*
touch "$stamp"

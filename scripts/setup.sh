#!/usr/bin/env bash
# Installs the Debian packages that building and running need and that are missing.
# Usage: setup.sh [PACKAGE …]   further packages, for tests
set -euo pipefail

packages=(qemu-system-x86 qemu-utils mmdebstrap debian-archive-keyring e2fsprogs python3 python3-venv python3-pip ca-certificates "$@")
missing=()
for p in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: ${missing[*]} must be installed: run this as root, or install sudo" >&2; exit 1; }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" apt-get install -qy --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  echo "setup: installing ${missing[*]} failed; the lines above say why" >&2
  exit 1
fi

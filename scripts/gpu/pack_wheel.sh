#!/usr/bin/env bash
# Puts the Python package, unpacked from the wheel, into .deps/offline/python, for a GPU machine without registries. There:
# scripts/gpu/test_python.sh, or PYTHONPATH=.deps/offline/python.
#   scripts/gpu/pack_wheel.sh [BUILD_FOLDER]    with one: the package of that build (its target syncopate_python) instead
set -euo pipefail
cd "$(dirname "$0")/../.."
to=.deps/offline/python
if [ $# -gt 0 ] && [ ! -e "$1/python/syncopate/libsyncopate.so" ]; then
  echo "pack: $1/python/syncopate/libsyncopate.so is missing: build it with  cmake --build $1 --target syncopate_python" >&2
  exit 1
fi
rm -rf "$to"
mkdir -p "$to"
if [ $# -gt 0 ]; then
  cp -r "$1/python/syncopate" "$to/"
  rm -rf "$to"/syncopate/__pycache__
  strip "$to/syncopate/libsyncopate.so"
else
  python3 -m zipfile -e "$(scripts/wheel.sh)" "$to"
fi
du -sh "$to" | sed 's/^/pack: /'

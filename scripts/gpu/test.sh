#!/usr/bin/env bash
# On a machine with a GPU: the GPU tests and `run --on gpu` of every operator, from the binaries of scripts/gpu/pack.sh.
# Leaves runs.json, runs.md and tests.xml in ${OUT:-out/gpu}. Exits 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-out/gpu}
mkdir -p "$out"
export LD_LIBRARY_PATH=$PWD/.deps/offline/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec python3 scripts/gpu/test.py .deps/offline/bin "$out" "$@"

#!/usr/bin/env bash
# On a machine with GPUs: the GPU tests, the Python tests, profiles of both operators, and `run --on gpu` of every operator,
# from the binaries and the package of scripts/gpu/pack.sh. Takes at most seven minutes, with --quick three; leaves results.json,
# results.md, tests.xml and python.log in ${OUT:-out/gpu}. Exits 1 if anything failed, or if the tests, the Python tests
# or all runs were not run, for want of a GPU, say.
set -uo pipefail
cd "$(dirname "$0")/../.."
for packed in .deps/offline/bin/syncopate .deps/offline/bin/cuda_gpu_test .deps/offline/python/syncopate; do
  [ -e "$packed" ] && continue
  echo "test: $packed is missing: run scripts/gpu/pack.sh where Syncopate is built, and carry .deps/offline here" >&2
  exit 1
done
out=${OUT:-out/gpu}
mkdir -p "$out"
export OUT=$out
export LD_LIBRARY_PATH=$PWD/.deps/offline/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec python3 scripts/gpu/test.py .deps/offline/bin "$out" "$@"

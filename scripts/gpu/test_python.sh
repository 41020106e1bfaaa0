#!/usr/bin/env bash
# On a machine with GPUs, torch and Triton: the Python tests, with the package of scripts/gpu/pack_wheel.sh. Leaves
# python.log in ${OUT:-out/gpu}. Arguments name tests, e.g. OneGpuForBoth.test_right. Exits 1 if anything failed.
set -uo pipefail
cd "$(dirname "$0")/../.."
[ -e .deps/offline/python/syncopate ] || {
  echo "test_python: .deps/offline/python is missing: run scripts/gpu/pack_wheel.sh where Syncopate is built, and carry it here" >&2
  exit 1
}
out=${OUT:-out/gpu}
mkdir -p "$out"
export PYTHONPATH=$PWD/.deps/offline/python PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
{
  failed=0
  if [ $# -eq 0 ]; then
    python3 tests/python/plan_test.py || failed=1
    python3 tests/python/operator_test.py || failed=1
  fi
  python3 tests/python/gpu_test.py -v "$@" || failed=1
  [ $failed -eq 0 ] && echo "all Python tests right" || echo "some Python tests failed"
  exit $failed
} 2>&1 | tee "$out/python.log"

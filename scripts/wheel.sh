#!/usr/bin/env bash
# Builds the Python wheel with what scripts/bootstrap.sh --wheel has installed, and prints its path.
#   scripts/wheel.sh [FOLDER]    default out/wheel
set -euo pipefail
cd "$(dirname "$0")/.."
to=${1:-out/wheel}
rm -rf "$to"
.deps/venv/bin/pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps --no-index --wheel-dir "$to" .
ls "$to"/*.whl

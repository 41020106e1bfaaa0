#!/usr/bin/env bash
# The main job, end to end: compile an operator, prove the plan, run the emitted kernel on CPU ranks.
set -euo pipefail
cd "$(dirname "$0")/.."
syncopate=build/release/syncopate
step() { printf '\n\033[1m$ %s\033[0m\n' "$*" && "$@"; }
step $syncopate compile operators/ag_gemm.toml --out out/ag_gemm
step $syncopate verify out/ag_gemm/plan.json
step $syncopate run out/ag_gemm/plan.json
printf '\nNext: %s show operators/ag_gemm.toml, and the fused kernel in out/ag_gemm/fused.py\n' "$syncopate"

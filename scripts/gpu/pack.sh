#!/usr/bin/env bash
# Puts what a GPU machine without registries needs into .deps/offline (ignored by git): the binaries, built here, and the
# shared libraries that such a machine may lack. There: scripts/gpu/test.sh.
#   scripts/gpu/pack.sh [BUILD_FOLDER]    default build/release; it must have `syncopate` and `cuda_gpu_test` built
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
to=.deps/offline

rm -rf "$to"
mkdir -p "$to/bin" "$to/lib"
for binary in "$build/syncopate" "$build/tests/cuda/cuda_gpu_test"; do
  [ -x "$binary" ] || { echo "pack: $binary is not built" >&2; exit 1; }
  strip -o "$to/bin/$(basename "$binary")" "$binary"
  # The C and C++ runtimes stay behind: a newer system has newer ones, which serve older binaries.
  ldd "$binary" | awk '$2 == "=>" { print $3 }' | grep -Ev '/(libc|libm|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
    xargs -r -I{} cp -Lu {} "$to/lib/"
done
du -sh "$to" | sed 's/^/pack: /'

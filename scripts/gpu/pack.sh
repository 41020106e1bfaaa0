#!/usr/bin/env bash
# Puts what a GPU machine without registries needs into .deps/offline (ignored by git): the binaries and the Python package,
# built here, and the shared libraries that such a machine may lack. There: scripts/gpu/test.sh.
#   scripts/gpu/pack.sh [BUILD_FOLDER]    default build/release; built: syncopate, cuda_gpu_test, launch_cost, syncopate_python
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
to=.deps/offline

[ -d "$build" ] || { echo "pack: there is no build folder $build: build one (cmake --preset release), or name another" >&2; exit 1; }
for target in "syncopate_python python/syncopate/libsyncopate.so" "syncopate syncopate" \
              "cuda_gpu_test tests/cuda/cuda_gpu_test" "launch_cost bench/launch_cost"; do
  [ -e "$build/${target#* }" ] && continue
  echo "pack: $build/${target#* } is missing: build it with  cmake --build $build --target ${target% *}" >&2
  exit 1
done
rm -rf "$to/bin" "$to/lib"
mkdir -p "$to/bin" "$to/lib"
for binary in "$build/syncopate" "$build/tests/cuda/cuda_gpu_test" "$build/bench/launch_cost"; do
  strip -o "$to/bin/$(basename "$binary")" "$binary"
  # The C and C++ runtimes stay behind: a newer system has newer ones, which serve older binaries. There may be no others.
  ldd "$binary" | awk '$2 == "=>" { print $3 }' |
    { grep -Ev '/(libc|libm|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' || true; } | xargs -r -I{} cp -Lu {} "$to/lib/"
done
scripts/gpu/pack_wheel.sh "$build"
du -sh "$to" | sed 's/^/pack: /'

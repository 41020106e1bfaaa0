#!/usr/bin/env bash
# Installs what Syncopate needs to build and test: Debian packages, and a few pinned PyPI packages into .deps/.
# Safe to run again; does nothing when everything is in place.
#   scripts/bootstrap.sh          build and C++ tests
#   scripts/bootstrap.sh --triton also Triton, for the tests that compile emitted kernels (about 750 MB)
#   scripts/bootstrap.sh --wheel  also what builds the Python wheel
set -euo pipefail
arguments=$*
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache python3 python3-venv pkg-config
  libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libtree-sitter-dev libxxhash-dev libdlpack-dev
  libgtest-dev libgmock-dev libbenchmark-dev)
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "bootstrap: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

mkdir -p .deps
venv=.deps/venv
if [ ! -x "$venv/bin/pip" ]; then
  echo "bootstrap: making a Python environment in $venv"
  /usr/bin/python3 -m venv "$venv"
fi

# Source distributions from PyPI whose C files our CMake compiles, into .deps/<name>-<version>.
fetch_sources() {  # package version sha256 archive-name
  local package=$1 version=$2 sha256=$3 name=$4-$2
  if [ ! -d ".deps/$name" ]; then
    echo "bootstrap: fetching $name"
    "$venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary :all: -d .deps/download "$package==$version"
    echo "$sha256  .deps/download/$name.tar.gz" | sha256sum -c --quiet
    tar -xzf ".deps/download/$name.tar.gz" -C .deps
  fi
}
# The Python grammar for tree-sitter; 0.23.6 is the last release that Debian's libtree-sitter 0.20.7 can load. Its archive
# lacks the headers that its C files include (tree_sitter/parser.h, array.h, alloc.h); the archive of the core has them.
fetch_sources tree-sitter-python 0.23.6 354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9 tree_sitter_python
fetch_sources tree-sitter 0.23.2 66bae8dd47f1fed7bdef816115146d3a41c39b5c482d7bad36d9ba1def088450 tree-sitter

wants() { [[ " $arguments " == *" $1 "* ]]; }
if wants --wheel && ! "$venv/bin/python" -c 'import importlib.metadata as m; assert m.version("scikit-build-core") == "0.11.6"' 2>/dev/null; then
  echo "bootstrap: installing scikit-build-core 0.11.6 into $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check scikit-build-core==0.11.6 packaging==25.0 pathspec==0.12.1
fi
if wants --triton && ! "$venv/bin/python" -c 'import importlib.metadata as m; assert m.version("triton") == "3.6.0"; import numpy' 2>/dev/null; then
  echo "bootstrap: installing Triton 3.6.0 into $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check triton==3.6.0 numpy==2.2.6 setuptools==80.9.0
fi
echo "bootstrap: ready"

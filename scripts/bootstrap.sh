#!/usr/bin/env bash
# Installs what Syncopate needs to build and test: Debian packages, and a few pinned PyPI packages into .deps/.
# Safe to run again; does nothing when everything is in place.
#   scripts/bootstrap.sh          build and C++ tests
#   scripts/bootstrap.sh --triton also Triton, for the tests that compile emitted kernels (about 750 MB)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(g++ cmake ninja-build ccache python3 python3-venv pkg-config
  libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libtree-sitter-dev libxxhash-dev
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

# The Python grammar for tree-sitter, a source distribution: its C files are compiled by our CMake. 0.23.6 is the last
# release that Debian's libtree-sitter 0.20.7 can load.
grammar=tree_sitter_python-0.23.6
grammar_sha256=354bfa0a2f9217431764a631516f85173e9711af2c13dbd796a8815acfe505d9
if [ ! -f ".deps/$grammar/src/parser.c" ]; then
  echo "bootstrap: fetching $grammar"
  "$venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary :all: -d .deps/download tree-sitter-python==0.23.6
  echo "$grammar_sha256  .deps/download/$grammar.tar.gz" | sha256sum -c --quiet
  tar -xzf ".deps/download/$grammar.tar.gz" -C .deps
fi

if [ "${1:-}" = "--triton" ] && ! "$venv/bin/python" -c 'import importlib.metadata as m; assert m.version("triton") == "3.6.0"; import numpy' 2>/dev/null; then
  echo "bootstrap: installing Triton 3.6.0 into $venv"
  "$venv/bin/pip" install -q --disable-pip-version-check triton==3.6.0 numpy==2.2.6 setuptools==80.9.0
fi
echo "bootstrap: ready"

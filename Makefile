# The few commands a newcomer needs. Everything real is in CMake (CMakePresets.json) and scripts/.
.PHONY: build wheel demo test sanitize bench format clean

build: ## the optimised binary, at build/release/syncopate
	@scripts/bootstrap.sh
	@cmake --preset release -DSYNCOPATE_TESTS=OFF -DSYNCOPATE_BENCHMARKS=OFF >/dev/null
	@cmake --build --preset release

wheel: ## the Python package, at out/wheel
	@scripts/bootstrap.sh --wheel
	@scripts/wheel.sh

demo: build ## compile, verify and run the all-gather GEMM on four CPU ranks
	@scripts/demo.sh

test: ## all tests
	@scripts/bootstrap.sh --triton --wheel
	@cmake --preset release -DSYNCOPATE_TESTS=ON -DSYNCOPATE_BENCHMARKS=ON >/dev/null
	@cmake --build --preset release
	@ctest --preset release

sanitize: ## the C++ tests under the address and undefined-behaviour sanitizers
	@scripts/bootstrap.sh
	@cmake --preset asan >/dev/null
	@cmake --build --preset asan
	@ctest --preset asan -LE triton

bench: ## the benchmarks behind docs/performance.md
	@scripts/bootstrap.sh
	@cmake --preset release -DSYNCOPATE_TESTS=OFF -DSYNCOPATE_BENCHMARKS=ON >/dev/null
	@cmake --build --preset release
	@build/release/syncopate_bench

format: ## clang-format over our sources
	@git ls-files '*.h' '*.cpp' | xargs clang-format-22 -i

clean:
	@rm -rf build out

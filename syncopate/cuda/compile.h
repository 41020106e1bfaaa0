// Triton text to machine code, by the installed Triton in a child process: Triton's compiler may abort, and no Python
// is to be in the process that launches. Needs no GPU.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "syncopate/cuda/signature.h"

namespace syncopate::cuda {

/// The version that everything was tested with; others may work.
inline constexpr const char* kTestedTriton = "3.6.0";

struct CompileOptions {
  std::string python = "python3";  ///< interpreter that has Triton
  std::string cache;               ///< folder of compiled kernels; made if missing
  int capability = 90;             ///< of the GPU: 10 * major + minor
  std::chrono::milliseconds limit = std::chrono::minutes(5);
};

/// A tensor descriptor that the kernel takes from its launch instead of making it in every thread block (hoist.py): a
/// tensor map by value, the shape in 32 bits each, the strides in 64.
struct DescriptorParameter {
  std::string pointer;  ///< the parameter that points to the tensor
  /// Expressions (core/expression.h) of the kernel's integer parameters, outermost dimension first; strides in
  /// elements.
  std::vector<std::string> shape;
  std::vector<std::string> strides;
  std::vector<std::int64_t> box;  ///< elements that one transfer moves
  int swizzle = 0;                ///< of the box in shared memory, a CUtensorMapSwizzle
  int element_bytes = 0;
};

struct CompiledKernel {
  std::string image;  ///< cubin
  std::string name;   ///< of the function in it
  int warps = 0;      ///< 32 threads each; warp specialisation adds to those asked for
  int shared_bytes = 0;
  int scratch_bytes = 0;  ///< of global memory for each thread block (tensor descriptors made by the kernel)
  /// Those that a launch passes, in order. The descriptors follow, and two pointers: to the scratch memory, and to one
  /// for profiles (null).
  std::vector<std::string> parameters;
  std::vector<DescriptorParameter> descriptors;
  bool hoist_refused = false;  ///< it could only be compiled with all descriptors left where they are
  bool from_cache = false;
};

/// The version of an installed package ("3.6.0"), or "" if that Python has none. Throws UserError if there is no such
/// Python.
std::string package_version(const std::string& python, const std::string& package);
std::string triton_version(const std::string& python);

/// Compiles one of the plan's kernels, or takes it from the cache. The key of the cache is all that the result depends
/// on: text, specialisation, options, Triton's version. Entries appear whole, so threads and processes may share a
/// cache; a damaged one is compiled again. Throws UserError with what the child said if Triton rejects the kernel,
/// aborts or takes too long.
CompiledKernel compile_kernel(const Plan& plan, KernelText text, const CompileOptions& options);

}  // namespace syncopate::cuda

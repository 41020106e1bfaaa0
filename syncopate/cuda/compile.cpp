#include "syncopate/cuda/compile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "syncopate/core/files.h"
#include "syncopate/core/json.h"
#include "syncopate/core/text.h"
#include "syncopate/cuda/compile_child.h"
#include "syncopate/cuda/process.h"

namespace syncopate::cuda {
namespace {

namespace fs = std::filesystem;

constexpr int kCacheVersion = 2;

/// A new folder, removed with what is in it.
class WorkFolder {
 public:
  WorkFolder() {
    std::string name = (fs::temp_directory_path() / "syncopate-compile-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr)
      throw UserError({name}, fmt::format("cannot be made ({})", std::strerror(errno)), "mend the temporary folder");
    path_ = name;
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string path(const char* name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

Json value_json(const Scalar& value) {
  return std::visit([](auto held) { return Json(held); }, value);
}

Json request_json(const std::string& function, const std::vector<ParameterType>& types, const KernelPart& kernel,
                  const CompileOptions& options) {
  Json parameters = Json::array();
  for (const ParameterType& type : types) {
    Json parameter =
        Json::object({{"name", type.name}, {"type", type.type}, {"divisible_by_16", type.divisible_by_16}});
    // A value that is not compiled in must not make another kernel of it.
    if (type.type == "constexpr" && type.value) parameter.set("value", value_json(*type.value));
    parameters.push_back(std::move(parameter));
  }
  return Json::object({{"function", function},
                       {"parameters", std::move(parameters)},
                       {"capability", options.capability},
                       {"warps", kernel.warps},
                       {"stages", kernel.stages}});
}

std::string bytes_of_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes(hex.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
  return bytes;
}

DescriptorParameter parse_descriptor(const SourceFile& file, const Json& json) {
  JsonReader reader(file, json, "descriptor");
  DescriptorParameter descriptor;
  descriptor.pointer = reader.string("pointer");
  for (const Json& size : reader.array("shape")) descriptor.shape.push_back(expect_string(file, size, "a size"));
  for (const Json& each : reader.array("strides")) descriptor.strides.push_back(expect_string(file, each, "a stride"));
  for (const Json& size : reader.array("box")) descriptor.box.push_back(expect_integer(file, size, "a size"));
  descriptor.swizzle = static_cast<int>(reader.integer("swizzle"));
  descriptor.element_bytes = static_cast<int>(reader.integer("element_bytes"));
  reader.finish();
  return descriptor;
}

CompiledKernel parse_result(const std::string& path, const std::string& text) {
  const SourceFile file(path, text);
  const Json json = parse_json(file);
  JsonReader reader(file, json, "compiled kernel");
  CompiledKernel kernel;
  kernel.name = reader.string("name");
  kernel.warps = static_cast<int>(reader.integer("warps"));
  kernel.shared_bytes = static_cast<int>(reader.integer("shared_bytes"));
  kernel.scratch_bytes = static_cast<int>(reader.integer("scratch_bytes"));
  for (const Json& name : reader.array("parameters"))
    kernel.parameters.push_back(expect_string(file, name, "a parameter"));
  for (const Json& descriptor : reader.array("descriptors"))
    kernel.descriptors.push_back(parse_descriptor(file, descriptor));
  kernel.hoist_refused = reader.integer("hoist_refused") != 0;
  const std::string image = reader.string("image");
  if (image.empty() || image.size() % 2 != 0 || image.find_first_not_of("0123456789abcdef") != std::string::npos)
    throw UserError({path}, "the kernel's image is not hexadecimal", "delete the file");
  kernel.image = bytes_of_hex(image);
  reader.finish();
  return kernel;
}

/// A damaged entry (by a full disk, say) is none: compiling again replaces it.
std::optional<CompiledKernel> cached(const std::string& path) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    CompiledKernel kernel = parse_result(path, read_file(path));
    kernel.from_cache = true;
    return kernel;
  } catch (const UserError&) {
    return std::nullopt;
  }
}

std::string last_lines(std::string_view text, int count) {
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  std::size_t begin = text.size();
  while (begin > 0 && (text[begin - 1] != '\n' || --count > 0)) --begin;
  return std::string(text.substr(begin));
}

std::string remedy_with(const std::string& version) {
  const std::string remedy = "change the kernel, its tile sizes, or the number of warps or stages";
  if (version == kTestedTriton) return remedy;
  return fmt::format("this is Triton {}, and Syncopate was tested with {}: install that, or {}", version, kTestedTriton,
                     remedy);
}

bool succeeded(const ProcessResult& child) { return !child.timed_out && child.signal == 0 && child.exit_code == 0; }

void check_child(const ProcessResult& child, const std::string& kernel, const std::string& version,
                 const CompileOptions& options) {
  if (succeeded(child)) return;
  std::string what;
  if (child.timed_out) {
    what = fmt::format("Triton took longer than {} s", std::chrono::duration<double>(options.limit).count());
  } else if (child.signal != 0) {
    what = fmt::format("Triton's compiler died of {}", strsignal(child.signal));
  } else {
    what = "Triton could not compile it";
  }
  throw UserError({kernel}, fmt::format("{}:\n{}", what, last_lines(child.output, 20)), remedy_with(version));
}

/// Gives `result` if the child succeeds.
ProcessResult run_child(const std::string& source, Json request, bool hoist, const CompileOptions& options,
                        std::string& result) {
  request.set("hoist", hoist);
  const WorkFolder folder;
  FileTransaction files;
  files.write(folder.path("kernel.py"), source);
  files.write(folder.path("request.json"), request.dump());
  files.write(folder.path("compile_child.py"), compile_child_py());
  files.write(folder.path("hoist.py"), hoist_py());
  files.commit();
  ProcessResult child = run_process({options.python, "compile_child.py"}, folder.path(), options.limit);
  if (succeeded(child)) result = read_file(folder.path("result.json"));
  return child;
}

std::string compile_in_child(const std::string& source, const Json& request, const std::string& label,
                             const std::string& version, const CompileOptions& options) {
  std::string result;
  ProcessResult child = run_child(source, request, true, options, result);
  // Hoisting may be to blame. If it is not, what Triton says now is about the text that the user knows.
  if (!succeeded(child) && !child.timed_out && source.find("make_tensor_descriptor") != std::string::npos)
    child = run_child(source, request, false, options, result);
  check_child(child, label, version, options);
  return result;
}

}  // namespace

std::string package_version(const std::string& python, const std::string& package) {
  const ProcessResult child =
      run_process({python, "-c", fmt::format("import importlib.metadata as m; print(m.version('{}'))", package)}, ".",
                  std::chrono::minutes(1));
  if (child.exit_code != 0) return {};
  return child.output.substr(0, child.output.find('\n'));
}

std::string triton_version(const std::string& python) { return package_version(python, "triton"); }

CompiledKernel compile_kernel(const Plan& plan, KernelText text, const CompileOptions& options) {
  const bool fused = text == KernelText::fused;
  const std::string& source = fused ? plan.kernel.fused_source : plan.kernel.local_source;
  const std::string& function = fused ? plan.kernel.fused_function : plan.kernel.function;
  const std::string version = triton_version(options.python);
  if (version.empty())
    throw UserError({options.python}, "this Python has no Triton",
                    fmt::format("install Triton {} for it, or name another Python with --python", kTestedTriton));
  const Json request = request_json(function, signature_of(plan, text), plan.kernel, options);
  const std::string key = content_hash(fmt::format("{}\n{}\n{}\n{}", kCacheVersion, version, request.dump(), source));
  const std::string path = (fs::path(options.cache) / (key + ".json")).string();
  if (std::optional<CompiledKernel> kernel = cached(path)) return *std::move(kernel);
  const std::string result = compile_in_child(
      source, request, fmt::format("{} ({})", fused ? "fused.py" : plan.kernel.file, function), version, options);
  CompiledKernel kernel = parse_result("result.json", result);
  FileTransaction files;
  files.write(path, result);
  files.commit();
  return kernel;
}

}  // namespace syncopate::cuda

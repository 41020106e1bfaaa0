#include "syncopate/host/unfused.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "syncopate/host/inputs.h"
#include "syncopate/host/worker_agent.h"
#include "syncopate/kernel/concrete.h"
#include "syncopate/kernel/syntax.h"

namespace syncopate::host {
namespace {

/// One rank's memory with nobody else about.
class QuietMemory final : public Environment {
 public:
  QuietMemory(const Plan& plan, std::vector<Bytes> buffers) : plan_(plan), buffers_(std::move(buffers)) {}

  std::span<std::byte> access(int buffer, AccessKind, std::span<const Run> runs, const SourceLocation& where) override {
    const Buffer& about = plan_.buffer(buffer);
    const std::int64_t elements = volume(about.shape);
    for (const Run& run : runs)
      if (run.offset < 0 || run.count > elements - run.offset)
        throw UserError(where,
                        fmt::format("the kernel accesses elements {} to {} of {}, which has {} ({})", run.offset,
                                    run.offset + run.count, about.name, elements, to_string(about.shape)),
                        "check the tensor's shape and the kernel's arguments");
    return buffers_[static_cast<std::size_t>(buffer)];
  }

  bool wait(const WaitRequest& request) override {
    throw UserError(request.where, "the local kernel waits for a signal", "only fused kernels may");
  }

  std::vector<Bytes>& buffers() { return buffers_; }

 private:
  const Plan& plan_;
  std::vector<Bytes> buffers_;
};

std::string value_text(const std::byte* address, Dtype dtype) {
  if (dtype == Dtype::fp64) {
    double value = 0;
    std::memcpy(&value, address, sizeof value);
    return fmt::format("{}", value);
  }
  if (is_floating(dtype)) return fmt::format("{}", load_element(address, dtype));
  std::uint64_t bits = 0;
  const auto size = static_cast<std::size_t>(size_in_bytes(dtype));
  std::memcpy(&bits, address, size);
  if (!is_signed_integer(dtype)) return fmt::format("{}", bits);
  const auto unused = static_cast<int>(64 - 8 * size);
  return fmt::format("{}", static_cast<std::int64_t>(bits << unused) >> unused);
}

/// "c[3, 17]".
std::string element_text(const Buffer& buffer, const Region& element) {
  std::vector<std::int64_t> index;
  for (int d = 0; d < element.dimensions(); ++d) index.push_back(element[d].begin);
  return fmt::format("{}[{}]", buffer.name, fmt::join(index, ", "));
}

std::string writing_tile(const Plan& plan, std::size_t buffer, const Region& element) {
  for (const Tile& tile : plan.tiles)
    for (const TileAccess& access : tile.writes)
      if (access.buffer == static_cast<int>(buffer) && access.region.contains(element))
        return fmt::format(" of tile ({})", fmt::join(tile.index, ", "));
  return {};
}

}  // namespace

std::shared_ptr<const Program> load_program(const std::string& file, const std::string& text,
                                            const std::string& function) {
  const std::shared_ptr<const Module> module = parse_module(std::make_shared<const SourceFile>(file, text));
  const Function* found = module->find(function);
  if (found == nullptr)
    throw UserError({file, 0, 0}, fmt::format("there is no function '{}'", function),
                    "the plan names a kernel that its source does not have");
  return lower(module, *found);
}

std::vector<Bytes> run_unfused(const Plan& plan, const std::shared_ptr<const Program>& local,
                               const std::vector<Bytes>& inputs) {
  std::vector<Bytes> buffers;
  for (std::size_t buffer = 0; buffer < plan.buffers.size(); ++buffer) {
    const Buffer& about = plan.buffers[buffer];
    buffers.push_back(inputs[buffer].empty() ? poison(about.dtype, volume(about.shape)) : inputs[buffer]);
  }
  QuietMemory memory(plan, std::move(buffers));
  const Arguments arguments = kernel_arguments(plan);
  const auto programs = plan.kernel.persistent ? std::int64_t{1} : static_cast<std::int64_t>(plan.tiles.size());
  for (std::int64_t program = 0; program < programs; ++program)
    run_to_end(local, arguments, {program}, {programs}, memory);
  const std::vector<bool> written = written_by_tiles(plan);
  for (std::size_t buffer = 0; buffer < written.size(); ++buffer)
    if (!written[buffer]) memory.buffers()[buffer].clear();
  return std::move(memory.buffers());
}

std::optional<std::string> first_difference(const Plan& plan, int rank, std::int64_t launch,
                                            const std::vector<Bytes>& outputs, const std::vector<Bytes>& expected) {
  for (std::size_t buffer = 0; buffer < outputs.size(); ++buffer) {
    if (outputs[buffer] == expected[buffer]) continue;
    const Buffer& about = plan.buffers[buffer];
    const auto size = static_cast<std::size_t>(size_in_bytes(about.dtype));
    std::size_t at = 0;
    while (std::memcmp(outputs[buffer].data() + at, expected[buffer].data() + at, size) == 0) at += size;
    const Region element = element_region(static_cast<std::int64_t>(at / size), about.shape);
    return fmt::format("rank {}, launch {}: {}{} is {}, but the unfused operator gives {}", rank, launch,
                       element_text(about, element), writing_tile(plan, buffer, element),
                       value_text(outputs[buffer].data() + at, about.dtype),
                       value_text(expected[buffer].data() + at, about.dtype));
  }
  return std::nullopt;
}

}  // namespace syncopate::host

namespace syncopate {

std::vector<Bytes> run_unfused(const Plan& plan, const std::vector<Bytes>& inputs) {
  const KernelPart& kernel = plan.kernel;
  return host::run_unfused(plan, host::load_program(kernel.file, kernel.local_source, kernel.function), inputs);
}

}  // namespace syncopate

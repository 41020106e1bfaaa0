#include "syncopate/cuda/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "syncopate/core/error.h"
#include "syncopate/core/text.h"
#include "syncopate/cuda/board.h"
#include "syncopate/cuda/compile.h"

namespace syncopate::cuda {
namespace {

constexpr int kLeastCapability = 90;

// --- finding out -----------------------------------------------------------------------------------------------------

DeviceUuid uuid_of(const Driver& driver, Device device) {
  DeviceUuid uuid;
  driver.check(driver.device_get_uuid(&uuid, device), "asking a GPU who it is");
  return uuid;
}

Machine::GpuFacts gpu_facts(const Driver& driver, const std::optional<Nvml>& nvml, Device device) {
  std::size_t bytes = 0;
  driver.check(driver.device_total_memory(&bytes, device), "reading the memory size of the GPU");
  return {.name = driver.name(device),
          .bytes = static_cast<std::int64_t>(bytes),
          .multiprocessors = driver.attribute(DeviceAttribute::multiprocessors, device),
          .capability = 10 * driver.attribute(DeviceAttribute::capability_major, device) +
                        driver.attribute(DeviceAttribute::capability_minor, device),
          .copy_engines = driver.attribute(DeviceAttribute::copy_engines, device),
          .stream_operations = driver.attribute(DeviceAttribute::stream_memory_operations_64, device) != 0,
          .nvlinks = nvml ? nvml->active_nvlinks(uuid_of(driver, device)) : 0};
}

Machine::LinkFacts link_facts(const Driver& driver, const std::optional<Nvml>& nvml, Device from, Device to) {
  int access = 0;
  driver.check(driver.device_can_access_peer(&access, from, to), "asking for peer access");
  return {.access = access != 0,
          .atomics = driver.attribute(PeerAttribute::native_atomics, from, to) != 0,
          .nvlink = nvml ? nvml->joined_by_nvlink(uuid_of(driver, from), uuid_of(driver, to)) : std::nullopt,
          .rank = driver.attribute(PeerAttribute::performance_rank, from, to)};
}

void examine_driver(const DoctorOptions& options, Machine& machine) {
  try {
    const std::shared_ptr<const Driver> driver = Driver::load(options.library);
    examine_gpus(*driver, Nvml::load(options.management_library), machine);
  } catch (const UserError& error) {
    machine.no_gpus = error.problem();
  }
}

void examine_python(const DoctorOptions& options, Machine& machine) {
  machine.python = options.python;
  try {
    machine.triton = triton_version(options.python);
    machine.torch = package_version(options.python, "torch");
  } catch (const UserError& error) {
    machine.no_python = error.what();
  }
}

void examine_shared_memory(Machine& machine) {
  try {
    Board::make();
  } catch (const UserError& error) {
    machine.no_shared_memory = error.problem();
  }
}

// --- saying ----------------------------------------------------------------------------------------------------------

std::string line(std::string_view label, std::string_view text) { return fmt::format("  {:<14}{}\n", label, text); }

/// Lines of which the first has a label.
std::string lines(std::string_view label, const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += line(all.empty() ? label : "", text);
  return all;
}

bool is_usable(const Machine::GpuFacts& gpu) { return gpu.stream_operations && gpu.capability >= kLeastCapability; }

std::string describe_gpu(const Machine::GpuFacts& gpu) {
  return fmt::format("{}, {}, {} SMs, compute capability {}.{}, {} copy engines, 64-bit stream memory operations: {}{}",
                     gpu.name, format_bytes(gpu.bytes), gpu.multiprocessors, gpu.capability / 10, gpu.capability % 10,
                     gpu.copy_engines, gpu.stream_operations ? "yes" : "no",
                     gpu.nvlinks > 0 ? fmt::format(", {} NVLinks", gpu.nvlinks) : "");
}

std::string describe_link(const Machine::LinkFacts& link) {
  const std::string kind = link.nvlink ? *link.nvlink ? "NVLink, " : "no NVLink, " : "";
  if (!link.access) return kind + "no peer access";
  return fmt::format("{}peer access, {} native atomics, performance rank {}", kind, link.atomics ? "with" : "without",
                     link.rank);
}

/// A line for each kind of link, with the pairs of GPUs that it joins.
std::vector<std::string> describe_links(const Machine& machine) {
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;
  const auto add = [&](const Machine::LinkFacts& link, std::string pair) {
    const std::string kind = describe_link(link);
    auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& each) { return each.first == kind; });
    if (known == kinds.end()) known = kinds.insert(kinds.end(), {kind, {}});
    known->second.push_back(std::move(pair));
  };
  for (std::size_t from = 0; from < machine.gpus.size(); ++from) {
    for (std::size_t to = from + 1; to < machine.gpus.size(); ++to) {
      const bool alike = machine.links[from][to] == machine.links[to][from];
      add(machine.links[from][to], fmt::format("{}{}{}", from, alike ? "-" : "->", to));
      if (!alike) add(machine.links[to][from], fmt::format("{}->{}", to, from));
    }
  }
  std::vector<std::string> texts;
  for (const auto& [kind, pairs] : kinds)
    texts.push_back(
        fmt::format("{}: {}", kinds.size() == 1 ? "all GPUs" : fmt::format("GPUs {}", fmt::join(pairs, ", ")), kind));
  return texts;
}

std::string describe_gpus(const Machine& machine) {
  if (!machine.no_gpus.empty()) return line("GPUs", "none: " + machine.no_gpus);
  std::string text = line(
      "driver", fmt::format("{}for CUDA {}.{}", machine.driver_version.empty() ? "" : machine.driver_version + ", ",
                            machine.cuda_version / 1000, machine.cuda_version % 1000 / 10));
  for (std::size_t ordinal = 0; ordinal < machine.gpus.size(); ++ordinal)
    text += line(fmt::format("GPU {}", ordinal), describe_gpu(machine.gpus[ordinal]));
  return text + lines("links", describe_links(machine));
}

std::string describe_python(const Machine& machine) {
  if (!machine.no_python.empty()) return line("Python", "no: " + machine.no_python);
  const auto package = [&](std::string_view name, const std::string& version, const std::string& remark) {
    return line(name, version.empty()
                          ? fmt::format("not installed for {}; another Python is named with --python", machine.python)
                          : fmt::format("{} (of {}){}", version, machine.python, remark));
  };
  return package("Triton", machine.triton,
                 machine.triton == kTestedTriton ? "" : fmt::format("; tested with {}", kTestedTriton)) +
         package("torch", machine.torch, "");
}

/// How many of the first GPUs can have a rank each, and why no more.
struct OneEach {
  std::size_t ranks = 0;
  std::string limit;
};

std::string problem_between(const Machine& machine, std::size_t gpu, std::size_t other) {
  const auto links = {machine.links[gpu][other], machine.links[other][gpu]};
  const auto all = [&](bool Machine::LinkFacts::* has) {
    return std::all_of(links.begin(), links.end(), [&](const Machine::LinkFacts& link) { return link.*has; });
  };
  if (machine.gpus[gpu].capability != machine.gpus[other].capability)
    return fmt::format("GPUs {} and {} are of different kinds", other, gpu);
  if (!all(&Machine::LinkFacts::access))
    return fmt::format("GPUs {} and {} do not reach each other's memory; use GPUs joined by NVLink", other, gpu);
  if (!all(&Machine::LinkFacts::atomics))
    return fmt::format("no native atomics between GPUs {} and {}; use GPUs joined by NVLink", other, gpu);
  return {};
}

OneEach one_each(const Machine& machine) {
  OneEach fits;
  for (; fits.ranks < machine.gpus.size(); ++fits.ranks) {
    if (!is_usable(machine.gpus[fits.ranks])) fits.limit = fmt::format("Syncopate does not run on GPU {}", fits.ranks);
    for (std::size_t other = 0; other < fits.ranks && fits.limit.empty(); ++other)
      fits.limit = problem_between(machine, fits.ranks, other);
    if (!fits.limit.empty()) return fits;
  }
  fits.limit = fmt::format("there {} {} GPU{}", fits.ranks == 1 ? "is" : "are", fits.ranks, fits.ranks == 1 ? "" : "s");
  return fits;
}

/// Why nothing runs on a GPU here, and what to do; empty if something does. Ranks that share a GPU share GPU 0.
std::string missing_for_gpus(const Machine& machine) {
  std::vector<std::string> needed;
  const std::string capability =
      fmt::format("of compute capability {}.{} or higher", kLeastCapability / 10, kLeastCapability % 10);
  if (machine.gpus.empty())
    needed.push_back("a GPU " + capability);
  else if (!is_usable(machine.gpus.front()))
    needed.push_back(fmt::format("GPU 0 to be {}, with 64-bit stream memory operations", capability));
  if (machine.triton.empty())
    needed.push_back(
        fmt::format("Triton (pip install triton=={}, or name a Python that has it with --python)", kTestedTriton));
  return fmt::format("{}", fmt::join(needed, ", and "));
}

/// The same for operators in programs.
std::string missing_for_operators(const Machine& machine) {
  if (machine.torch.empty()) return "torch (pip install torch, or name a Python that has it with --python)";
  if (machine.torch.ends_with("+cpu")) return fmt::format("a torch with CUDA; {} has none", machine.torch);
  if (!machine.no_shared_memory.empty())
    return fmt::format("host memory that processes share: {}", machine.no_shared_memory);
  return {};
}

}  // namespace

void examine_gpus(const Driver& driver, const std::optional<Nvml>& nvml, Machine& machine) {
  driver.check(driver.driver_get_version(&machine.cuda_version), "reading the driver's version");
  if (nvml) machine.driver_version = nvml->driver_version();
  std::vector<Device> devices(static_cast<std::size_t>(driver.count()));
  for (std::size_t ordinal = 0; ordinal < devices.size(); ++ordinal)
    driver.check(driver.device_get(&devices[ordinal], static_cast<int>(ordinal)), "looking for a GPU");
  std::vector<Machine::GpuFacts> gpus;
  std::vector<std::vector<Machine::LinkFacts>> links(devices.size());
  for (const Device from : devices) {
    gpus.push_back(gpu_facts(driver, nvml, from));
    for (const Device to : devices)
      links[gpus.size() - 1].push_back(from == to ? Machine::LinkFacts{} : link_facts(driver, nvml, from, to));
  }
  machine.gpus = std::move(gpus);  // all that is known, or nothing
  machine.links = std::move(links);
}

std::string describe(const Machine& machine) {
  std::vector<std::string> works = {"compile, verify, show, schedule, run on CPU ranks"};
  std::vector<std::string> fails;
  const auto sort = [&](std::string_view what, const std::string& missing, std::string_view how) {
    if (missing.empty()) works.push_back(fmt::format("{}: {}", what, how));
    if (!missing.empty()) fails.push_back(fmt::format("{}: needs {}", what, missing));
  };
  if (const std::string missing = missing_for_gpus(machine); !missing.empty()) {
    sort("run --on gpu, profile, Operator in Python", missing, "");
  } else {
    const OneEach each = one_each(machine);
    sort("run --on gpu --share, profile --share", "", "all ranks on GPU 0");
    sort("run --on gpu, profile", each.ranks < 2 ? "two GPUs or more; " + each.limit : "",
         fmt::format("up to {} ranks, a GPU each ({})", each.ranks, each.limit));
    sort("Operator in Python, a process for each rank", missing_for_operators(machine),
         each.ranks < 2 ? "ranks that share a GPU (share=True)"
                        : fmt::format("up to {} ranks, a GPU each, or more that share one (share=True)", each.ranks));
  }
  return describe_gpus(machine) + describe_python(machine) + lines("works here", works) + lines("does not", fails);
}

std::string doctor(const DoctorOptions& options) {
  Machine machine;
  examine_driver(options, machine);
  examine_python(options, machine);
  examine_shared_memory(machine);
  return describe(machine);
}

}  // namespace syncopate::cuda

#include "syncopate/cuda/doctor.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

#include "syncopate/core/error.h"
#include "syncopate/core/text.h"
#include "syncopate/cuda/compile.h"
#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {
namespace {

std::string line(std::string_view label, std::string_view text) { return fmt::format("  {:<14}{}\n", label, text); }

struct Found {
  bool gpu = false;  ///< one that Syncopate can use
  int gpus = 0;
  bool peers = false;  ///< all of them reach each other
  bool triton = false;
};

std::string describe_gpu(const Driver& driver, int ordinal, Found& found) {
  Device device = 0;
  driver.check(driver.device_get(&device, ordinal), "looking for a GPU");
  std::size_t bytes = 0;
  driver.check(driver.device_total_memory(&bytes, device), "reading the memory size of the GPU");
  const int major = driver.attribute(DeviceAttribute::capability_major, device);
  const int minor = driver.attribute(DeviceAttribute::capability_minor, device);
  const bool stream_operations = driver.attribute(DeviceAttribute::stream_memory_operations_64, device) != 0;
  found.gpu = found.gpu || (stream_operations && major >= 9);
  return line(
      fmt::format("GPU {}", ordinal),
      fmt::format("{}, {}, {} SMs, compute capability {}.{}, {} copy engines, 64-bit stream memory operations: {}",
                  driver.name(device), format_bytes(static_cast<std::int64_t>(bytes)),
                  driver.attribute(DeviceAttribute::multiprocessors, device), major, minor,
                  driver.attribute(DeviceAttribute::copy_engines, device), stream_operations ? "yes" : "no"));
}

std::string describe_peers(const Driver& driver, Found& found) {
  std::string text;
  found.peers = true;
  for (int from = 0; from < found.gpus; ++from) {
    std::string row;
    for (int to = 0; to < found.gpus; ++to) {
      int can = 1;
      if (from != to) driver.check(driver.device_can_access_peer(&can, from, to), "asking for peer access");
      row += from == to ? " -" : can != 0 ? " y" : " n";
      found.peers = found.peers && can != 0;
    }
    text += line(from == 0 ? "peer access" : "", fmt::format("GPU {} reaches{}", from, row));
  }
  return text;
}

std::string describe_gpus(const DoctorOptions& options, Found& found) {
  std::shared_ptr<const Driver> driver;
  try {
    driver = Driver::load(options.library);
  } catch (const UserError& error) {
    return line("GPUs", "none: " + error.problem());
  }
  try {
    int version = 0;
    driver->check(driver->driver_get_version(&version), "reading the driver's version");
    std::string text = line("driver", fmt::format("for CUDA {}.{}", version / 1000, version % 1000 / 10));
    found.gpus = driver->count();
    for (int ordinal = 0; ordinal < found.gpus; ++ordinal) text += describe_gpu(*driver, ordinal, found);
    if (found.gpus > 1) text += describe_peers(*driver, found);
    return text;
  } catch (const UserError& error) {
    return line("GPUs", error.problem());
  }
}

std::string describe_triton(const DoctorOptions& options, Found& found) {
  try {
    const std::string version = triton_version(options.python);
    found.triton = !version.empty();
    return line("Triton",
                found.triton
                    ? fmt::format("{} (of {}){}", version, options.python,
                                  version == kTestedTriton ? "" : fmt::format("; tested with {}", kTestedTriton))
                    : fmt::format("not installed for {}; another Python is named with --python", options.python));
  } catch (const UserError& error) {
    return line("Triton", fmt::format("no: {}", error.what()));
  }
}

}  // namespace

std::string doctor(const DoctorOptions& options) {
  Found found;
  std::string text = describe_gpus(options, found) + describe_triton(options, found);
  text += line("works here", "compile, verify, show, run on CPU ranks");
  if (found.gpu && found.triton) {
    text += line("", "run --on gpu --share, profile --share: all ranks on GPU 0");
    if (found.gpus > 1 && found.peers)
      text += line("", fmt::format("run --on gpu, profile: up to {} ranks", found.gpus));
  } else {
    text += line("does not", fmt::format("run --on gpu: needs {}",
                                         found.gpu      ? "Triton"
                                         : found.triton ? "a GPU of compute capability 9.0 or higher"
                                                        : "a GPU of compute capability 9.0 or higher, and Triton"));
  }
  return text;
}

}  // namespace syncopate::cuda

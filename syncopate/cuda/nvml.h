// NVIDIA's management library, where it is installed: what it knows of links that the driver does not tell.
#pragma once

#include <optional>
#include <string>

#include "syncopate/cuda/driver.h"

namespace syncopate::cuda {

class Nvml {
 public:
  /// Nothing if it is missing or does not work here: nobody needs it.
  static std::optional<Nvml> load(const std::string& library = "libnvidia-ml.so.1");

  /// "580.65.06"; empty if it does not say.
  std::string driver_version() const;
  /// Links of a GPU that are up; 0 if it has none, or does not say.
  int active_nvlinks(const DeviceUuid& gpu) const;
  /// Whether NVLink joins two GPUs; nothing if it does not say.
  std::optional<bool> joined_by_nvlink(const DeviceUuid& from, const DeviceUuid& to) const;

 private:
  struct DeviceObject;
  using NvmlDevice = DeviceObject*;

  NvmlDevice find(const DeviceUuid& gpu) const;

  int (*init_)() = nullptr;
  int (*system_get_driver_version_)(char* text, unsigned length) = nullptr;
  int (*device_get_handle_by_uuid_)(const char* uuid, NvmlDevice* device) = nullptr;
  int (*device_get_nvlink_state_)(NvmlDevice device, unsigned link, unsigned* active) = nullptr;
  int (*device_get_p2p_status_)(NvmlDevice from, NvmlDevice to, int capability, int* status) = nullptr;
};

}  // namespace syncopate::cuda

#include "syncopate/cuda/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>

namespace syncopate::cuda {
namespace {

constexpr int kNvmlSuccess = 0;
constexpr int kNvlinkCapability = 2;  ///< NVML_P2P_CAPS_INDEX_NVLINK
constexpr int kStatusOk = 0;          ///< NVML_P2P_STATUS_OK
constexpr unsigned kMostLinks = 18;   ///< NVML_NVLINK_MAX_LINKS

template <typename FunctionPointer>
bool find_function(void* library, FunctionPointer& function, const char* name) {
  function = reinterpret_cast<FunctionPointer>(dlsym(library, name));
  return function != nullptr;
}

/// As the library spells it: "GPU-01234567-89ab-cdef-0123-456789abcdef".
std::string text_of(const DeviceUuid& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

std::optional<Nvml> Nvml::load(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed, as the driver is not
  if (handle == nullptr) return std::nullopt;
  Nvml nvml;
  const bool whole = find_function(handle, nvml.init_, "nvmlInit_v2") &&
                     find_function(handle, nvml.system_get_driver_version_, "nvmlSystemGetDriverVersion") &&
                     find_function(handle, nvml.device_get_handle_by_uuid_, "nvmlDeviceGetHandleByUUID") &&
                     find_function(handle, nvml.device_get_nvlink_state_, "nvmlDeviceGetNvLinkState") &&
                     find_function(handle, nvml.device_get_p2p_status_, "nvmlDeviceGetP2PStatus");
  if (!whole || nvml.init_() != kNvmlSuccess) return std::nullopt;
  return nvml;
}

std::string Nvml::driver_version() const {
  std::array<char, 96> text{};
  if (system_get_driver_version_(text.data(), static_cast<unsigned>(text.size()) - 1) != kNvmlSuccess) return {};
  return text.data();
}

Nvml::NvmlDevice Nvml::find(const DeviceUuid& gpu) const {
  NvmlDevice device = nullptr;
  return device_get_handle_by_uuid_(text_of(gpu).c_str(), &device) == kNvmlSuccess ? device : nullptr;
}

int Nvml::active_nvlinks(const DeviceUuid& gpu) const {
  NvmlDevice device = find(gpu);
  int links = 0;
  for (unsigned link = 0; device != nullptr && link < kMostLinks; ++link) {
    unsigned active = 0;
    if (device_get_nvlink_state_(device, link, &active) == kNvmlSuccess && active != 0) ++links;
  }
  return links;
}

std::optional<bool> Nvml::joined_by_nvlink(const DeviceUuid& from, const DeviceUuid& to) const {
  NvmlDevice here = find(from);
  NvmlDevice there = find(to);
  int status = -1;
  if (here == nullptr || there == nullptr ||
      device_get_p2p_status_(here, there, kNvlinkCapability, &status) != kNvmlSuccess)
    return std::nullopt;
  return status == kStatusOk;
}

}  // namespace syncopate::cuda

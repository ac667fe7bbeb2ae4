// Which plugins this process tries, and in what order.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/pjrt/client.h"
#include "lockstep/pjrt/discovery.h"
#include "lockstep/support/error.h"

namespace lockstep::runtime {

struct PlatformChoice {
  std::string platform;
  std::vector<pjrt::PluginPlace> places;  // the first that works is used
};

// By JAX_PLATFORMS: the platforms it names, in its order, of which the first is used or refused, never passed over.
// "gpu" is "cuda" or "rocm", whichever there is. Unset: what was found, the CPU last, of which the first that works is
// used. Error(plugin) for a named platform that nothing was found
// for, with what was found.
std::vector<PlatformChoice> platform_choices();
// JAX_PLATFORMS; empty if the choice is left to the library.
std::string named_platforms();

// Why a plugin can't be used, in one line: the plugin's function first, if it was one.
std::string reason_of(const Error& error);
std::string one_line(std::string_view text);

// "cuda, PJRT C API 0.115, build 3f2a...", of each choice; a plugin that cannot be loaded has its reason here. Equal
// texts mean that processes will make the same choice and find the same compiler.
std::string plugin_identity();
// The build id that the linker left in the plugin, or else the SHA-256 of its file.
std::string plugin_build(const pjrt::Plugin& plugin);

// JAX numbers CPU devices in blocks of this size, one for each process.
inline constexpr int kCpuDevicesPerProcess = 2048;
// JAX_NUM_CPU_DEVICES (default 1). Error(invalid_argument).
int cpu_device_count();

// A client of the plugin as this process needs it. "cpu" has cpu_device_count() devices, of this process alone. Others
// are told, in a gang, this process's number and how many there are, and get the gang's key-value store; CUDA and ROCm
// also what XLA_PYTHON_CLIENT_ALLOCATOR, XLA_CLIENT_MEM_FRACTION, XLA_PYTHON_CLIENT_PREALLOCATE and
// XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB say, and which local devices to use. Error(plugin), also if there is no
// device.
std::unique_ptr<pjrt::Client> make_client(const std::string& platform, const pjrt::PluginPlace& place);

}  // namespace lockstep::runtime

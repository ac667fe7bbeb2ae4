#include "lockstep/pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/values.h"
#include "lockstep/support/library.h"

namespace lockstep::pjrt {
namespace {

constexpr const char* kLoad = "load_plugin";

struct Registry {
  std::mutex mutex;
  std::map<std::string, const Plugin*> by_path;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

void quieten() {
  const char* keep = std::getenv("LOCKSTEP_PLUGIN_LOG");
  if (keep != nullptr && std::string(keep) == "1") return;
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
}

const PJRT_Api* open_library(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw_error(ErrorCode::plugin, kLoad, "no such file: {}", path);
  quieten();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw_error(ErrorCode::plugin, kLoad, "{} cannot be loaded: {}", path, dlerror());
  auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"));
  if (get == nullptr) {
    dlclose(library);
    throw_error(ErrorCode::plugin, kLoad, "{} is no PJRT plugin: it does not export GetPjrtApi", path);
  }
  const PJRT_Api* api = nullptr;
  try {
    api = get();
  } catch (...) {
    throw_plugin_exception("GetPjrtApi");
  }
  if (api == nullptr) throw_error(ErrorCode::plugin, kLoad, "GetPjrtApi of {} returned null", path);
  return api;
}

}  // namespace

const Plugin& Plugin::load(const std::string& path) {
  std::error_code failed;
  auto canonical = std::filesystem::weakly_canonical(path, failed);
  std::string key = failed ? path : canonical.string();
  std::lock_guard lock(registry().mutex);
  auto& plugin = registry().by_path[key];
  if (plugin == nullptr) plugin = new Plugin(open_library(path), path);
  return *plugin;
}

const Plugin& Plugin::from_api(const PJRT_Api* api, const std::string& name) {
  std::lock_guard lock(registry().mutex);
  auto& plugin = registry().by_path["api:" + name];
  if (plugin == nullptr) plugin = new Plugin(api, name);
  if (plugin->api() != api)
    throw_error(ErrorCode::plugin, kLoad, "another plugin is already registered under the name {}", name);
  return *plugin;
}

Plugin::Plugin(const PJRT_Api* api, std::string path) : api_(api), path_(std::move(path)) {
  constexpr std::size_t header = offsetof(PJRT_Api, pjrt_api_version) + sizeof(PJRT_Api_Version);
  if (api->struct_size < header)
    throw_error(ErrorCode::plugin, kLoad, "{}: its API table has {} bytes, too few to hold even a version", path_,
                api->struct_size);
  if (major_version() != PJRT_API_MAJOR)
    throw_error(ErrorCode::plugin, kLoad, "{} speaks PJRT C API {}.{}; lockstep speaks {}.x", path_, major_version(),
                minor_version(), PJRT_API_MAJOR);
  if (LS_PJRT(PJRT_Plugin_Initialize)::available(api)) LS_PJRT(PJRT_Plugin_Initialize)()(api);
  if (LS_PJRT(PJRT_Plugin_Attributes)::available(api)) {
    LS_PJRT(PJRT_Plugin_Attributes) attributes;
    attributes(api);
    attributes_ = from_c({attributes->attributes, attributes->num_attributes});
  }
}

int Plugin::major_version() const { return api_->pjrt_api_version.major_version; }
int Plugin::minor_version() const { return api_->pjrt_api_version.minor_version; }

const void* Plugin::extension(int type, std::size_t size) const {
  for (const PJRT_Extension_Base* e = api_->extension_start; e != nullptr; e = e->next)
    if (static_cast<int>(e->type) == type && e->struct_size >= size) return e;
  return nullptr;
}

std::vector<Plugin::Extension> Plugin::extensions() const {
  static constexpr const char* kNames[] = {"GpuCustomCall",
                                           "Profiler",
                                           "CustomPartitioner",
                                           "Stream",
                                           "Layouts",
                                           "FFI",
                                           "MemoryDescriptions",
                                           "Triton",
                                           "RawBuffer",
                                           "PhaseCompile",
                                           "Example",
                                           "Unknown",
                                           "CrossHostTransfers",
                                           "ExecutableMetadata",
                                           "Callback",
                                           "HostAllocator",
                                           "TpuTopology",
                                           "TpuExecutable",
                                           "Megascale",
                                           "Shardings",
                                           "AbiVersion",
                                           "Collectives",
                                           "MultiSlice",
                                           "HostMemoryAllocator",
                                           "XlaTransform"};
  std::vector<Extension> out;
  for (const PJRT_Extension_Base* e = api_->extension_start; e != nullptr; e = e->next) {
    auto type = static_cast<std::size_t>(e->type);
    out.push_back(
        {static_cast<int>(type), type < std::size(kNames) ? kNames[type] : std::to_string(type), e->struct_size});
  }
  return out;
}

std::string find_cpu_plugin() {
  constexpr const char* name = "pjrt_c_api_cpu_plugin.so";
  std::string tried;
  auto look = [&](const std::string& path, const std::string& why) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) return true;
    tried += fmt::format("\n  {} ({})", path, why);
    return false;
  };
  // A path that the user gave is used or refused, never passed over.
  if (const char* given = std::getenv("LOCKSTEP_CPU_PLUGIN")) {
    if (look(given, "LOCKSTEP_CPU_PLUGIN")) return given;
  } else {
    std::string bundled = support::bundled_plugin_directory();
    if (bundled.empty())
      tried += fmt::format("\n  lockstep/plugins beside {} (no such directory)", support::library_directory());
    else if (std::string path = bundled + "/" + name; look(path, "where the library keeps its plugins"))
      return path;
  }
  throw_error(ErrorCode::plugin, "find_cpu_plugin",
              "the CPU plugin was not found. Tried:{}\nRun scripts/setup.sh, or set LOCKSTEP_CPU_PLUGIN to its path.",
              tried);
}

}  // namespace lockstep::pjrt

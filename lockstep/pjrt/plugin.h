// PJRT plugins: shared libraries that compile and run StableHLO for one kind of device. Each is loaded by path, in
// isolation (its symbols stay its own), once per process, and stays: XLA cannot be unloaded.
//
// The plugin's own log lines are off unless the user set TF_CPP_MIN_LOG_LEVEL, or LOCKSTEP_PLUGIN_LOG=1.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

struct PJRT_Api;

namespace lockstep::pjrt {

using NamedValue = std::variant<std::string, std::int64_t, std::vector<std::int64_t>, float, bool>;
using NamedValues = std::map<std::string, NamedValue>;

class Plugin {
 public:
  // Loads the library at `path`, or returns the one already loaded from there. Errors of code `plugin`: no such file,
  // not loadable (with the loader's reason), no GetPjrtApi, an API version of another major, an initialisation that
  // fails or throws.
  static const Plugin& load(const std::string& path);
  // A plugin that is linked into the program. `api` must live for ever.
  static const Plugin& from_api(const PJRT_Api* api, const std::string& name);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const PJRT_Api* api() const { return api_; }
  const std::string& path() const { return path_; }  // the name given to from_api
  int major_version() const;
  int minor_version() const;
  // "xla_version", "stablehlo_current_version" and what else the plugin tells.
  const NamedValues& attributes() const { return attributes_; }
  // The extension's struct, if the plugin has one of at least `size` bytes; else null. `type` as in the C API.
  const void* extension(int type, std::size_t size) const;
  struct Extension {
    int type;
    std::string name;  // "FFI"; the number where lockstep knows no name
    std::size_t size;
  };
  std::vector<Extension> extensions() const;  // in the plugin's order

 private:
  Plugin(const PJRT_Api* api, std::string path);

  const PJRT_Api* api_;
  std::string path_;
  NamedValues attributes_;
};

// The path of the CPU plugin: $LOCKSTEP_CPU_PLUGIN, else pjrt_c_api_cpu_plugin.so among the plugins that come with the
// library. An Error of code `plugin` lists every place tried.
std::string find_cpu_plugin();

}  // namespace lockstep::pjrt

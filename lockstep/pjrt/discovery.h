// Where plugins may be. Nothing is loaded here: what is found may still turn out not to work.
#pragma once

#include <string>
#include <vector>

namespace lockstep::pjrt {

struct PluginPlace {
  std::string platform;  // what JAX_PLATFORMS calls it: "cpu", "cuda"
  std::string path;      // empty if there is a reason against it
  std::string source;    // "package jax-cuda12-pjrt", for people
  std::string problem;   // why there is no path
};

// In order of preference:
//   $PJRT_NAMES_AND_LIBRARY_PATHS     NAME:PATH,NAME:PATH
//   $TPU_LIBRARY_PATH                 the platform "tpu"
//   installed Python packages         with entry points of the group jax_plugins, or modules jax_plugins.*; packages
//   are
//                                     looked for in $PYTHONPATH, $VIRTUAL_ENV, $CONDA_PREFIX, the user's and the
//                                     system's own directories. Python is not run: the library in the module's
//                                     directory that exports GetPjrtApi is taken.
//   $LOCKSTEP_PLUGIN_PATH             directories, with colons between; then the one that comes with the library: files
//                                     pjrt_c_api_NAME_plugin.so, pjrt-plugin-NAME.so or libpjrt_NAME.so
//   the CPU plugin                    find_cpu_plugin(), if none of the above is called "cpu"
// Places of one platform stay together neither here nor in what the user gave; the first that works is to be used.
std::vector<PluginPlace> find_plugins();

// The platform in a library's or an entry point's name: "xla_cuda12" is "cuda", "pjrt_c_api_gpu_plugin.so" is "gpu".
std::string platform_of_name(std::string name);

// Whether the shared library defines the symbol, by its table alone. False for what is no 64-bit ELF file.
bool exports_symbol(const std::string& path, const std::string& symbol);

}  // namespace lockstep::pjrt

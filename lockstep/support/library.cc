#include "lockstep/support/library.h"

#include <dlfcn.h>

#include <filesystem>

#include "lockstep/support/error.h"

namespace lockstep::support {

namespace fs = std::filesystem;

std::string library_directory() {
  Dl_info info{};
  LS_CHECK(dladdr(reinterpret_cast<void*>(&library_directory), &info) != 0 && info.dli_fname != nullptr);
  // For the program itself dladdr gives argv[0], which need not be a path.
  std::error_code missing;
  fs::path file = fs::canonical(info.dli_fname, missing);
  if (missing || !fs::is_regular_file(file)) file = fs::canonical("/proc/self/exe");
  return file.parent_path();
}

std::string bundled_plugin_directory() {
  fs::path here = library_directory();
  // lib/ of an installed tree and the top of a build directory; a program below either with the library linked in.
  for (const char* candidate :
       {"lockstep/plugins", "../lockstep/plugins", "../../lockstep/plugins", "../lib/lockstep/plugins"})
    if (std::error_code none; fs::is_directory(here / candidate, none)) return (here / candidate).lexically_normal();
  return {};
}

}  // namespace lockstep::support

#include "lockstep/compile/partition.h"

#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "lockstep/compile/hlo.pb.h"
#include "lockstep/compile/optimized.h"
#include "lockstep/compile/wire.h"
#include "lockstep/pjrt/ffi.h"
#include "lockstep/pjrt/transform.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

namespace fs = std::filesystem;

std::string take_by_hook(const pjrt::Client& client, std::string_view program, const std::string& options) {
  std::string module;
  bool taken = false;
  auto take = [&](std::string_view bytes) {
    module = bytes;
    taken = true;
    return pjrt::TransformOutcome::stop();
  };
  try {
    pjrt::with_transform(client.plugin(), take, [&] { client.compile(program, options); });
  } catch (const Error&) {
    if (!taken) throw;
  }
  if (!taken)
    throw_error(ErrorCode::plugin, "partition", "the plugin {} compiled without calling its transform hook",
                client.plugin().path());
  return module;
}

// A directory that is gone with all that is in it when this is.
class ScratchDirectory {
 public:
  ScratchDirectory() : path_((fs::temp_directory_path() / "lockstep-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw_error(ErrorCode::io, "partition", "no directory can be made as {}: {}", path_, std::strerror(errno));
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// XLA's CPU compiler partitions and optimises collectives that its code generator then refuses. What it had by then it
// writes to a directory, if told to. Empty if the compile ended before.
std::string take_from_failed_compile(const pjrt::Client& client, std::string_view program, CompileOptions options) {
  ScratchDirectory scratch;
  options.overrides["xla_dump_to"] = scratch.path();
  options.overrides["xla_dump_hlo_as_proto"] = true;
  try {
    client.compile(program, serialize(options));
  } catch (const Error&) {  // the same again
  }
  constexpr std::string_view kEnd = "after_optimizations.hlo.pb";
  for (const auto& entry : fs::directory_iterator(scratch.path())) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(kEnd)) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    hlo::ModuleWithConfig parsed;  // a HloProto, whose first field is the module too
    if (parsed.ParseFromString(bytes) && parsed.has_hlo_module()) return serialize_proto(parsed.hlo_module());
  }
  return {};
}

std::string take_from_whole_compile(const pjrt::Client& client, std::string_view program, CompileOptions options) {
  options.overrides["xla_backend_optimization_level"] = std::int64_t{0};  // the code is thrown away; HLO stays the same
  pjrt::LoadedExecutable executable;
  try {
    executable = client.compile(program, serialize(options));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::compile) throw;
    std::string module = take_from_failed_compile(client, program, options);
    if (module.empty()) throw;
    return module;
  }
  return optimized_hlo(executable);
}

}  // namespace

Route best_route(const pjrt::Plugin& plugin) {
  bool has_hook = pjrt::has_transform_hook(plugin), has_ffi = pjrt::has_ffi(plugin);
  Route best = !has_ffi ? Route::native : has_hook ? Route::hook : Route::whole_compile;
  const char* chosen = std::getenv("LOCKSTEP_PARTITION_ROUTE");
  std::string_view name = chosen == nullptr ? "" : chosen;
  if (name.empty()) return best;
  auto need = [&](bool has, const char* what) {
    if (!has)
      throw_error(ErrorCode::plugin, "partition",
                  "LOCKSTEP_PARTITION_ROUTE={}, but the plugin {} (PJRT C API {}.{}) has no {}", name, plugin.path(),
                  plugin.major_version(), plugin.minor_version(), what);
  };
  constexpr const char* ffi = "FFI extension that lockstep knows";
  if (name == "native") return Route::native;
  if (name == "hook") {
    need(has_ffi, ffi);
    need(has_hook, "XlaTransform hook");
    return Route::hook;
  }
  if (name != "whole_compile")
    throw_error(ErrorCode::invalid_argument, "partition",
                "LOCKSTEP_PARTITION_ROUTE={} is none of 'hook', 'whole_compile' and 'native'", name);
  need(has_ffi, ffi);
  return Route::whole_compile;
}

PartitionedProgram partition(const pjrt::Client& partitioner, std::string_view program, const CompileOptions& options,
                             const RewriteOptions& rewriting, Route route) {
  LS_CHECK(route != Route::native, "a native program is not partitioned");
  CompileOptions for_all = options;
  for_all.portable = false;
  std::string module = route == Route::hook ? take_by_hook(partitioner, program, serialize(for_all))
                                            : take_from_whole_compile(partitioner, program, for_all);
  return rewrite(module, options.num_partitions, rewriting);
}

PartitionedProgram partition(const pjrt::Client& partitioner, std::string_view program, const CompileOptions& options,
                             const RewriteOptions& rewriting) {
  return partition(partitioner, program, options, rewriting, best_route(partitioner.plugin()));
}

}  // namespace lockstep::compile

#include "lockstep/compile/partition.h"

#include <string>

#include "lockstep/compile/hlo.pb.h"
#include "lockstep/compile/wire.h"
#include "lockstep/pjrt/transform.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

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

std::string take_from_whole_compile(const pjrt::Client& client, std::string_view program, const std::string& options) {
  auto optimized = client.compile(program, options).optimized_program();
  if (optimized.format == "hlo") return std::move(optimized.bytes);
  hlo::ModuleWithConfig with_config;
  if (optimized.format != "hlo_with_config" || !with_config.ParseFromString(optimized.bytes))
    throw_error(ErrorCode::plugin, "partition", "the plugin {} gives optimised programs as {}, not as HLO",
                client.plugin().path(), optimized.format);
  return serialize_proto(with_config.hlo_module());
}

}  // namespace

Route best_route(const pjrt::Plugin& plugin) {
  return pjrt::has_transform_hook(plugin) ? Route::hook : Route::whole_compile;
}

PartitionedProgram partition(const pjrt::Client& partitioner, std::string_view program, const CompileOptions& options,
                             const RewriteOptions& rewriting, Route route) {
  CompileOptions for_all = options;
  for_all.portable = false;
  std::string bytes = serialize(for_all);
  std::string module = route == Route::hook ? take_by_hook(partitioner, program, bytes)
                                            : take_from_whole_compile(partitioner, program, bytes);
  return rewrite(module, options.num_partitions, rewriting);
}

PartitionedProgram partition(const pjrt::Client& partitioner, std::string_view program, const CompileOptions& options,
                             const RewriteOptions& rewriting) {
  return partition(partitioner, program, options, rewriting, best_route(partitioner.plugin()));
}

}  // namespace lockstep::compile

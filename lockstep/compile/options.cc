#include "lockstep/compile/options.h"

#include <type_traits>

#include "lockstep/compile/compile_options.pb.h"
#include "lockstep/compile/wire.h"

namespace lockstep::compile {

std::string serialize(const CompileOptions& options) {
  hlo::CompileOptions proto;
  auto& build = *proto.mutable_executable_build_options();
  build.set_num_replicas(1);
  build.set_num_partitions(options.num_partitions);
  build.set_use_spmd_partitioning(options.num_partitions > 1);
  build.set_use_shardy_partitioner(options.num_partitions > 1);
  for (bool b : options.propagate_to_results) build.add_allow_spmd_sharding_propagation_to_output(b);
  for (bool b : options.propagate_to_parameters) build.add_allow_spmd_sharding_propagation_to_parameters(b);
  if (!options.device_assignment.empty()) {
    auto& assignment = *build.mutable_device_assignment();
    assignment.set_replica_count(1);
    assignment.set_computation_count(static_cast<std::int32_t>(options.device_assignment.size()));
    for (std::int64_t id : options.device_assignment) assignment.add_computation_devices()->add_replica_device_ids(id);
  }
  proto.set_compile_portable_executable(options.portable);
  OptionOverrides overrides = options.overrides;
  overrides.try_emplace("xla_cpu_enable_fast_min_max", false);
  for (const auto& [name, value] : overrides) {
    auto& entry = (*proto.mutable_env_option_overrides())[name];
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, bool>) entry.set_bool_field(v);
          if constexpr (std::is_same_v<T, std::int64_t>) entry.set_int_field(v);
          if constexpr (std::is_same_v<T, double>) entry.set_double_field(v);
          if constexpr (std::is_same_v<T, std::string>) entry.set_string_field(v);
        },
        value);
  }
  return serialize_proto(proto);
}

}  // namespace lockstep::compile

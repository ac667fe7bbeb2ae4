// What a compile is told beside the program.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace lockstep::compile {

// XLA's debug options by name ("xla_cpu_max_isa"), in the type that each has: XLA refuses unknown names and booleans
// given as anything else.
using OptionValue = std::variant<bool, std::int64_t, double, std::string>;
using OptionOverrides = std::map<std::string, OptionValue>;

struct CompileOptions {
  std::int64_t num_partitions = 1;
  // With more than one partition: whether the compiler may choose the sharding of each result or parameter; one entry
  // each, or one for all, or none (no).
  std::vector<bool> propagate_to_results, propagate_to_parameters;
  // Launchable on any device of the client, one partition only.
  bool portable = false;
  // Device ids, one for each partition; the client's first ones if empty.
  std::vector<std::int64_t> device_assignment;
  // Unless it is among them, xla_cpu_enable_fast_min_max is turned off, as in JAX: max and min keep NaN.
  OptionOverrides overrides;
};

// A CompileOptionsProto; equal options give equal bytes.
std::string serialize(const CompileOptions& options);

}  // namespace lockstep::compile

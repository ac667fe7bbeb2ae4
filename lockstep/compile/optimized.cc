#include "lockstep/compile/optimized.h"

#include "lockstep/compile/hlo.pb.h"
#include "lockstep/compile/rewrite.h"
#include "lockstep/compile/wire.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {

std::string optimized_hlo(const pjrt::LoadedExecutable& executable) {
  auto program = executable.optimized_program();
  if (program.format == "hlo") return std::move(program.bytes);
  if (program.format != "hlo_with_config")
    throw_error(ErrorCode::plugin, "optimized_program", "the plugin gives optimised programs as '{}', not as HLO",
                program.format);
  hlo::ModuleWithConfig parsed;
  if (!parsed.ParseFromString(program.bytes) || !parsed.has_hlo_module())
    throw_error(ErrorCode::plugin, "optimized_program", "the plugin's optimised program ({} bytes) holds no HLO module",
                program.bytes.size());
  return serialize_proto(parsed.hlo_module());
}

std::vector<CollectiveReport> native_collectives(std::string_view module, std::int64_t partitions) {
  std::vector<CollectiveReport> out;
  try {
    for (auto& c : rewrite(module, partitions).collectives)
      out.push_back({collectives::to_string(c.spec.op), c.spec.name, c.bytes, c.calls});
  } catch (const Error&) {
    out.clear();  // asynchronous forms, say: the plugin's affair
  }
  return out;
}

std::map<std::string, double> cost_of(const pjrt::LoadedExecutable& executable) {
  if (auto told = executable.cost_analysis(); told && !told->empty()) return *told;
  try {
    return count_cost(optimized_hlo(executable));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::plugin) throw;
    return {};
  }
}

}  // namespace lockstep::compile

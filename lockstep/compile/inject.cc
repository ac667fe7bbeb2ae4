#include "lockstep/compile/inject.h"

#include "lockstep/pjrt/transform.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

std::string tensor(const pjrt::TensorType& type) {
  std::string out = "tensor<";
  for (std::int64_t d : type.dims) out += fmt::format("{}x", d);
  return fmt::format("{}{}>", out, mlir_name(type.dtype));
}

std::string zero(DType dtype) {
  if (is_bool(dtype)) return "false";
  if (is_complex(dtype)) return "(0.0, 0.0)";
  return is_floating(dtype) ? "0.0" : "0";
}

// A program of the same signature, whose content is to be replaced.
std::string stub_of(const PartitionedProgram& program) {
  std::string parameters, types, values, body;
  for (std::size_t i = 0; i < program.parameters.size(); ++i)
    parameters += fmt::format("{}%a{}: {}", i == 0 ? "" : ", ", i, tensor(program.parameters[i]));
  for (std::size_t i = 0; i < program.results.size(); ++i) {
    std::string scalar = tensor({program.results[i].dtype, {}}), type = tensor(program.results[i]);
    body += fmt::format("%c{0} = stablehlo.constant dense<{1}> : {2}\n", i, zero(program.results[i].dtype), scalar);
    body += fmt::format("%r{0} = stablehlo.broadcast_in_dim %c{0}, dims = [] : ({1}) -> {2}\n", i, scalar, type);
    const char* comma = i == 0 ? "" : ", ";
    types += comma + type;
    values += fmt::format("{}%r{}", comma, i);
  }
  return fmt::format("module @stub {{ func.func public @main({}) -> ({}) {{\n{}return {}{}{}\n}} }}", parameters, types,
                     body, values, values.empty() ? "" : " : ", types);
}

}  // namespace

pjrt::LoadedExecutable inject(const pjrt::Client& local, const PartitionedProgram& program,
                              const OptionOverrides& overrides, Route route) {
  CompileOptions compile_options{.portable = true, .overrides = overrides};
  if (route == Route::whole_compile) {
    // The module has been through them; going through fusion twice even crashes.
    compile_options.overrides["xla_disable_all_hlo_passes"] = true;
    return local.compile(program.module, serialize(compile_options), pjrt::ProgramFormat::hlo);
  }
  std::string options = serialize(compile_options);
  pjrt::LoadedExecutable executable;
  bool replaced = false;
  auto replace = [&](std::string_view) {
    replaced = true;
    return pjrt::TransformOutcome::replace(program.module);
  };
  pjrt::with_transform(local.plugin(), replace, [&] { executable = local.compile(stub_of(program), options); });
  if (!replaced)
    throw_error(ErrorCode::plugin, "inject", "the plugin {} compiled without calling its transform hook",
                local.plugin().path());
  return executable;
}

pjrt::LoadedExecutable inject(const pjrt::Client& local, const PartitionedProgram& program,
                              const OptionOverrides& overrides) {
  return inject(local, program, overrides, best_route(local.plugin()));
}

}  // namespace lockstep::compile

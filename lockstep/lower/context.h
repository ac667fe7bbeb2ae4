// From jaxprs to StableHLO text. Knows no device. Each equation's lowering rule writes lines through a LowerContext;
// SSA names are strings ("%12").
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lockstep/core/jaxpr.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep {

// Mesh and manual axes, as far as collectives' lowerings need them.
struct LowerAxis {
  std::string name;
  std::int64_t size;
  bool manual;
};

class LowerContext {
 public:
  // A fresh SSA name.
  std::string fresh() { return fmt::format("%{}", next_++); }
  // Writes `%n = <text> : <type>`... The text is everything right of the equals sign, types included.
  template <class... Args>
  std::string emit(fmt::format_string<Args...> format, Args&&... args) {
    std::string name = fresh();
    indent();
    fmt::format_to(std::back_inserter(body_), "{} = ", name);
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    end_line();
    return name;
  }
  // For operations with several results: writes `%n:count = ...` and returns the names "%n#0", "%n#1", ...; one result
  // is "%n".
  std::vector<std::string> emit_many(std::size_t count, std::string_view text);
  void line(std::string_view text);
  // Raw control of the body, for regions: everything written between begin_region and end_region is returned instead of
  // appended, so that it can be placed inside an operation's text.
  // An isolated region may not use values from outside, constants included.
  void begin_region(bool isolated = false);
  std::string end_region();

  // A splat constant of the type ("dense<2.0>"); scalars and splats are written once per function and reused.
  std::string constant(const Scalar& value, AvalP aval);
  std::string constant(const Scalar& value) { return constant(value, make_aval({}, value.dtype())); }
  // An operand broadcast to the result's shape, for elementwise operations, whose operands may be scalars, or of the
  // same rank with dimensions of size 1.
  std::string broadcast_to(const std::string& operand, AvalP in, AvalP out);
  std::string convert(const std::string& operand, AvalP in, AvalP out);

  // The equations of a jaxpr in place, on these operands; the results' names. For lowerings that are themselves written
  // with traced functions, and for the regions of while, case and the like.
  std::vector<std::string> inline_jaxpr(const ClosedJaxpr& j, std::span<const std::string> args);
  // A private function for the jaxpr, made once per module; its symbol name.
  std::string function_for(const ClosedJaxpr& j, std::string_view name);

  std::vector<LowerAxis> axes;       // the mesh axes in scope, major to minor
  std::string mesh_symbol = "mesh";  // of the sdy.mesh that they belong to
  // The symbol of the sdy.mesh operation for a mesh, which is added to the module if it is not there.
  std::string symbol_of(const Mesh& mesh);
  std::int64_t next_channel() { return ++channel_; }
  LocationId where = 0;  // of the equation being lowered

 private:
  friend class ModuleLowering;
  void lower_eqns(const Jaxpr& j, std::unordered_map<VarId, std::string>& env);
  void indent();
  void end_line();

  std::vector<Mesh> meshes_;
  std::string body_;
  std::vector<std::string> saved_bodies_;
  // Constants outside an open region, where it is isolated; empty where it is not.
  std::vector<std::vector<std::unordered_map<std::string, std::string>>> hidden_constants_;
  std::string functions_;  // finished private functions
  std::unordered_map<const Jaxpr*, std::string> function_names_;
  std::unordered_map<std::string, int> symbol_counts_;
  std::vector<std::unordered_map<std::string, std::string>> constants_{1};  // per open region
  int next_ = 0, depth_ = 2;
  std::int64_t channel_ = 0;
  std::vector<LocationId>* locations_ = nullptr;  // of ModuleOptions
  std::string suffix_;                            // of the present equation's operations
};

// The symbol of the i-th mesh of a module: mesh, mesh_0, mesh_1 ...
std::string mesh_symbol(std::size_t index);
// "[0, 1]": a list of integers as StableHLO's attributes want them; "array<i64: 0, 1>" with its type.
std::string int_list(const Shape& s);
std::string i64_array(const Shape& s);
// "(tensor<2xf32>, tensor<f32>) -> tensor<2xf32>"
std::string function_type(std::span<const AvalP> in, std::span<const AvalP> out);

// How an argument or result of the whole program is held.
struct LowerArgument {
  std::string sharding;  // the text of an sdy.sharding attribute, or empty where the compiler decides
  int aliased_output = -1;
  bool donated = false;  // may be reused for any result (jax.buffer_donor)
};
struct ModuleOptions {
  std::string name = "jit_main";
  std::int64_t num_partitions = 1;
  // The meshes that the arguments' shardings refer to, in order: @mesh, @mesh_0, @mesh_1 ...
  std::vector<Mesh> meshes;
  // The devices of the program, by partition; empty: those of the first mesh. Meshes in another order say so.
  std::vector<int> devices;
  std::vector<LowerAxis> axes;
  std::vector<LowerArgument> in, out;  // one per argument and result, or empty
  // If given, every operation says loc("dot_general#17"), where 17 is the equation's place in this list of lines. The
  // canonical text has none (without_locations).
  std::vector<LocationId>* locations = nullptr;
};

// A whole module with a public @main. The jaxpr must have no consts (hoist_consts).
std::string lower_to_stablehlo(const ClosedJaxpr& j, const ModuleOptions& options);
std::string without_locations(std::string_view text);

}  // namespace lockstep

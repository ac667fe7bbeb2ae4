// Primitives that call a jaxpr: jit, custom_jvp_call, custom_vjp_call, checkpoint. Jaxprs in parameters have no consts.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lockstep/transforms/autodiff.h"

namespace lockstep {

extern const Primitive jit_p;
struct JitParams {
  std::string name;
  ClosedJaxpr jaxpr;
};
// Calls a traced function as one equation; its consts become operands.
Arrays bind_jit(const ClosedJaxpr& j, const std::string& name, std::span<const Array> args);

// A user's jvp rule on flat arrays: (primals, tangents with zeros instantiated; null for integers) -> results,
// tangents.
using FlatJvpRule = std::function<JvpOut(std::span<const Array> primals, std::span<const Array> tangents)>;
extern const Primitive custom_jvp_call_p;
struct CustomJvpParams {
  std::string name;
  ClosedJaxpr call_jaxpr;
  Hidden<FlatJvpRule> jvp;
  // Trailing operands that are captured values, which have no tangents; the rule gets only those before them.
  int num_captured = 0;
};
Arrays bind_custom_jvp(const FlatFunction& f, std::shared_ptr<FlatJvpRule> jvp, std::span<const Array> args,
                       const std::string& name);

// A user's vjp rule: fwd gives results and residuals, bwd cotangents of all arguments (null: zero) from residuals and
// the cotangents of the results (zeros instantiated).
struct FlatVjpRule {
  std::function<std::pair<Arrays, Arrays>(std::span<const Array> primals)> fwd;
  std::function<Arrays(std::span<const Array> residuals, std::span<const Array> cotangents)> bwd;
};
extern const Primitive custom_vjp_call_p;
struct CustomVjpParams {
  std::string name;
  ClosedJaxpr call_jaxpr;
  Hidden<FlatVjpRule> rule;
  int num_captured = 0;
};
Arrays bind_custom_vjp(const FlatFunction& f, std::shared_ptr<FlatVjpRule> rule, std::span<const Array> args,
                       const std::string& name);

// Runs f; under reverse mode nothing inside is kept: it is run again on the way back.
extern const Primitive checkpoint_p;
struct CheckpointParams {
  ClosedJaxpr jaxpr;
  bool prevent_cse = true;
  bool differentiated = false;
  None policy;
};
Arrays bind_checkpoint(const FlatFunction& f, std::span<const Array> args, bool prevent_cse, const std::string& name);

}  // namespace lockstep

// Forward and reverse mode on flat functions and on jaxprs.
//
// Reverse mode is linearisation followed by transposition, as in JAX ("You Only Linearize Once", Radul et al., 2022): a
// function is run once, its primal part at the level of its inputs (evaluated at once outside jit, so that C++ may
// branch on values), its tangent part recorded as a linear jaxpr whose constants are the residuals; the backward pass
// then walks that jaxpr in reverse.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/core/jaxpr.h"
#include "lockstep/trace/rules.h"
#include "lockstep/trace/trace.h"

namespace lockstep {

// f at `primals` and its directional derivative; null tangents are zeros, going in and coming out.
JvpOut jvp_flat(const FlatFunction& f, std::span<const Array> primals, std::span<const Array> tangents,
                std::string what);

struct Linearized {
  Arrays outs;
  // From the tangents of the active inputs to the nonzero output tangents. Its consts are the residuals.
  ClosedJaxpr linear;
  std::vector<bool> nonzero_out;
};
// Active inputs must be of inexact dtype.
Linearized linearize_flat(const FlatFunction& f, std::span<const Array> primals, const std::vector<bool>& active,
                          std::string what);

// The cotangents of the inputs of a linear jaxpr; `args` says per input whether it is linear. Equations on known inputs
// only are evaluated first. Null: zero, or not linear.
Arrays backward_pass(const Jaxpr& j, std::span<const Array> consts, std::span<const TransposeIn> args,
                     std::span<const Array> cotangents);
// All inputs linear.
Arrays backward_pass(const ClosedJaxpr& linear, std::span<const Array> cotangents);

// A jaxpr made from another; constants that custom rules captured are leading inputs, to be passed first.
struct Transformed {
  ClosedJaxpr jaxpr;
  Arrays captured;
};

// (primals, nonzero tangents) -> (results, nonzero result tangents). Results for which `instantiate` is set have a
// tangent always.
struct JvpJaxpr : Transformed {
  std::vector<bool> nonzero_out;
};
JvpJaxpr jvp_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& nonzero_in,
                   const std::vector<bool>& instantiate = {});

// A jaxpr split in two. primal: inputs -> (results, residuals). tangent: (residuals, nonzero tangents) -> nonzero
// tangents of the results.
struct LinearizedJaxpr {
  Transformed primal;
  ClosedJaxpr tangent;
  std::vector<bool> nonzero_out;
  AvalList residuals;
  // Per residual, the input that it is, or -1.
  std::vector<int> residual_is_input;
};
LinearizedJaxpr linearize_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& nonzero_in,
                                const std::vector<bool>& instantiate = {});

// (known inputs, nonzero cotangents) -> cotangents of the linear inputs, zeros instantiated.
Transformed transpose_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& linear_in,
                            const std::vector<bool>& nonzero_cotangents);

// Helpers for rules of primitives that hold jaxprs.
std::vector<bool> nonzero(std::span<const Array> tangents);
Arrays select_nonnull(std::span<const Array> values);
std::vector<bool> or_masks(const std::vector<bool>& a, const std::vector<bool>& b);
// Binds a primitive on several groups of operands in a row.
Arrays concat(std::initializer_list<std::span<const Array>> groups);

}  // namespace lockstep

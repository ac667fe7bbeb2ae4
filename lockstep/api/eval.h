// Eager evaluation: outside any transformation every equation is compiled by itself, once per signature, and run.
#pragma once

#include <memory>
#include <span>

#include "lockstep/compile/program.h"
#include "lockstep/trace/array.h"

namespace lockstep {

// Runs a program on arrays.
Arrays run_program(compile::Program& program, std::span<const Array> args, std::size_t num_outs);
// A closed jaxpr as one program: traced consts are not allowed, array consts become leading inputs.
Arrays run_jaxpr(const ClosedJaxpr& j, std::span<const Array> args, const std::string& name);

}  // namespace lockstep

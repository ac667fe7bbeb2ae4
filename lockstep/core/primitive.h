// A primitive: a name plus one rule per transformation, all in one place. Interpreters call rules through these
// pointers; a null rule is reported by name. Rules that build programs work on Array (trace/array.h); see trace/rules.h
// for what their arguments hold.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "lockstep/core/aval.h"
#include "lockstep/core/params.h"

namespace lockstep {

class Array;
class LowerContext;
class Mesh;
struct JvpOut;
struct LinearizeOut;
struct TransposeIn;
struct BatchIn;
struct BatchOut;
struct Example;
struct ShardRule;

// The avals of the results. Throws Error(shape/dtype/axis/...) with the primitive's name as operation.
using AbstractEvalRule = void (*)(const Params* params, std::span<const AvalP> in, AvalList& out);
// Results and their tangents. A null Array as a tangent means zero, going in and coming out.
using JvpRule = JvpOut (*)(const Params* params, std::span<const Array> primals, std::span<const Array> tangents);
// For primitives that hold jaxprs: splits the equation into a primal part that is run now and a linear map to be
// recorded with residuals. Without it the jvp rule serves.
using LinearizeRule = LinearizeOut (*)(const Params* params, std::span<const Array> primals,
                                       std::span<const Array> tangents);
// Cotangents of the inputs from those of the results (null: zero), one per input, null for those that are not linear.
using TransposeRule = std::vector<Array> (*)(const Params* params, std::span<const Array> cotangents,
                                             std::span<const TransposeIn> in);
using BatchRule = BatchOut (*)(const Params* params, const BatchIn& in);
// Writes StableHLO for one equation.
using LowerRule = void (*)(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                           std::span<const AvalP> out_avals, std::span<const std::string> in,
                           std::vector<std::string>& out);
// Runs an equation outside any trace, for primitives that are not compiled by themselves.
using EvaluateRule = std::vector<Array> (*)(const Params* params, std::span<const Array> in);
using ExamplesRule = std::vector<Example> (*)();
// The names of mesh or vmap axes that an equation uses (collectives); null for all others.
using AxisNamesRule = std::vector<std::string> (*)(const Params* params);

// The mesh that an equation's parameters name, or null.
using MeshRule = const Mesh* (*)(const Params* params);

struct Primitive {
  const char* name;
  AbstractEvalRule abstract_eval = nullptr;
  JvpRule jvp = nullptr;
  LinearizeRule linearize = nullptr;
  TransposeRule transpose = nullptr;
  BatchRule batch = nullptr;
  LowerRule lower = nullptr;
  EvaluateRule evaluate = nullptr;  // without it the equation is compiled and run
  ExamplesRule examples = nullptr;
  AxisNamesRule axis_names = nullptr;
  MeshRule mesh = nullptr;
  bool multiple_results = false;
  bool has_effects = false;  // kept even if its results are unused, and never reordered against its like
  // Prints its parameters inside brackets; the default prints all fields, sorted, and no brackets for none.
  void (*print)(Printer& p, const Params* params) = nullptr;
};

// Primitives enter a process-wide table when their file is loaded, in no particular order.
struct RegisterPrimitive {
  explicit RegisterPrimitive(const Primitive& p);
};
std::vector<const Primitive*> registered_primitives();   // sorted by name
const Primitive* find_primitive(std::string_view name);  // null if there is none

// Defines `const Primitive NAME = {...}` with external linkage and registers it.
#define LOCKSTEP_PRIMITIVE(variable, ...) \
  extern const Primitive variable;        \
  const Primitive variable = __VA_ARGS__; \
  static const RegisterPrimitive variable##_registered(variable)

}  // namespace lockstep

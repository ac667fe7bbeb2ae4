// Rules that families of primitives share, as function templates whose arguments say what is special to one primitive:
//
//   LOCKSTEP_PRIMITIVE(tanh_p, {.name = "tanh",
//                               .abstract_eval = rules::nary_aval<tanh_p, kInexact>,
//                               .jvp = rules::jvp<tanh_p, [](In g, In ans, In x) { return ...; }>,
//                               .batch = rules::batch_nary<tanh_p>,
//                               .lower = rules::lower_nary<"stablehlo.tanh">,
//                               .examples = ...});
//
// The primitive is a template argument, so that the rule can name it and bind it.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "lockstep/core/basic_ops.h"
#include "lockstep/core/primitive.h"
#include "lockstep/lower/context.h"
#include "lockstep/trace/rules.h"
#include "lockstep/trace/trace.h"

namespace lockstep {

// Sets of element types.
using DTypes = unsigned;
inline constexpr DTypes kBool = 1, kSigned = 2, kUnsigned = 4, kFloat = 8, kComplex = 16, kKey = 32;
inline constexpr DTypes kInt = kSigned | kUnsigned, kInexact = kFloat | kComplex, kNumber = kInt | kInexact,
                        kAny = kNumber | kBool, kOrdered = kInt | kFloat | kBool, kBits = kInt | kBool;
bool accepts(DTypes set, DType t);
// Throws Error(dtype): "sin: does not accept int32 (i32[3]); wants floating or complex".
void check_dtype(const char* operation, AvalP operand, DTypes accepted);
// Throws Error(dtype) naming all types if they are not the same.
void check_same_dtype(const char* operation, std::span<const AvalP> operands);
// The common shape of operands that have rank 0, or equal ranks with equal dimensions or ones. Error(shape) otherwise.
Shape broadcast_shapes(const char* operation, std::span<const AvalP> operands);
// The aval of an elementwise result: broadcast shape, joined varying axes and sharding, weak if all operands are.
AvalP elementwise_aval(const char* operation, std::span<const AvalP> operands, DType dtype);

// An elementwise operand repeated to the result's shape.
Array broadcast_operand(const Array& operand, const Shape& shape);

// Host numbers among the operands take the dtype of the others, as far as JAX's promotion would let them (a weak float
// does not become an integer: such operands are left for the dtype check to refuse).
void adopt_dtypes(std::span<Array> operands);

// What the public functions of elementwise primitives do: the user's location, host numbers adopted, bind.
Array apply(const Primitive& primitive, const Operand& x, const ParamsRef& params = {});
Array apply(const Primitive& primitive, const Operand& x, const Operand& y, const ParamsRef& params = {});

using In = const Array&;  // an argument of a rule given as a lambda

// A string as a template argument.
template <std::size_t N>
struct Text {
  char value[N];
  constexpr Text(const char (&s)[N]) { std::copy_n(s, N, value); }
};

namespace rules {

// ---- avals ----

// Elementwise: all operands of one type from the set, which is the result's too.
template <const Primitive& P, DTypes kAccepted>
void nary_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  for (AvalP a : in) check_dtype(P.name, a, kAccepted);
  check_same_dtype(P.name, in);
  out.push_back(elementwise_aval(P.name, in, in[0]->dtype));
}
// The same with a bool result (weakly typed if all operands are, as in JAX).
template <const Primitive& P, DTypes kAccepted>
void predicate_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  for (AvalP a : in) check_dtype(P.name, a, kAccepted);
  check_same_dtype(P.name, in);
  out.push_back(elementwise_aval(P.name, in, DType::bool_));
}
// The results have the avals of the operands.
inline void same_avals(const Params*, std::span<const AvalP> in, AvalList& out) {
  for (AvalP a : in) out.push_back(a);
}

// ---- differentiation ----

// One function per operand, of (tangent, result, operands...): the contributions of the tangents that are not zero are
// added. nullptr for an operand through which nothing flows.
template <const Primitive& P, auto... kTerms>
JvpOut jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  Array ans = bind_one(P, primals, ParamsRef(params)), sum;
  Arrays terms;
  std::size_t i = 0;
  auto add_term = [&]<auto kTerm>() {
    if constexpr (!std::is_same_v<std::remove_const_t<decltype(kTerm)>, std::nullptr_t>) {
      if (tangents[i].has_value()) {
        [&]<std::size_t... k>(std::index_sequence<k...>) { terms.push_back(kTerm(tangents[i], ans, primals[k]...)); }
        (std::make_index_sequence<sizeof...(kTerms)>());
      }
    }
    ++i;
  };
  (add_term.template operator()<kTerms>(), ...);
  for (const Array& t : terms) sum = add_any(sum, t);
  return {{std::move(ans)}, {std::move(sum)}};
}
// For results that do not move with the inputs (integers, piecewise constants): no tangents.
template <const Primitive& P>
JvpOut jvp_zero(const Params* params, std::span<const Array> primals, std::span<const Array>) {
  Arrays outs = bind_many(P, primals, ParamsRef(params));
  Arrays tangents(outs.size());
  return {std::move(outs), std::move(tangents)};
}
// Linear in all operands at once: the primitive applied to the tangents, with zeros written out.
template <const Primitive& P>
JvpOut jvp_linear(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  Arrays outs = bind_many(P, primals, ParamsRef(params));
  if (std::none_of(tangents.begin(), tangents.end(), [](const Array& t) { return t.has_value(); })) {
    Arrays none(outs.size());
    return {std::move(outs), std::move(none)};
  }
  Arrays full_tangents;
  for (std::size_t i = 0; i < tangents.size(); ++i)
    full_tangents.push_back(instantiate_zeros(tangents[i], primals[i].aval()));
  return {std::move(outs), bind_many(P, full_tangents, ParamsRef(params))};
}
// Linear in the first operand alone; the others (indices, predicates) have no tangent.
template <const Primitive& P>
JvpOut jvp_linear_in_first(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  Array out = bind_one(P, primals, ParamsRef(params)), tangent;
  if (tangents[0].has_value()) {
    Arrays with_tangent(primals.begin(), primals.end());
    with_tangent[0] = tangents[0];
    tangent = bind_one(P, with_tangent, ParamsRef(params));
  }
  return {{std::move(out)}, {std::move(tangent)}};
}
// Of a linear function of one operand: the cotangent of the operand is kFn(cotangent of the result, operand's aval).
template <auto kFn>
std::vector<Array> transpose_unary(const Params*, std::span<const Array> cotangents, std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value()) return {Array()};
  return {kFn(cotangents[0], in[0].aval)};
}
// Of a primitive that is its own transpose (copy, neg, reduce_precision, conj of complex numbers).
template <const Primitive& P>
std::vector<Array> transpose_self(const Params* params, std::span<const Array> cotangents,
                                  std::span<const TransposeIn>) {
  if (!cotangents[0].has_value()) return {Array()};
  return {bind_one(P, {cotangents[0]}, ParamsRef(params))};
}

// ---- batching ----

// Elementwise primitives of any number of operands, with one result or several of one shape.
BatchOut batch_elementwise(const Primitive& primitive, const Params* params, const BatchIn& in);
template <const Primitive& P>
BatchOut batch_nary(const Params* params, const BatchIn& in) {
  return batch_elementwise(P, params, in);
}

// ---- lowering ----

// `op %x, %y : type`: operands are broadcast to the result's shape; the types of operands and result are written out if
// they differ.
std::string emit_elementwise(LowerContext& ctx, const char* op, std::span<const AvalP> in_avals, AvalP out_aval,
                             std::span<const std::string> in);
template <Text kOp>
void lower_nary(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                std::span<const std::string> in, std::vector<std::string>& out) {
  out.push_back(emit_elementwise(ctx, kOp.value, in_avals, out_avals[0], in));
}
// The results are the operands.
inline void lower_identity(LowerContext&, const Params*, std::span<const AvalP>, std::span<const AvalP>,
                           std::span<const std::string> in, std::vector<std::string>& out) {
  out.assign(in.begin(), in.end());
}
// Through other primitives: kFn(operands...) is traced and its equations are lowered in place.
template <std::size_t kOperands, auto kFn>
void lower_as(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP>,
              std::span<const std::string> in, std::vector<std::string>& out) {
  auto traced = trace_to_jaxpr(
      [](std::span<const Array> args) {
        return [&]<std::size_t... k>(std::index_sequence<k...>) { return Arrays{kFn(args[k]...)}; }
        (std::make_index_sequence<kOperands>());
      },
      in_avals, "lowering");
  out = ctx.inline_jaxpr(traced, in);
}

}  // namespace rules
}  // namespace lockstep

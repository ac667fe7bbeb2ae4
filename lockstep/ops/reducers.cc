#include "lockstep/ops/reducers.h"

#include "lockstep/ops/elementwise.h"
#include "lockstep/trace/trace.h"

namespace lockstep {

ClosedJaxpr trace_reducer(const Reducer& reducer, std::span<const AvalP> avals, const std::string& what) {
  std::size_t n = avals.size();
  AvalList in;
  for (int side = 0; side < 2; ++side)
    for (AvalP a : avals) in.push_back(make_aval({}, a->dtype, a->weak_type));
  return trace_to_jaxpr([&](std::span<const Array> args) { return reducer(args.first(n), args.subspan(n)); }, in, what);
}

std::string reducer_region(LowerContext& ctx, const ClosedJaxpr& reducer) {
  std::string head = "({\n^bb0(", types;
  std::vector<std::string> args;
  for (AvalP a : reducer->in_avals()) {
    args.push_back(ctx.fresh());
    fmt::format_to(std::back_inserter(head), "{}{}: {}", args.size() > 1 ? ", " : "", args.back(), a->mlir);
  }
  for (AvalP a : reducer->out_avals()) types += (types.empty() ? "" : ", ") + a->mlir;
  ctx.begin_region();
  auto outs = ctx.inline_jaxpr(reducer, args);
  ctx.line(fmt::format("stablehlo.return {} : {}", fmt::join(outs, ", "), types));
  return head + "):\n" + ctx.end_region() + "})";
}

Array reducer_add(const Array& a, const Array& b) { return lax::add(a, b); }
Array reducer_mul(const Array& a, const Array& b) { return lax::mul(a, b); }
Array reducer_max(const Array& a, const Array& b) { return lax::max(a, b); }
Array reducer_min(const Array& a, const Array& b) { return lax::min(a, b); }
Array reducer_and(const Array& a, const Array& b) { return lax::bitwise_and(a, b); }
Array reducer_or(const Array& a, const Array& b) { return lax::bitwise_or(a, b); }
Array reducer_xor(const Array& a, const Array& b) { return lax::bitwise_xor(a, b); }

Monoid monoid_of(const std::function<Array(const Array&, const Array&)>& computation, const Array& init) {
  using Function = Array (*)(const Operand&, const Operand&);
  auto* target = computation.target<Function>();
  if (target == nullptr || init.value()->kind() != Value::Kind::scalar) return Monoid::none;
  const Scalar& value = static_cast<const ScalarValue&>(*init.value()).scalar;
  DType t = value.dtype();
  auto is = [&](Function f, const Scalar& identity) { return *target == f && value.same_bits(identity); };
  if (is(lax::add, Scalar(std::int64_t{0}, t))) return Monoid::add;
  if (is(lax::mul, Scalar(std::int64_t{1}, t))) return Monoid::mul;
  if (is(lax::max, min_value(t))) return Monoid::max;
  if (is(lax::min, max_value(t))) return Monoid::min;
  if (!is_bool(t) && !is_integer(t)) return Monoid::none;
  if (is(lax::bitwise_and, is_bool(t) ? Scalar(true) : Scalar(std::int64_t{-1}, t))) return Monoid::bitwise_and;
  if (is(lax::bitwise_or, Scalar(std::int64_t{0}, t))) return Monoid::bitwise_or;
  if (is(lax::bitwise_xor, Scalar(std::int64_t{0}, t))) return Monoid::bitwise_xor;
  return Monoid::none;
}

std::string emit_reduce(LowerContext& ctx, const char* op, Array (*reducer)(const Array&, const Array&),
                        const Scalar& identity, const Ints& axes, AvalP in_aval, AvalP out_aval,
                        const std::string& in) {
  AvalP element = make_aval({}, in_aval->dtype);
  std::string init = ctx.constant(identity, element);
  AvalP types[2] = {in_aval, element};
  std::string type = function_type(types, {&out_aval, 1});
  if (op != nullptr)
    return ctx.emit("stablehlo.reduce({} init: {}) applies {} across dimensions = {} : {}", in, init, op,
                    int_list(axes), type);
  auto traced = trace_reducer([&](auto a, auto b) { return Arrays{reducer(a[0], b[0])}; }, {&element, 1}, "reducer");
  return ctx.emit("\"stablehlo.reduce\"({}, {}) {} {{dimensions = {}}} : {}", in, init, reducer_region(ctx, traced),
                  i64_array(axes), type);
}

}  // namespace lockstep

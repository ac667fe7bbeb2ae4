#include "lockstep/ops/builders.h"

#include <fmt/format.h>

#include "lockstep/ops/structural.h"
#include "lockstep/support/error.h"

namespace lockstep {
namespace {

DTypes set_of(DType t) {
  if (is_bool(t)) return kBool;
  if (is_signed_integer(t)) return kSigned;
  if (is_unsigned_integer(t)) return kUnsigned;
  if (is_floating(t)) return kFloat;
  if (is_complex(t)) return kComplex;
  return t == DType::key ? kKey : 0;
}
std::string describe(DTypes set) {
  std::vector<const char*> words;
  if (set & kBool) words.push_back("bool");
  if ((set & kInt) == kInt)
    words.push_back("integer");
  else if (set & kSigned)
    words.push_back("signed integer");
  else if (set & kUnsigned)
    words.push_back("unsigned integer");
  if (set & kFloat) words.push_back("floating");
  if (set & kComplex) words.push_back("complex");
  if (set & kKey) words.push_back("key");
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  return text;
}
bool is_weak_number(const Array& a) { return a.value()->kind() == Value::Kind::scalar && a.weak_type(); }

}  // namespace

bool accepts(DTypes set, DType t) { return (set & set_of(t)) != 0; }
void check_dtype(const char* operation, AvalP operand, DTypes accepted) {
  if (accepts(accepted, operand->dtype)) return;
  throw_error(ErrorCode::dtype, operation, "does not accept {} ({}): it wants {} operands", name(operand->dtype),
              operand->text, describe(accepted));
}
void check_same_dtype(const char* operation, std::span<const AvalP> operands) {
  for (AvalP a : operands)
    if (a->dtype != operands[0]->dtype)
      throw_error(ErrorCode::dtype, operation,
                  "operands have different dtypes, {} and {} ({}); lax functions do not promote: convert one with "
                  "astype, or use the numpy function",
                  name(operands[0]->dtype), name(a->dtype), to_string(operands));
}
Shape broadcast_shapes(const char* operation, std::span<const AvalP> operands) {
  const Shape* first = nullptr;
  Shape shape;
  for (AvalP a : operands) {
    if (a->rank() == 0) continue;
    if (first == nullptr) {
      first = &a->shape;
      shape = a->shape;
      continue;
    }
    if (a->shape.rank() != first->rank())
      throw_error(ErrorCode::shape, operation,
                  "operands have different ranks ({}); they must be equal, or an operand a scalar",
                  to_string(operands));
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1)
        shape[i] = a->shape[i];
      else if (a->shape[i] != 1 && a->shape[i] != shape[i])
        throw_error(ErrorCode::shape, operation,
                    "operands have incompatible shapes ({}): dimension {} is {} and {}; sizes must be equal or 1",
                    to_string(operands), i, shape[i], a->shape[i]);
    }
  }
  return shape;
}
AvalP elementwise_aval(const char* operation, std::span<const AvalP> operands, DType dtype) {
  AvalP first = operands[0];
  bool same = first->dtype == dtype;
  for (AvalP a : operands) same = same && a == first;
  if (same) return first;
  Aval result;
  result.shape = broadcast_shapes(operation, operands);
  result.dtype = dtype;
  result.weak_type = true;
  for (AvalP a : operands) {
    result.weak_type = result.weak_type && a->weak_type;
    std::vector<std::string> joined;
    std::set_union(result.varying.begin(), result.varying.end(), a->varying.begin(), a->varying.end(),
                   std::back_inserter(joined));
    result.varying = std::move(joined);
    if (a->sharding.empty() || a->shape != result.shape) continue;
    if (!result.sharding.empty() && result.sharding != a->sharding)
      throw_error(ErrorCode::sharding, operation, "operands are sharded differently ({})", to_string(operands));
    result.sharding = a->sharding;
  }
  for (AvalP a : operands)
    if (a->shape == result.shape) result.memory = a->memory;
  return intern(std::move(result));
}

Array broadcast_operand(const Array& operand, const Shape& shape) {
  if (operand.shape() == shape) return operand;
  if (operand.ndim() == 0) return lax::broadcast_in_dim(operand, shape, {});
  Ints dims, sizes;
  for (int i = 0; i < operand.ndim(); ++i)
    if (operand.shape()[i] == shape[i]) {
      dims.push_back(i);
      sizes.push_back(shape[i]);
    }
  return lax::broadcast_in_dim(lax::reshape(operand, sizes), shape, dims);
}

void adopt_dtypes(std::span<Array> operands) {
  const Array* anchor = nullptr;
  for (const Array& a : operands)
    if (!is_weak_number(a)) {
      if (anchor == nullptr) anchor = &a;
      if (a.dtype() != anchor->dtype()) return;
    }
  WeakDType target{};
  if (anchor != nullptr) {
    target = {anchor->dtype(), anchor->weak_type()};
  } else {
    target = operands[0].aval()->weak_dtype();
    for (const Array& a : operands) target = promote_types("promotion", target, a.aval()->weak_dtype());
  }
  for (Array& a : operands) {
    if (!is_weak_number(a) || a.dtype() == target.dtype) continue;
    DType from = a.dtype();
    bool allowed = is_complex(from)    ? is_complex(target.dtype)
                   : is_floating(from) ? is_inexact(target.dtype)
                                       : is_integer(target.dtype) || is_inexact(target.dtype);
    if (allowed) a = scalar(static_cast<ScalarValue*>(a.value())->scalar, target.dtype, target.weak);
  }
}

Array apply(const Primitive& primitive, const Operand& x, const ParamsRef& params) {
  LocationScope scope(x.where);
  return bind_one(primitive, {x.array}, params);
}
Array apply(const Primitive& primitive, const Operand& x, const Operand& y, const ParamsRef& params) {
  LocationScope scope(x.where);
  Array operands[] = {x.array, y.array};
  adopt_dtypes(operands);
  return bind_one(primitive, operands, params);
}

namespace rules {

BatchOut batch_elementwise(const Primitive& primitive, const Params* params, const BatchIn& in) {
  auto mapped = std::find_if(in.dims.begin(), in.dims.end(), [](int d) { return d != kNotMapped; });
  std::size_t first = static_cast<std::size_t>(mapped - in.dims.begin());
  bool aligned = true;
  for (std::size_t i = 0; i < in.args.size(); ++i)
    aligned =
        aligned && (in.args[i].ndim() == 0 || (in.args[i].shape() == in.args[first].shape() && in.dims[i] == *mapped));
  auto run = [&](std::span<const Array> operands, int dim) -> BatchOut {
    Arrays outs = bind_many(primitive, operands, ParamsRef(params));
    std::vector<int> dims(outs.size(), dim);
    return {std::move(outs), std::move(dims)};
  };
  if (aligned) return run(in.args, *mapped);
  Arrays args;
  int rank = 0;
  for (std::size_t i = 0; i < in.args.size(); ++i) {
    args.push_back(in.args[i].ndim() == 0 ? in.args[i] : batch_axis_at_front(in.args[i], in.dims[i], 1));
    rank = std::max(rank, args.back().ndim());
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (in.dims[i] == kNotMapped || args[i].ndim() == rank) continue;
    Ints trailing;
    for (int d = args[i].ndim(); d < rank; ++d) trailing.push_back(d);
    args[i] = lax::expand_dims(args[i], trailing);
  }
  return run(args, 0);
}

std::string emit_elementwise(LowerContext& ctx, const char* op, std::span<const AvalP> in_avals, AvalP out_aval,
                             std::span<const std::string> in) {
  std::string operands, types;
  bool uniform = std::string_view(op).starts_with("stablehlo.");
  for (std::size_t i = 0; i < in.size(); ++i) {
    operands += (i ? ", " : "") + ctx.broadcast_to(in[i], in_avals[i], out_aval);
    std::string type = mlir_type(out_aval->shape, in_avals[i]->dtype);
    uniform = uniform && type == out_aval->mlir;
    types += (i ? ", " : "") + type;
  }
  if (uniform) return ctx.emit("{} {} : {}", op, operands, out_aval->mlir);
  return ctx.emit("\"{}\"({}) : ({}) -> {}", op, operands, types, out_aval->mlir);
}

}  // namespace rules
}  // namespace lockstep

// Primitives that rename dimensions: broadcast_in_dim, reshape, transpose, squeeze, rev.
#include <algorithm>

#include "lockstep/lower/context.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/structural_rules.h"

namespace lockstep {
namespace {

bool is_identity(const Ints& permutation) { return permutation == iota_ints(permutation.rank()); }

// broadcast_in_dim

struct BroadcastInDimParams {
  Ints broadcast_dimensions;
  Shape shape;
  None sharding;
};

void broadcast_in_dim_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<BroadcastInDimParams>();
  const Shape& shape = in[0]->shape;
  auto fail = [&](const char* why) {
    throw_error(ErrorCode::shape, "broadcast_in_dim", "from {} to {} with broadcast_dimensions {}: {}", in[0]->text,
                to_string(p.shape), to_tuple_string(p.broadcast_dimensions), why);
  };
  if (std::any_of(p.shape.begin(), p.shape.end(), [](auto d) { return d < 0; })) fail("sizes must not be negative");
  if (p.broadcast_dimensions.rank() != shape.rank())
    fail("there must be one broadcast dimension per operand dimension");
  for (int i = 0; i < shape.rank(); ++i) {
    auto to = p.broadcast_dimensions[i];
    if (to < 0 || to >= p.shape.rank()) fail("a broadcast dimension is out of range");
    if (std::count(p.broadcast_dimensions.begin(), p.broadcast_dimensions.end(), to) > 1)
      fail("broadcast dimensions must not repeat");
    if (shape[i] != 1 && shape[i] != p.shape[to]) fail("operand sizes must be 1 or equal to the result's");
  }
  out.push_back(with_shape(in[0], p.shape));
}
std::vector<Array> broadcast_in_dim_transpose(const Params* params, std::span<const Array> cotangents,
                                              std::span<const TransposeIn> in) {
  auto& p = params->get<BroadcastInDimParams>();
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array()};
  const Shape& shape = in[0].aval->shape;
  Ints kept, unit;
  for (int i = 0; i < shape.rank(); ++i) shape[i] == 1 ? unit.push_back(i) : kept.push_back(p.broadcast_dimensions[i]);
  Array ct = lax::reduce_sum(cotangents[0], remaining(p.shape.rank(), kept));
  return {lax::expand_dims(lax::transpose(ct, argsort(argsort(kept))), unit)};
}
BatchOut broadcast_in_dim_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<BroadcastInDimParams>();
  Array x = moveaxis(in.args[0], in.dims[0], 0);
  return {{lax::broadcast_in_dim(x, prefixed(in.size, p.shape), prefixed(0, shifted(p.broadcast_dimensions)))}, {0}};
}
void broadcast_in_dim_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                            std::span<const AvalP> out_avals, std::span<const std::string> in,
                            std::vector<std::string>& out) {
  auto& p = params->get<BroadcastInDimParams>();
  out.push_back(ctx.emit("stablehlo.broadcast_in_dim {}, dims = {} : {}", in[0], int_list(p.broadcast_dimensions),
                         function_type(in_avals, out_avals)));
}
void broadcast_in_dim_print(Printer& printer, const Params* params) {
  auto& p = params->get<BroadcastInDimParams>();
  if (p.broadcast_dimensions.empty()) return;
  print_text(printer, "broadcast_dimensions=");
  print_param(printer, p.broadcast_dimensions);
}
std::vector<Example> broadcast_in_dim_examples() {
  auto example = [](const char* label, ExampleOperand x, Shape shape, Ints dims) {
    return Example{.label = label, .in = {x}, .params = make_params(BroadcastInDimParams{dims, shape, {}})};
  };
  return {example("scalar", examples::array({}, DType::float32), {2, 3}, {}),
          example("vector to matrix", examples::array({3}, DType::float32), {2, 3}, {1}),
          example("unit dimension", examples::array({1, 3}, DType::bfloat16), {2, 3}, {0, 1}),
          example("unit dimension in between", examples::array({2, 3}, DType::float32), {2, 1, 3}, {0, 2}),
          example("permuted", examples::array({2, 1}, DType::float32), {3, 2}, {1, 0}),
          example("bool", examples::array({2}, DType::bool_), {2, 2}, {0}),
          example("complex", examples::array({2}, DType::complex64), {3, 2}, {1}),
          example("empty", examples::array({0}, DType::int32), {2, 0}, {1})};
}

// reshape

struct ReshapeParams {
  std::optional<Ints> dimensions;
  Shape new_sizes;
  None sharding;
};

void reshape_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<ReshapeParams>();
  if (std::any_of(p.new_sizes.begin(), p.new_sizes.end(), [](auto d) { return d < 0; }) ||
      p.new_sizes.elements() != in[0]->size())
    throw_error(ErrorCode::shape, "reshape", "{} has {} elements and cannot become {}", in[0]->text, in[0]->size(),
                to_string(p.new_sizes));
  if (p.dimensions && !is_identity(take(*p.dimensions, argsort(*p.dimensions))))
    throw_error(ErrorCode::axis, "reshape", "dimensions {} are not a permutation of those of {}",
                to_tuple_string(*p.dimensions), in[0]->text);
  out.push_back(with_shape(in[0], p.new_sizes));
}
std::vector<Array> reshape_transpose(const Params* params, std::span<const Array> cotangents,
                                     std::span<const TransposeIn> in) {
  auto& p = params->get<ReshapeParams>();
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array()};
  const Shape& shape = in[0].aval->shape;
  if (!p.dimensions) return {lax::reshape(cotangents[0], shape)};
  return {lax::transpose(lax::reshape(cotangents[0], take(shape, *p.dimensions)), argsort(*p.dimensions))};
}
BatchOut reshape_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<ReshapeParams>();
  Array x = moveaxis(in.args[0], in.dims[0], 0);
  std::optional<Ints> dimensions;
  if (p.dimensions) dimensions = prefixed(0, shifted(*p.dimensions));
  return {{lax::reshape(x, prefixed(in.size, p.new_sizes), dimensions)}, {0}};
}
std::string emit_reshape(LowerContext& ctx, const std::string& x, AvalP from, AvalP to) {
  return ctx.emit("stablehlo.reshape {} : ({}) -> {}", x, from->mlir, to->mlir);
}
void reshape_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                   std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<ReshapeParams>();
  std::string x = in[0];
  AvalP from = in_avals[0];
  if (p.dimensions) {
    AvalP transposed = with_shape(from, take(from->shape, *p.dimensions));
    x = ctx.emit("stablehlo.transpose {}, dims = {} : ({}) -> {}", x, int_list(*p.dimensions), from->mlir,
                 transposed->mlir);
    from = transposed;
  }
  out.push_back(emit_reshape(ctx, x, from, out_avals[0]));
}
std::vector<Example> reshape_examples() {
  auto example = [](const char* label, ExampleOperand x, Shape shape, std::optional<Ints> dimensions = {}) {
    return Example{.label = label, .in = {x}, .params = make_params(ReshapeParams{dimensions, shape, {}})};
  };
  return {example("flatten", examples::array({2, 3}, DType::float32), {6}),
          example("split", examples::array({6}, DType::float16), {2, 1, 3}),
          example("permuted", examples::array({2, 3}, DType::float32), {6}, Ints{1, 0}),
          example("to scalar", examples::array({1, 1}, DType::complex64), {}),
          example("from scalar", examples::array({}, DType::float32), {1}),
          example("empty", examples::array({0, 3}, DType::float32), {3, 0}),
          example("bool", examples::array({4}, DType::bool_), {2, 2})};
}

// transpose

struct TransposeParams {
  Ints permutation;
};

void transpose_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<TransposeParams>();
  if (p.permutation.rank() != in[0]->rank() || !is_identity(take(p.permutation, argsort(p.permutation))))
    throw_error(ErrorCode::axis, "transpose", "{} is not a permutation of the axes of {}",
                to_tuple_string(p.permutation), in[0]->text);
  out.push_back(with_shape(in[0], take(in[0]->shape, p.permutation)));
}
std::vector<Array> transpose_transpose(const Params* params, std::span<const Array> cotangents,
                                       std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array()};
  return {lax::transpose(cotangents[0], argsort(params->get<TransposeParams>().permutation))};
}
BatchOut transpose_batch(const Params* params, const BatchIn& in) {
  Ints permutation = bump_dims(params->get<TransposeParams>().permutation, in.dims[0]);
  return {{lax::transpose(in.args[0], prefixed(in.dims[0], permutation))}, {0}};
}
void transpose_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                     std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  out.push_back(ctx.emit("stablehlo.transpose {}, dims = {} : {}", in[0],
                         int_list(params->get<TransposeParams>().permutation), function_type(in_avals, out_avals)));
}
std::vector<Example> transpose_examples() {
  auto example = [](const char* label, ExampleOperand x, Ints permutation) {
    return Example{.label = label, .in = {x}, .params = make_params(TransposeParams{permutation})};
  };
  return {example("matrix", examples::array({2, 3}, DType::float32), {1, 0}),
          example("rank 3", examples::array({2, 3, 4}, DType::float32), {2, 0, 1}),
          example("scalar", examples::array({}, DType::float32), {}),
          example("empty", examples::array({0, 2}, DType::int32), {1, 0}),
          example("complex", examples::array({2, 2}, DType::complex64), {1, 0}),
          example("bool", examples::array({1, 3}, DType::bool_), {1, 0})};
}

// squeeze

struct SqueezeParams {
  Ints dimensions;
};

void squeeze_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<SqueezeParams>();
  Ints axes = canonical_axes("squeeze", p.dimensions, in[0]->rank());
  for (auto a : axes)
    if (in[0]->shape[a] != 1)
      throw_error(ErrorCode::shape, "squeeze", "axis {} of {} has size {}; only axes of size 1 can be removed", a,
                  in[0]->text, in[0]->shape[a]);
  out.push_back(with_shape(in[0], without_axes(in[0]->shape, axes)));
}
std::vector<Array> squeeze_transpose(const Params* params, std::span<const Array> cotangents,
                                     std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array()};
  return {lax::expand_dims(cotangents[0], params->get<SqueezeParams>().dimensions)};
}
BatchOut squeeze_batch(const Params* params, const BatchIn& in) {
  Array x = moveaxis(in.args[0], in.dims[0], 0);
  return {{lax::squeeze(x, shifted(params->get<SqueezeParams>().dimensions))}, {0}};
}
void squeeze_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                   std::span<const std::string> in, std::vector<std::string>& out) {
  out.push_back(emit_reshape(ctx, in[0], in_avals[0], out_avals[0]));
}
std::vector<Example> squeeze_examples() {
  auto example = [](const char* label, ExampleOperand x, Ints dimensions) {
    return Example{.label = label, .in = {x}, .params = make_params(SqueezeParams{dimensions})};
  };
  return {example("one", examples::array({1, 3}, DType::float32), {0}),
          example("two", examples::array({1, 2, 1}, DType::float32), {0, 2}),
          example("some", examples::array({1, 1}, DType::complex64), {1}),
          example("empty", examples::array({0, 1}, DType::float32), {1}),
          example("to scalar", examples::array({1}, DType::int32), {0})};
}

// rev

struct RevParams {
  Ints dimensions;
};

void rev_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  canonical_axes("rev", params->get<RevParams>().dimensions, in[0]->rank());
  out.push_back(in[0]);
}
std::vector<Array> rev_transpose(const Params* params, std::span<const Array> cotangents,
                                 std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array()};
  return {lax::rev(cotangents[0], params->get<RevParams>().dimensions)};
}
BatchOut rev_batch(const Params* params, const BatchIn& in) {
  return {{lax::rev(in.args[0], bump_dims(params->get<RevParams>().dimensions, in.dims[0]))}, {in.dims[0]}};
}
void rev_lower(LowerContext& ctx, const Params* params, std::span<const AvalP>, std::span<const AvalP> out_avals,
               std::span<const std::string> in, std::vector<std::string>& out) {
  out.push_back(ctx.emit("stablehlo.reverse {}, dims = {} : {}", in[0], int_list(params->get<RevParams>().dimensions),
                         out_avals[0]->mlir));
}
std::vector<Example> rev_examples() {
  auto example = [](const char* label, ExampleOperand x, Ints dimensions) {
    return Example{.label = label, .in = {x}, .params = make_params(RevParams{dimensions})};
  };
  return {example("vector", examples::array({4}, DType::float32), {0}),
          example("both", examples::array({2, 3}, DType::float32), {0, 1}),
          example("second", examples::array({2, 3}, DType::bfloat16), {1}),
          example("none", examples::array({2}, DType::int32), {}),
          example("empty", examples::array({0, 2}, DType::float32), {0}),
          example("complex", examples::array({1, 3}, DType::complex64), {1})};
}

}  // namespace

LOCKSTEP_PRIMITIVE(broadcast_in_dim_p, {.name = "broadcast_in_dim",
                                        .abstract_eval = broadcast_in_dim_abstract_eval,
                                        .jvp = rules::jvp_linear<broadcast_in_dim_p>,
                                        .transpose = broadcast_in_dim_transpose,
                                        .batch = broadcast_in_dim_batch,
                                        .lower = broadcast_in_dim_lower,
                                        .examples = broadcast_in_dim_examples,
                                        .print = broadcast_in_dim_print});
LOCKSTEP_PRIMITIVE(reshape_p, {.name = "reshape",
                               .abstract_eval = reshape_abstract_eval,
                               .jvp = rules::jvp_linear<reshape_p>,
                               .transpose = reshape_transpose,
                               .batch = reshape_batch,
                               .lower = reshape_lower,
                               .examples = reshape_examples});
LOCKSTEP_PRIMITIVE(transpose_p, {.name = "transpose",
                                 .abstract_eval = transpose_abstract_eval,
                                 .jvp = rules::jvp_linear<transpose_p>,
                                 .transpose = transpose_transpose,
                                 .batch = transpose_batch,
                                 .lower = transpose_lower,
                                 .examples = transpose_examples});
LOCKSTEP_PRIMITIVE(squeeze_p, {.name = "squeeze",
                               .abstract_eval = squeeze_abstract_eval,
                               .jvp = rules::jvp_linear<squeeze_p>,
                               .transpose = squeeze_transpose,
                               .batch = squeeze_batch,
                               .lower = squeeze_lower,
                               .examples = squeeze_examples});
LOCKSTEP_PRIMITIVE(rev_p, {.name = "rev",
                           .abstract_eval = rev_abstract_eval,
                           .jvp = rules::jvp_linear<rev_p>,
                           .transpose = rev_transpose,
                           .batch = rev_batch,
                           .lower = rev_lower,
                           .examples = rev_examples});

namespace lax {

Array broadcast_in_dim(const Operand& operand, const Shape& shape, const Ints& broadcast_dimensions) {
  LocationScope scope(operand.where);
  if (operand.array.shape() == shape && is_identity(broadcast_dimensions) &&
      broadcast_dimensions.rank() == shape.rank())
    return operand.array;
  return bind_one(broadcast_in_dim_p, {operand.array},
                  make_params(BroadcastInDimParams{broadcast_dimensions, shape, {}}));
}
Array broadcast(const Operand& operand, const Shape& sizes) {
  LocationScope scope(operand.where);
  Shape shape = sizes;
  for (auto d : operand.array.shape()) shape.push_back(d);
  return broadcast_in_dim(operand, shape, shifted(iota_ints(operand.array.ndim()), sizes.rank()));
}
Array broadcast_to_rank(const Operand& operand, int rank) {
  LocationScope scope(operand.where);
  int have = operand.array.ndim();
  if (rank < have)
    throw_error(ErrorCode::shape, "broadcast_to_rank", "{} has more than {} dimensions", operand.array.aval()->text,
                rank);
  return broadcast(operand, Shape::filled(static_cast<std::size_t>(rank - have), 1));
}
Array reshape(const Operand& operand, const Shape& new_sizes, const std::optional<Ints>& dimensions) {
  LocationScope scope(operand.where);
  const Array& x = operand.array;
  Shape shape = new_sizes;
  if (auto unknown = std::find(shape.begin(), shape.end(), -1); unknown != shape.end()) {
    *unknown = 1;
    std::int64_t known = shape.elements();
    if (known <= 0 || x.size() % known != 0)
      throw_error(ErrorCode::shape, "reshape", "{} has {} elements and cannot become {}", x.aval()->text, x.size(),
                  to_string(new_sizes));
    *unknown = x.size() / known;
  }
  bool in_order = !dimensions || (is_identity(*dimensions) && dimensions->rank() == x.ndim());
  if (x.ndim() > 0 && x.shape() == shape && in_order) return x;
  return bind_one(reshape_p, {x}, make_params(ReshapeParams{in_order ? std::nullopt : dimensions, shape, {}}));
}
Array transpose(const Operand& operand, const Ints& permutation) {
  LocationScope scope(operand.where);
  if (is_identity(permutation) && permutation.rank() == operand.array.ndim()) return operand.array;
  return bind_one(transpose_p, {operand.array}, make_params(TransposeParams{permutation}));
}
Array squeeze(const Operand& array, const Ints& dimensions) {
  LocationScope scope(array.where);
  if (dimensions.empty()) return array.array;
  Ints axes = canonical_axes("squeeze", dimensions, array.array.ndim());
  std::sort(axes.begin(), axes.end());
  return bind_one(squeeze_p, {array.array}, make_params(SqueezeParams{axes}));
}
Array collapse(const Operand& operand, int start_dimension, std::optional<int> stop_dimension) {
  LocationScope scope(operand.where);
  const Shape& shape = operand.array.shape();
  auto place = [&](int i) { return std::clamp(i < 0 ? i + shape.rank() : i, 0, shape.rank()); };
  int begin = place(start_dimension), end = stop_dimension ? place(*stop_dimension) : shape.rank();
  if (end < begin)
    throw_error(ErrorCode::axis, "collapse", "dimensions {} to {} of {} are none", start_dimension, *stop_dimension,
                operand.array.aval()->text);
  Shape sizes(shape.begin(), shape.begin() + begin);
  sizes.push_back(Shape(shape.begin() + begin, shape.begin() + end).elements());
  sizes.append(shape.begin() + end, shape.end());
  return reshape(operand, sizes);
}
Array expand_dims(const Operand& array, const Ints& dimensions) {
  LocationScope scope(array.where);
  int rank = array.array.ndim() + dimensions.rank();
  Ints added = canonical_axes("expand_dims", dimensions, rank);
  std::sort(added.begin(), added.end());
  Shape shape = array.array.shape();
  for (auto a : added) shape = shape.with(static_cast<int>(a), 1);
  return broadcast_in_dim(array, shape, remaining(rank, added));
}
Array rev(const Operand& operand, const Ints& dimensions) {
  LocationScope scope(operand.where);
  return bind_one(rev_p, {operand.array},
                  make_params(RevParams{canonical_axes("rev", dimensions, operand.array.ndim())}));
}

}  // namespace lax
}  // namespace lockstep

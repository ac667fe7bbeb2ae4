// Primitives that put arrays together, take them apart or enlarge them: concatenate, stack, unstack, split, tile, pad.
#include <algorithm>

#include "lockstep/lower/context.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/structural_rules.h"

namespace lockstep {
namespace {

bool all_weak(std::span<const AvalP> in) {
  return std::all_of(in.begin(), in.end(), [](AvalP a) { return a->weak_type; });
}
bool none_given(std::span<const Array> arrays) {
  return std::none_of(arrays.begin(), arrays.end(), [](const Array& a) { return a.has_value(); });
}
// A tree of operations of at most 16 operands each, which compile faster than wide ones.
std::string emit_concatenate(LowerContext& ctx, std::vector<std::string> names, std::vector<AvalP> avals,
                             int dimension) {
  constexpr std::size_t kWidth = 16;
  while (names.size() > 1) {
    std::vector<std::string> joined;
    std::vector<AvalP> joined_avals;
    for (std::size_t from = 0; from < names.size(); from += kWidth) {
      std::size_t n = std::min(kWidth, names.size() - from);
      std::string operands;
      Shape shape = avals[from]->shape;
      shape[dimension] = 0;
      for (std::size_t i = from; i < from + n; ++i) {
        operands += (i == from ? "" : ", ") + names[i];
        shape[dimension] += avals[i]->shape[dimension];
      }
      joined_avals.push_back(with_shape(avals[from], shape));
      joined.push_back(ctx.emit("stablehlo.concatenate {}, dim = {} : {}", operands, dimension,
                                function_type(std::span(avals).subspan(from, n), {&joined_avals.back(), 1})));
    }
    names = std::move(joined), avals = std::move(joined_avals);
  }
  return names[0];
}
std::string emit_part(LowerContext& ctx, const std::string& x, AvalP aval, int axis, std::int64_t from, AvalP part) {
  std::string ranges;
  for (int i = 0; i < aval->rank(); ++i) {
    std::int64_t start = i == axis ? from : 0;
    ranges += fmt::format("{}{}:{}", i ? ", " : "", start, start + part->shape[i]);
  }
  return ctx.emit("stablehlo.slice {} [{}] : ({}) -> {}", x, ranges, aval->mlir, part->mlir);
}

// concatenate

struct ConcatenateParams {
  int dimension;
};

void concatenate_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  int dimension = params->get<ConcatenateParams>().dimension;
  if (in.empty()) throw_error(ErrorCode::invalid_argument, "concatenate", "wants at least one array");
  check_same_dtype("concatenate", in);
  if (dimension < 0 || dimension >= in[0]->rank())
    throw_error(ErrorCode::axis, "concatenate", "dimension {} is out of range for {}", dimension, to_string(in));
  Shape shape = in[0]->shape;
  shape[dimension] = 0;
  for (AvalP a : in) {
    if (a->rank() != in[0]->rank() || a->shape.without(dimension) != in[0]->shape.without(dimension))
      throw_error(ErrorCode::shape, "concatenate", "shapes may differ in dimension {} only: {}", dimension,
                  to_string(in));
    shape[dimension] += a->shape[dimension];
  }
  out.push_back(joined_aval(in, shape, all_weak(in)));
}
std::vector<Array> concatenate_transpose(const Params* params, std::span<const Array> cotangents,
                                         std::span<const TransposeIn> in) {
  int dimension = params->get<ConcatenateParams>().dimension;
  std::vector<Array> out(in.size());
  if (!cotangents[0].has_value()) return out;
  Ints sizes;
  for (auto& i : in) sizes.push_back(i.aval->shape[dimension]);
  Arrays parts = lax::split(cotangents[0], sizes, dimension);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i].linear()) out[i] = parts[i];
  return out;
}
BatchOut concatenate_batch(const Params* params, const BatchIn& in) {
  Arrays operands;
  for (std::size_t i = 0; i < in.args.size(); ++i)
    operands.push_back(batch_axis_at_front(in.args[i], in.dims[i], in.size));
  return {{lax::concatenate(operands, params->get<ConcatenateParams>().dimension + 1)}, {0}};
}
void concatenate_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals, std::span<const AvalP>,
                       std::span<const std::string> in, std::vector<std::string>& out) {
  out.push_back(emit_concatenate(ctx, {in.begin(), in.end()}, {in_avals.begin(), in_avals.end()},
                                 params->get<ConcatenateParams>().dimension));
}
std::vector<Example> concatenate_examples() {
  auto example = [](const char* label, std::vector<ExampleOperand> in, int dimension) {
    return Example{.label = label, .in = std::move(in), .params = make_params(ConcatenateParams{dimension})};
  };
  using examples::array;
  return {
      example("rows", {array({2, 3}, DType::float32), array({1, 3}, DType::float32, {.seed = 1})}, 0),
      example("columns", {array({2, 1}, DType::bfloat16), array({2, 2}, DType::bfloat16, {.seed = 1})}, 1),
      example("three, one empty",
              {array({2}, DType::float32), array({0}, DType::float32), array({1}, DType::float32, {.seed = 2})}, 0),
      example("one", {array({2}, DType::complex64)}, 0),
      example("bool", {array({2}, DType::bool_), array({3}, DType::bool_)}, 0),
      example("many", std::vector<ExampleOperand>(17, array({1, 2}, DType::float32)), 0),
  };
}

// stack, unstack

struct StackParams {
  int axis;
};

void stack_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  int axis = params->get<StackParams>().axis;
  if (in.empty()) throw_error(ErrorCode::invalid_argument, "stack", "wants at least one array");
  check_same_dtype("stack", in);
  for (AvalP a : in)
    if (a->shape != in[0]->shape)
      throw_error(ErrorCode::shape, "stack", "all arrays must have one shape: {}", to_string(in));
  canonical_axis("stack", axis, in[0]->rank() + 1);
  out.push_back(joined_aval(in, in[0]->shape.with(axis, static_cast<std::int64_t>(in.size())), all_weak(in)));
}
std::vector<Array> stack_transpose(const Params* params, std::span<const Array> cotangents,
                                   std::span<const TransposeIn> in) {
  std::vector<Array> out(in.size());
  if (!cotangents[0].has_value()) return out;
  Arrays parts = lax::unstack(cotangents[0], params->get<StackParams>().axis);
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i].linear()) out[i] = parts[i];
  return out;
}
BatchOut stack_batch(const Params* params, const BatchIn& in) {
  int axis = params->get<StackParams>().axis, dim = in.dims[0];
  if (dim != kNotMapped && std::all_of(in.dims.begin(), in.dims.end(), [&](int d) { return d == dim; })) {
    bool before = axis <= dim;
    return {{lax::stack(in.args, before ? axis : axis + 1)}, {before ? dim + 1 : dim}};
  }
  Arrays operands;
  for (std::size_t i = 0; i < in.args.size(); ++i)
    operands.push_back(batch_axis_at_front(in.args[i], in.dims[i], in.size));
  return {{lax::stack(operands, axis + 1)}, {0}};
}
void stack_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals, std::span<const AvalP>,
                 std::span<const std::string> in, std::vector<std::string>& out) {
  int axis = params->get<StackParams>().axis;
  Ints dims = bump_dims(iota_ints(in_avals[0]->rank()), axis);
  AvalP expanded = with_shape(in_avals[0], in_avals[0]->shape.with(axis, 1));
  std::vector<std::string> names;
  for (auto& name : in)
    names.push_back(ctx.emit("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", name, int_list(dims),
                             in_avals[0]->mlir, expanded->mlir));
  out.push_back(emit_concatenate(ctx, names, std::vector<AvalP>(in.size(), expanded), axis));
}
std::vector<Example> stack_examples() {
  auto example = [](const char* label, std::vector<ExampleOperand> in, int axis) {
    return Example{.label = label, .in = std::move(in), .params = make_params(StackParams{axis})};
  };
  using examples::array;
  return {
      example("rows", {array({3}, DType::float32), array({3}, DType::float32, {.seed = 1})}, 0),
      example("columns", {array({3}, DType::bfloat16), array({3}, DType::bfloat16, {.seed = 1})}, 1),
      example("between", {array({2, 3}, DType::float32), array({2, 3}, DType::float32, {.seed = 1})}, 1),
      example("scalars", {array({}, DType::complex64), array({}, DType::complex64, {.seed = 1})}, 0),
      example("one", {array({2}, DType::bool_)}, 1),
      example("empty", {array({0}, DType::int32), array({0}, DType::int32)}, 0),
  };
}

void unstack_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  int axis = canonical_axis("unstack", params->get<StackParams>().axis, in[0]->rank());
  for (std::int64_t i = 0; i < in[0]->shape[axis]; ++i) out.push_back(with_shape(in[0], in[0]->shape.without(axis)));
}
Arrays filled_cotangents(std::span<const Array> cotangents, AvalP whole, int axis, const Ints* sizes) {
  Arrays out;
  for (std::size_t i = 0; i < cotangents.size(); ++i) {
    Shape shape = whole->shape;
    if (sizes)
      shape[axis] = (*sizes)[i];
    else
      shape = shape.without(axis);
    out.push_back(instantiate_zeros(cotangents[i], with_shape(whole, shape)));
  }
  return out;
}
std::vector<Array> unstack_transpose(const Params* params, std::span<const Array> cotangents,
                                     std::span<const TransposeIn> in) {
  int axis = params->get<StackParams>().axis;
  if (none_given(cotangents) || !in[0].linear()) return {Array()};
  return {lax::stack(filled_cotangents(cotangents, in[0].aval, axis, nullptr), axis)};
}
BatchOut unstack_batch(const Params* params, const BatchIn& in) {
  int axis = params->get<StackParams>().axis, dim = in.dims[0];
  bool before = axis < dim;
  Arrays outs = lax::unstack(in.args[0], before ? axis : axis + 1);
  std::vector<int> dims(outs.size(), before ? dim - 1 : dim);
  return {std::move(outs), std::move(dims)};
}
void unstack_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                   std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  int axis = params->get<StackParams>().axis;
  Shape shape = in_avals[0]->shape;
  shape[axis] = 1;
  AvalP part = with_shape(in_avals[0], shape);
  for (std::size_t i = 0; i < out_avals.size(); ++i) {
    std::string x = emit_part(ctx, in[0], in_avals[0], axis, static_cast<std::int64_t>(i), part);
    out.push_back(ctx.emit("stablehlo.reshape {} : ({}) -> {}", x, part->mlir, out_avals[i]->mlir));
  }
}
std::vector<Example> unstack_examples() {
  auto example = [](const char* label, ExampleOperand x, int axis) {
    return Example{.label = label, .in = {x}, .params = make_params(StackParams{axis})};
  };
  using examples::array;
  return {example("rows", array({2, 3}, DType::float32), 0), example("columns", array({2, 3}, DType::bfloat16), 1),
          example("to scalars", array({3}, DType::complex64), 0), example("empty", array({2, 0}, DType::int32), 0)};
}

// split

struct SplitParams {
  int axis;
  Ints sizes;
};

void split_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<SplitParams>();
  int axis = canonical_axis("split", p.axis, in[0]->rank());
  std::int64_t total = 0;
  bool negative = false;
  for (auto s : p.sizes) total += s, negative = negative || s < 0;
  if (negative || total != in[0]->shape[axis])
    throw_error(ErrorCode::shape, "split", "sizes {} do not add up to dimension {} of {}", to_tuple_string(p.sizes),
                axis, in[0]->text);
  Shape shape = in[0]->shape;
  for (auto s : p.sizes) {
    shape[axis] = s;
    out.push_back(with_shape(in[0], shape));
  }
}
std::vector<Array> split_transpose(const Params* params, std::span<const Array> cotangents,
                                   std::span<const TransposeIn> in) {
  auto& p = params->get<SplitParams>();
  if (none_given(cotangents) || !in[0].linear()) return {Array()};
  return {lax::concatenate(filled_cotangents(cotangents, in[0].aval, p.axis, &p.sizes), p.axis)};
}
BatchOut split_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<SplitParams>();
  Arrays outs = lax::split(in.args[0], p.sizes, p.axis >= in.dims[0] ? p.axis + 1 : p.axis);
  std::vector<int> dims(outs.size(), in.dims[0]);
  return {std::move(outs), std::move(dims)};
}
void split_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                 std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<SplitParams>();
  std::int64_t from = 0;
  for (AvalP part : out_avals) {
    out.push_back(emit_part(ctx, in[0], in_avals[0], p.axis, from, part));
    from += part->shape[p.axis];
  }
}
std::vector<Example> split_examples() {
  auto example = [](const char* label, ExampleOperand x, int axis, Ints sizes) {
    return Example{.label = label, .in = {x}, .params = make_params(SplitParams{axis, sizes})};
  };
  using examples::array;
  return {example("rows", array({3, 2}, DType::float32), 0, {1, 2}),
          example("columns", array({2, 4}, DType::bfloat16), 1, {2, 0, 2}),
          example("one", array({2}, DType::complex64), 0, {2}), example("bool", array({3}, DType::bool_), 0, {1, 2}),
          example("empty", array({0, 2}, DType::float32), 0, {0, 0})};
}

// tile

struct TileParams {
  Ints reps;
};

// The operand's dimensions with one of size 1, or of the repetitions, before each.
Shape interleaved(const Ints& before, const Shape& shape) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) out.push_back(before[i]), out.push_back(shape[i]);
  return out;
}
void tile_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<TileParams>();
  if (p.reps.rank() != in[0]->rank() || std::any_of(p.reps.begin(), p.reps.end(), [](auto r) { return r < 0; }))
    throw_error(ErrorCode::shape, "tile", "reps {} must hold one number for each dimension of {}, none negative",
                to_tuple_string(p.reps), in[0]->text);
  Shape shape = in[0]->shape;
  for (int i = 0; i < shape.rank(); ++i) shape[i] *= p.reps[i];
  out.push_back(with_shape(in[0], shape));
}
std::vector<Array> tile_transpose(const Params* params, std::span<const Array> cotangents,
                                  std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array()};
  Array ct = lax::reshape(cotangents[0], interleaved(params->get<TileParams>().reps, in[0].aval->shape));
  Ints axes;
  for (int i = 0; i < in[0].aval->rank(); ++i) axes.push_back(2 * i);
  return {lax::reduce_sum(ct, axes)};
}
BatchOut tile_batch(const Params* params, const BatchIn& in) {
  return {{lax::tile(in.args[0], params->get<TileParams>().reps.with(in.dims[0], 1))}, {in.dims[0]}};
}
void tile_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  AvalP aval = in_avals[0];
  Shape ones = Shape::filled(aval->shape.size(), 1);
  AvalP expanded = with_shape(aval, interleaved(ones, aval->shape));
  AvalP repeated = with_shape(aval, interleaved(params->get<TileParams>().reps, aval->shape));
  std::string x = ctx.emit("stablehlo.reshape {} : ({}) -> {}", in[0], aval->mlir, expanded->mlir);
  x = ctx.emit("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", x, int_list(iota_ints(expanded->rank())),
               expanded->mlir, repeated->mlir);
  out.push_back(ctx.emit("stablehlo.reshape {} : ({}) -> {}", x, repeated->mlir, out_avals[0]->mlir));
}
std::vector<Example> tile_examples() {
  auto example = [](const char* label, ExampleOperand x, Ints reps) {
    return Example{.label = label, .in = {x}, .params = make_params(TileParams{reps})};
  };
  using examples::array;
  return {example("both", array({2, 3}, DType::float32), {2, 3}), example("vector", array({2}, DType::bfloat16), {2}),
          example("scalar", array({}, DType::float32), {}), example("zero times", array({2}, DType::complex64), {0}),
          example("bool", array({1, 2}, DType::bool_), {2, 1})};
}

// pad

struct PadParams {
  lax::PaddingConfig padding_config;
};

void pad_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& config = params->get<PadParams>().padding_config;
  auto fail = [&](const char* why) {
    std::string text;
    for (auto& d : config) text += fmt::format("{}({}, {}, {})", text.empty() ? "" : ", ", d.low, d.high, d.interior);
    throw_error(ErrorCode::shape, "pad", "{} with padding ({}): {}", in[0]->text, text, why);
  };
  check_same_dtype("pad", in);
  if (in[1]->rank() != 0) fail("the padding value must be a scalar");
  if (static_cast<int>(config.size()) != in[0]->rank()) fail("there must be one (low, high, interior) per dimension");
  Shape shape = in[0]->shape;
  for (int i = 0; i < shape.rank(); ++i) {
    auto& d = config[static_cast<std::size_t>(i)];
    if (d.interior < 0) fail("interior padding must not be negative");
    shape[i] += d.low + d.high + std::max<std::int64_t>(0, shape[i] - 1) * d.interior;
    if (shape[i] < 0) fail("a size would be negative");
  }
  out.push_back(joined_aval(in, shape, all_weak(in)));
}
std::vector<Array> pad_transpose(const Params* params, std::span<const Array> cotangents,
                                 std::span<const TransposeIn> in) {
  if (!cotangents[0].has_value()) return {Array(), Array()};
  const Array& ct = cotangents[0];
  lax::PaddingConfig unpadding;
  Ints strides;
  for (auto& d : params->get<PadParams>().padding_config) {
    unpadding.push_back({-d.low, -d.high, 0});
    strides.push_back(d.interior + 1);
  }
  Array cropped = lax::pad(ct, scalar(Scalar(0.0, ct.dtype()), ct.dtype()), unpadding);
  Array operand = lax::slice(cropped, Shape::filled(strides.size(), 0), cropped.shape(), strides), value;
  if (in[1].linear()) {
    Array total = lax::reduce_sum(ct, iota_ints(ct.ndim()));
    value = lax::sub(total, lax::reduce_sum(operand, iota_ints(ct.ndim())));
  }
  return {in[0].linear() ? operand : Array(), value};
}
BatchOut pad_batch(const Params* params, const BatchIn& in) {
  auto config = params->get<PadParams>().padding_config;
  Array operand = in.args[0];
  int dim = in.dims[0];
  if (dim == kNotMapped) operand = broadcast_new_axis(operand, in.size, dim = 0);
  config.insert(config.begin() + dim, lax::PaddingDim{});
  if (in.dims[1] == kNotMapped) return {{lax::pad(operand, in.args[1], config)}, {dim}};
  Array x = lax::pad(operand, scalar(Scalar(0.0, operand.dtype()), operand.dtype()), config);
  Array mask = lax::pad(full(make_aval(operand.shape(), DType::bool_), Scalar(true)), false, config);
  return {{lax::select(mask, x, lax::broadcast_in_dim(in.args[1], x.shape(), {dim}))}, {dim}};
}
void pad_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
               std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  Ints low, high, interior;
  for (auto& d : params->get<PadParams>().padding_config)
    low.push_back(d.low), high.push_back(d.high), interior.push_back(d.interior);
  out.push_back(ctx.emit("stablehlo.pad {}, {}, low = {}, high = {}, interior = {} : {}", in[0], in[1], int_list(low),
                         int_list(high), int_list(interior), function_type(in_avals, out_avals)));
}
std::vector<Example> pad_examples() {
  auto example = [](const char* label, Shape shape, DType dtype, lax::PaddingConfig config) {
    return Example{.label = label,
                   .in = {examples::array(shape, dtype), examples::array({}, dtype, {.seed = 1})},
                   .params = make_params(PadParams{config})};
  };
  return {example("edges", {2, 3}, DType::float32, {{1, 2, 0}, {0, 1, 0}}),
          example("interior", {3, 2}, DType::bfloat16, {{0, 0, 1}, {1, 0, 2}}),
          example("negative", {4}, DType::float32, {{-1, -1, 0}}),
          example("negative, interior", {4}, DType::float32, {{-1, 1, 2}}),
          example("scalar", {}, DType::float32, {}),
          example("of nothing", {0}, DType::complex64, {{1, 1, 3}}),
          example("to nothing", {2}, DType::float32, {{-1, -1, 0}}),
          example("bool", {2}, DType::bool_, {{1, 1, 1}}),
          example("int", {2}, DType::int32, {{1, 0, 1}})};
}

}  // namespace

namespace lax {
void print_param(Printer& p, const PaddingDim& d) {
  print_text(p, fmt::format("({}, {}, {})", d.low, d.high, d.interior));
}
std::size_t hash_param(const PaddingDim& d) {
  return hash_combine(hash_combine(lockstep::hash_param(d.low), lockstep::hash_param(d.high)),
                      lockstep::hash_param(d.interior));
}
}  // namespace lax

LOCKSTEP_PRIMITIVE(concatenate_p, {.name = "concatenate",
                                   .abstract_eval = concatenate_abstract_eval,
                                   .jvp = rules::jvp_linear<concatenate_p>,
                                   .transpose = concatenate_transpose,
                                   .batch = concatenate_batch,
                                   .lower = concatenate_lower,
                                   .examples = concatenate_examples});
LOCKSTEP_PRIMITIVE(stack_p, {.name = "stack",
                             .abstract_eval = stack_abstract_eval,
                             .jvp = rules::jvp_linear<stack_p>,
                             .transpose = stack_transpose,
                             .batch = stack_batch,
                             .lower = stack_lower,
                             .examples = stack_examples});
LOCKSTEP_PRIMITIVE(unstack_p, {.name = "unstack",
                               .abstract_eval = unstack_abstract_eval,
                               .jvp = rules::jvp_linear<unstack_p>,
                               .transpose = unstack_transpose,
                               .batch = unstack_batch,
                               .lower = unstack_lower,
                               .examples = unstack_examples,
                               .multiple_results = true});
LOCKSTEP_PRIMITIVE(split_p, {.name = "split",
                             .abstract_eval = split_abstract_eval,
                             .jvp = rules::jvp_linear<split_p>,
                             .transpose = split_transpose,
                             .batch = split_batch,
                             .lower = split_lower,
                             .examples = split_examples,
                             .multiple_results = true});
LOCKSTEP_PRIMITIVE(tile_p, {.name = "tile",
                            .abstract_eval = tile_abstract_eval,
                            .jvp = rules::jvp_linear<tile_p>,
                            .transpose = tile_transpose,
                            .batch = tile_batch,
                            .lower = tile_lower,
                            .examples = tile_examples});
LOCKSTEP_PRIMITIVE(pad_p, {.name = "pad",
                           .abstract_eval = pad_abstract_eval,
                           .jvp = rules::jvp_linear<pad_p>,
                           .transpose = pad_transpose,
                           .batch = pad_batch,
                           .lower = pad_lower,
                           .examples = pad_examples});

namespace lax {

Array concatenate(std::span<const Array> operands, int dimension, std::source_location where) {
  LocationScope scope(where);
  if (operands.size() == 1) return operands[0];
  return bind_one(concatenate_p, operands, make_params(ConcatenateParams{dimension}));
}
Array stack(std::span<const Array> operands, int axis, std::source_location where) {
  LocationScope scope(where);
  if (operands.empty()) throw_error(ErrorCode::invalid_argument, "stack", "wants at least one array");
  Arrays in(operands.begin(), operands.end());
  adopt_dtypes(in);
  return bind_one(stack_p, in, make_params(StackParams{canonical_axis("stack", axis, in[0].ndim() + 1)}));
}
Arrays unstack(const Operand& x, int axis) {
  LocationScope scope(x.where);
  ParamsRef params = make_params(StackParams{canonical_axis("unstack", axis, x.array.ndim())});
  return bind_many(unstack_p, {&x.array, 1}, params);
}
Arrays split(const Operand& operand, const Ints& sizes, int axis) {
  LocationScope scope(operand.where);
  ParamsRef params = make_params(SplitParams{canonical_axis("split", axis, operand.array.ndim()), sizes});
  return bind_many(split_p, {&operand.array, 1}, params);
}
Array tile(const Operand& operand, const Ints& reps) {
  LocationScope scope(operand.where);
  return bind_one(tile_p, {operand.array}, make_params(TileParams{reps}));
}
Array pad(const Operand& operand, const Operand& padding_value, const PaddingConfig& padding_config) {
  LocationScope scope(operand.where);
  Array in[] = {operand.array, padding_value.array};
  adopt_dtypes(in);
  return bind_one(pad_p, in, make_params(PadParams{padding_config}));
}

}  // namespace lax
}  // namespace lockstep

// Primitives that read or write a block: slice, dynamic_slice, dynamic_update_slice.
#include <algorithm>

#include "lockstep/lower/context.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/structural_rules.h"

namespace lockstep {
namespace {

// slice

struct SliceParams {
  Ints limit_indices, start_indices;
  std::optional<Ints> strides;
};

void slice_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<SliceParams>();
  const Shape& shape = in[0]->shape;
  auto fail = [&](const char* why) {
    throw_error(ErrorCode::shape, "slice", "{} from {} to {} by {}: {}", in[0]->text, to_tuple_string(p.start_indices),
                to_tuple_string(p.limit_indices), p.strides ? to_tuple_string(*p.strides) : "1", why);
  };
  if (p.start_indices.rank() != shape.rank() || p.limit_indices.rank() != shape.rank() ||
      (p.strides && p.strides->rank() != shape.rank()))
    fail("there must be one number per dimension");
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    std::int64_t start = p.start_indices[i], limit = p.limit_indices[i], stride = p.strides ? (*p.strides)[i] : 1;
    if (start < 0 || limit < start || limit > shape[i]) fail("0 <= start <= limit <= size must hold");
    if (stride <= 0) fail("strides must be positive");
    result.push_back((limit - start + stride - 1) / stride);
  }
  out.push_back(with_shape(in[0], result));
}
std::vector<Array> slice_transpose(const Params* params, std::span<const Array> cotangents,
                                   std::span<const TransposeIn> in) {
  auto& p = params->get<SliceParams>();
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array()};
  const Array& ct = cotangents[0];
  lax::PaddingConfig config;
  for (int i = 0; i < ct.ndim(); ++i) {
    std::int64_t stride = p.strides ? (*p.strides)[i] : 1, start = p.start_indices[i];
    std::int64_t end = start + (ct.shape()[i] == 0 ? 0 : 1 + (ct.shape()[i] - 1) * stride);
    config.push_back({start, in[0].aval->shape[i] - end, stride - 1});
  }
  return {lax::pad(ct, scalar_like(ct, 0.0), config)};
}
BatchOut slice_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<SliceParams>();
  int dim = in.dims[0];
  std::optional<Ints> strides;
  if (p.strides) strides = p.strides->with(dim, 1);
  return {{lax::slice(in.args[0], p.start_indices.with(dim, 0), p.limit_indices.with(dim, in.size), strides)}, {dim}};
}
void slice_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                 std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<SliceParams>();
  std::string ranges;
  for (int i = 0; i < p.start_indices.rank(); ++i) {
    ranges += fmt::format("{}{}:{}", i ? ", " : "", p.start_indices[i], p.limit_indices[i]);
    if (p.strides && (*p.strides)[i] != 1) ranges += fmt::format(":{}", (*p.strides)[i]);
  }
  out.push_back(ctx.emit("stablehlo.slice {} [{}] : {}", in[0], ranges, function_type(in_avals, out_avals)));
}
std::vector<Example> slice_examples() {
  auto example = [](const char* label, ExampleOperand x, Ints starts, Ints limits, std::optional<Ints> strides = {}) {
    return Example{.label = label, .in = {x}, .params = make_params(SliceParams{limits, starts, strides})};
  };
  using examples::array;
  return {example("block", array({3, 4}, DType::float32), {1, 0}, {3, 2}),
          example("strided", array({7}, DType::float32), {1}, {7}, Ints{3}),
          example("strided, remainder", array({2, 8}, DType::bfloat16), {0, 1}, {2, 6}, Ints{1, 2}),
          example("nothing", array({3}, DType::complex64), {2}, {2}),
          example("nothing, strided", array({3}, DType::float32), {1}, {1}, Ints{2}),
          example("scalar", array({}, DType::float32), {}, {}),
          example("bool", array({4}, DType::bool_), {1}, {3}),
          example("of nothing", array({0, 2}, DType::int32), {0, 1}, {0, 2})};
}

// dynamic_slice

struct DynamicSliceParams {
  Shape slice_sizes;
};

void check_starts(const char* operation, std::span<const AvalP> starts, AvalP operand) {
  if (static_cast<int>(starts.size()) != operand->rank())
    throw_error(ErrorCode::shape, operation, "{} start indices for {}; there must be one per dimension", starts.size(),
                operand->text);
  for (AvalP a : starts)
    if (a->rank() != 0 || !is_integer(a->dtype) || a->dtype != starts[0]->dtype)
      throw_error(ErrorCode::dtype, operation, "start indices must be integer scalars of one type, not {}",
                  to_string(starts));
}
void check_fits(const char* operation, const Shape& sizes, AvalP operand) {
  bool fits = sizes.rank() == operand->rank();
  for (int i = 0; fits && i < sizes.rank(); ++i) fits = sizes[i] >= 0 && sizes[i] <= operand->shape[i];
  if (!fits)
    throw_error(ErrorCode::shape, operation, "a block {} does not fit into {}", to_string(sizes), operand->text);
}
void dynamic_slice_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<DynamicSliceParams>();
  check_starts("dynamic_slice", in.subspan(1), in[0]);
  check_fits("dynamic_slice", p.slice_sizes, in[0]);
  out.push_back(joined_aval(in, p.slice_sizes, in[0]->weak_type));
}
Arrays with_starts(Arrays leading, std::span<const TransposeIn> starts) {
  for (auto& s : starts) leading.push_back(s.value);
  return leading;
}
std::vector<Array> dynamic_slice_transpose(const Params*, std::span<const Array> cotangents,
                                           std::span<const TransposeIn> in) {
  std::vector<Array> out(in.size());
  if (cotangents[0].has_value() && in[0].linear())
    out[0] = bind_one(dynamic_update_slice_p, with_starts({zeros(strong(in[0].aval)), cotangents[0]}, in.subspan(1)));
  return out;
}
// The start indices as index vectors for gather and scatter, and where their mapped axis is.
std::pair<Array, int> stacked_starts(std::int64_t size, std::span<const Array> starts, std::span<const int> dims) {
  Arrays parts;
  bool mapped = std::any_of(dims.begin(), dims.end(), [](int d) { return d != kNotMapped; });
  for (std::size_t i = 0; i < starts.size(); ++i)
    parts.push_back(mapped ? lax::broadcast_in_dim(starts[i], {size, 1}, dims[i] == kNotMapped ? Ints{} : Ints{0})
                           : lax::broadcast(starts[i], {1}));
  return {lax::concatenate(parts, mapped ? 1 : 0), mapped ? 0 : kNotMapped};
}
BatchOut dynamic_slice_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<DynamicSliceParams>();
  if (in.args.size() == 1) return {{in.args[0]}, {in.dims[0]}};
  Ints dims = iota_ints(p.slice_sizes.rank());
  auto [indices, indices_dim] = stacked_starts(in.size, in.args.subspan(1), in.dims.subspan(1));
  return batch_gather(in.size, in.args[0], in.dims[0], indices, indices_dim,
                      {.offset_dims = dims, .start_index_map = dims}, p.slice_sizes,
                      {.unique_indices = true, .indices_are_sorted = true, .mode = lax::GatherScatterMode::clip});
}
std::string joined(std::span<const std::string> names) {
  std::string text;
  for (auto& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}
void dynamic_slice_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                         std::span<const AvalP> out_avals, std::span<const std::string> in,
                         std::vector<std::string>& out) {
  out.push_back(ctx.emit("stablehlo.dynamic_slice {}, sizes = {} : {}", joined(in),
                         int_list(params->get<DynamicSliceParams>().slice_sizes), function_type(in_avals, out_avals)));
}
ExampleOperand index(std::int64_t i, DType dtype = DType::int32) {
  return examples::values({}, dtype, {static_cast<double>(i)});
}
std::vector<Example> dynamic_slice_examples() {
  auto example = [](const char* label, std::vector<ExampleOperand> in, Shape sizes) {
    return Example{.label = label, .in = std::move(in), .params = make_params(DynamicSliceParams{sizes})};
  };
  using examples::array;
  return {example("block", {array({3, 4}, DType::float32), index(1), index(2)}, {2, 1}),
          example("clamped", {array({4}, DType::bfloat16), index(3)}, {2}),
          example("clamped below", {array({4}, DType::float32), index(-2)}, {2}),
          example("unsigned", {array({4}, DType::complex64), index(1, DType::uint8)}, {3}),
          example("nothing", {array({3}, DType::bool_), index(1)}, {0}),
          example("scalar", {array({}, DType::float32)}, {})};
}

// dynamic_update_slice

void dynamic_update_slice_abstract_eval(const Params*, std::span<const AvalP> in, AvalList& out) {
  check_same_dtype("dynamic_update_slice", in.subspan(0, 2));
  check_starts("dynamic_update_slice", in.subspan(2), in[0]);
  check_fits("dynamic_update_slice", in[1]->shape, in[0]);
  bool weak = std::all_of(in.begin(), in.end(), [](AvalP a) { return a->weak_type; });
  out.push_back(joined_aval(in, in[0]->shape, weak));
}
JvpOut dynamic_update_slice_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  Array out = bind_one(dynamic_update_slice_p, primals, params);
  if (!tangents[0].has_value() && !tangents[1].has_value()) return {{out}, {Array()}};
  Arrays in(primals.begin(), primals.end());
  in[0] = instantiate_zeros(tangents[0], primals[0].aval());
  in[1] = instantiate_zeros(tangents[1], primals[1].aval());
  return {{out}, {bind_one(dynamic_update_slice_p, in, params)}};
}
std::vector<Array> dynamic_update_slice_transpose(const Params*, std::span<const Array> cotangents,
                                                  std::span<const TransposeIn> in) {
  std::vector<Array> out(in.size());
  if (!cotangents[0].has_value()) return out;
  const Array& ct = cotangents[0];
  if (in[0].linear())
    out[0] = bind_one(dynamic_update_slice_p, with_starts({ct, zeros(strong(in[1].aval))}, in.subspan(2)));
  if (in[1].linear())
    out[1] =
        bind_one(dynamic_slice_p, with_starts({ct}, in.subspan(2)), make_params(DynamicSliceParams{in[1].aval->shape}));
  return out;
}
BatchOut dynamic_update_slice_batch(const Params*, const BatchIn& in) {
  if (in.args.size() == 2) return {{in.args[1]}, {in.dims[1]}};
  auto [indices, indices_dim] = stacked_starts(in.size, in.args.subspan(2), in.dims.subspan(2));
  Ints dims = iota_ints(static_cast<std::int64_t>(in.args.size()) - 2);
  Array args[] = {in.args[0], indices, in.args[1]};
  int arg_dims[] = {in.dims[0], indices_dim, in.dims[1]};
  return batch_scatter(scatter_p, {in.size, in.axis_name, args, arg_dims},
                       {.update_window_dims = dims, .scatter_dims_to_operand_dims = dims},
                       {.indices_are_sorted = true, .unique_indices = true, .mode = lax::GatherScatterMode::clip});
}
void dynamic_update_slice_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals,
                                std::span<const AvalP> out_avals, std::span<const std::string> in,
                                std::vector<std::string>& out) {
  out.push_back(ctx.emit("stablehlo.dynamic_update_slice {} : {}", joined(in), function_type(in_avals, out_avals)));
}
std::vector<Example> dynamic_update_slice_examples() {
  auto example = [](const char* label, std::vector<ExampleOperand> in) {
    return Example{.label = label, .in = std::move(in), .params = {}};
  };
  using examples::array;
  return {
      example("block", {array({3, 4}, DType::float32), array({2, 1}, DType::float32, {.seed = 1}), index(1), index(2)}),
      example("clamped", {array({4}, DType::bfloat16), array({2}, DType::bfloat16, {.seed = 1}), index(3)}),
      example("all", {array({2}, DType::complex64), array({2}, DType::complex64, {.seed = 1}), index(1)}),
      example("nothing", {array({3}, DType::float32), array({0}, DType::float32), index(1, DType::uint32)}),
      example("bool", {array({3}, DType::bool_), array({1}, DType::bool_), index(-1)}),
      example("scalar", {array({}, DType::float32), array({}, DType::float32, {.seed = 1})})};
}

}  // namespace

LOCKSTEP_PRIMITIVE(slice_p, {.name = "slice",
                             .abstract_eval = slice_abstract_eval,
                             .jvp = rules::jvp_linear<slice_p>,
                             .transpose = slice_transpose,
                             .batch = slice_batch,
                             .lower = slice_lower,
                             .examples = slice_examples});
LOCKSTEP_PRIMITIVE(dynamic_slice_p, {.name = "dynamic_slice",
                                     .abstract_eval = dynamic_slice_abstract_eval,
                                     .jvp = rules::jvp_linear_in_first<dynamic_slice_p>,
                                     .transpose = dynamic_slice_transpose,
                                     .batch = dynamic_slice_batch,
                                     .lower = dynamic_slice_lower,
                                     .examples = dynamic_slice_examples});
LOCKSTEP_PRIMITIVE(dynamic_update_slice_p, {.name = "dynamic_update_slice",
                                            .abstract_eval = dynamic_update_slice_abstract_eval,
                                            .jvp = dynamic_update_slice_jvp,
                                            .transpose = dynamic_update_slice_transpose,
                                            .batch = dynamic_update_slice_batch,
                                            .lower = dynamic_update_slice_lower,
                                            .examples = dynamic_update_slice_examples});

namespace lax {
namespace {

// Start indices of one integer type, with negative ones counted from the end where `from_end` says so.
Arrays normalized_starts(const char* operation, const Array& operand, Arrays starts,
                         const std::vector<bool>& from_end) {
  if (static_cast<int>(starts.size()) != operand.ndim())
    throw_error(ErrorCode::shape, operation, "{} start indices for {}; there must be one per dimension", starts.size(),
                operand.aval()->text);
  adopt_dtypes(starts);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    Array& start = starts[i];
    DType dtype = start.dtype();
    std::int64_t size = operand.shape()[i];
    if (!is_signed_integer(dtype)) continue;
    if (start.value()->kind() == Value::Kind::scalar) {
      std::int64_t at = static_cast<const ScalarValue*>(start.value())->scalar.as_int();
      if (at < 0 && !from_end[i])
        throw_error(ErrorCode::invalid_argument, operation,
                    "index {} is out of bounds for a dimension of size {}: negative indices are not allowed here", at,
                    size);
      start = scalar(Scalar(at < 0 ? at + size : at, dtype), dtype);
    } else if (from_end[i]) {
      Array negative = lt(start, scalar(Scalar(std::int64_t{0}, dtype), dtype));
      Array from_the_end = add(start, scalar(Scalar(size, dtype), dtype));
      start = select(negative, from_the_end, start);
    }
  }
  return starts;
}
// Starts that are 0 but along one axis.
Arrays starts_along(int axis, const Array& start, int rank) {
  Arrays starts(static_cast<std::size_t>(rank), scalar(Scalar(std::int64_t{0}, start.dtype()), start.dtype()));
  starts[static_cast<std::size_t>(axis)] = start;
  return starts;
}
std::vector<bool> only(int axis, bool value, int rank) {
  std::vector<bool> v(static_cast<std::size_t>(rank), false);
  v[static_cast<std::size_t>(axis)] = value;
  return v;
}
Array bind_dynamic_slice(const Array& operand, const Arrays& starts, const Shape& sizes) {
  Arrays in{operand};
  in.insert(in.end(), starts.begin(), starts.end());
  return bind_one(dynamic_slice_p, in, make_params(DynamicSliceParams{sizes}));
}
Array bind_dynamic_update_slice(const Array& operand, const Array& update, const Arrays& starts) {
  Arrays in{operand, update};
  adopt_dtypes(in);
  in.insert(in.end(), starts.begin(), starts.end());
  return bind_one(dynamic_update_slice_p, in);
}

}  // namespace

Array slice(const Operand& operand, const Ints& start_indices, const Ints& limit_indices,
            const std::optional<Ints>& strides) {
  LocationScope scope(operand.where);
  return bind_one(slice_p, {operand.array}, make_params(SliceParams{limit_indices, start_indices, strides}));
}
Array slice_in_dim(const Operand& operand, std::optional<std::int64_t> start_index,
                   std::optional<std::int64_t> limit_index, std::int64_t stride, int axis) {
  LocationScope scope(operand.where);
  const Array& x = operand.array;
  axis = canonical_axis("slice_in_dim", axis, x.ndim());
  std::int64_t size = x.shape()[axis], start = start_index.value_or(0), limit = limit_index.value_or(size);
  Ints starts = Ints::filled(x.shape().size(), 0), limits = x.shape(), strides = Ints::filled(x.shape().size(), 1);
  starts[axis] = start < 0 ? start + size : start;
  limits[axis] = limit < 0 ? limit + size : limit;
  strides[axis] = stride;
  return slice(x, starts, limits, strides);
}
Array index_in_dim(const Operand& operand, std::int64_t index, int axis, bool keepdims) {
  LocationScope scope(operand.where);
  axis = canonical_axis("index_in_dim", axis, operand.array.ndim());
  std::int64_t size = operand.array.shape()[axis], at = index < 0 ? index + size : index;
  if (at < 0 || at >= size)
    throw_error(ErrorCode::invalid_argument, "index_in_dim", "index {} is out of bounds for axis {} of {}", index, axis,
                operand.array.aval()->text);
  Array result = slice_in_dim(operand, at, at + 1, 1, axis);
  return keepdims ? result : squeeze(result, {axis});
}
Array dynamic_slice(const Operand& operand, const Arrays& start_indices, const Shape& slice_sizes,
                    const DynamicSliceOptions& options) {
  LocationScope scope(operand.where);
  std::vector<bool> from_end(start_indices.size(), options.allow_negative_indices);
  return bind_dynamic_slice(operand.array, normalized_starts("dynamic_slice", operand.array, start_indices, from_end),
                            slice_sizes);
}
Array dynamic_slice_in_dim(const Operand& operand, const Operand& start_index, std::int64_t slice_size, int axis,
                           const DynamicSliceOptions& options) {
  LocationScope scope(operand.where);
  const Array& x = operand.array;
  axis = canonical_axis("dynamic_slice_in_dim", axis, x.ndim());
  Shape sizes = x.shape();
  sizes[axis] = slice_size;
  return bind_dynamic_slice(
      x,
      normalized_starts("dynamic_slice_in_dim", x, starts_along(axis, start_index.array, x.ndim()),
                        only(axis, options.allow_negative_indices, x.ndim())),
      sizes);
}
Array dynamic_index_in_dim(const Operand& operand, const Operand& index, int axis, bool keepdims,
                           const DynamicSliceOptions& options) {
  LocationScope scope(operand.where);
  Array result = dynamic_slice_in_dim(operand, index, 1, axis, options);
  return keepdims ? result : squeeze(result, {axis});
}
Array dynamic_update_slice(const Operand& operand, const Operand& update, const Arrays& start_indices,
                           const DynamicSliceOptions& options) {
  LocationScope scope(operand.where);
  std::vector<bool> from_end(start_indices.size(), options.allow_negative_indices);
  return bind_dynamic_update_slice(operand.array, update.array,
                                   normalized_starts("dynamic_update_slice", operand.array, start_indices, from_end));
}
Array dynamic_update_slice_in_dim(const Operand& operand, const Operand& update, const Operand& start_index, int axis,
                                  const DynamicSliceOptions& options) {
  LocationScope scope(operand.where);
  const Array& x = operand.array;
  axis = canonical_axis("dynamic_update_slice_in_dim", axis, x.ndim());
  return bind_dynamic_update_slice(
      x, update.array,
      normalized_starts("dynamic_update_slice_in_dim", x, starts_along(axis, start_index.array, x.ndim()),
                        only(axis, options.allow_negative_indices, x.ndim())));
}
Array dynamic_update_index_in_dim(const Operand& operand, const Operand& update, const Operand& index, int axis,
                                  const DynamicSliceOptions& options) {
  LocationScope scope(operand.where);
  Array block = update.array;
  if (block.ndim() + 1 == operand.array.ndim()) block = expand_dims(block, {axis});
  return dynamic_update_slice_in_dim(operand, block, index, axis, options);
}

}  // namespace lax
}  // namespace lockstep

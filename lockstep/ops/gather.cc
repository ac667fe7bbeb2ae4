// gather: slices read at traced places.
#include "lockstep/ops/gather.h"

#include <algorithm>
#include <limits>

#include "lockstep/core/printer.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/gather_params.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/structural_rules.h"

namespace lockstep {
namespace {

using lax::GatherDimensionNumbers;
using lax::GatherScatterMode;

bool is_ascending(const Ints& dims) { return std::is_sorted(dims.begin(), dims.end()); }
bool is_distinct(const Ints& dims) {
  Ints sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
}
bool in_range(const Ints& dims, int rank) {
  return std::all_of(dims.begin(), dims.end(), [&](auto d) { return d >= 0 && d < rank; });
}
bool is_disjoint(const Ints& a, const Ints& b) {
  return std::none_of(a.begin(), a.end(), [&](auto d) { return contains(b, d); });
}

}  // namespace

void check_index_dims(const char* operation, const std::string& description, AvalP operand, AvalP indices,
                      const IndexDims& d) {
  auto require = [&](bool condition, const char* why) {
    if (!condition)
      throw_error(ErrorCode::shape, operation, "{} at {} with {}: {}", operand->text, indices->text, description, why);
  };
  if (!is_integer(indices->dtype))
    throw_error(ErrorCode::dtype, operation, "indices must be integers, not {}", indices->text);
  require(indices->rank() >= 1, "index vectors lie along the last dimension of the indices, which have none");
  require(is_ascending(d.window) && is_distinct(d.window) && in_range(d.window, d.window_rank),
          "window dimensions must be ascending and exist");
  require(is_ascending(d.collapsed) && is_distinct(d.collapsed) && in_range(d.collapsed, operand->rank()),
          "collapsed (inserted) dimensions must be ascending dimensions of the operand");
  require(is_ascending(d.operand_batching) && is_distinct(d.operand_batching) &&
              in_range(d.operand_batching, operand->rank()),
          "operand batching dimensions must be ascending dimensions of the operand");
  require(is_distinct(d.index_map) && in_range(d.index_map, operand->rank()),
          "an index vector must address distinct dimensions of the operand");
  require(static_cast<std::int64_t>(d.index_map.size()) == indices->shape.back(),
          "an index vector must have one component for each dimension that it addresses");
  require(is_disjoint(d.collapsed, d.operand_batching) && is_disjoint(d.index_map, d.operand_batching),
          "batching dimensions can be neither collapsed nor addressed");
  require(is_distinct(d.indices_batching) && in_range(d.indices_batching, indices->rank() - 1) &&
              d.indices_batching.size() == d.operand_batching.size(),
          "batching dimensions of the indices must match those of the operand one to one");
  for (std::size_t i = 0; i < d.operand_batching.size(); ++i)
    require(operand->shape[d.operand_batching[i]] == indices->shape[d.indices_batching[i]],
            "batching dimensions must have equal sizes");
  require(d.window.size() + d.collapsed.size() + d.operand_batching.size() == operand->shape.size(),
          "every dimension of the operand must be a window, collapsed or batching dimension");
}

namespace {

void gather_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<GatherParams>();
  auto& d = p.dimension_numbers;
  const Shape &operand = in[0]->shape, &indices = in[1]->shape;
  int rank = d.offset_dims.rank() + in[1]->rank() - 1;
  std::string description;
  {
    Printer printer;
    print_param(printer, d);
    description = printer.text + ", slice_sizes=" + to_tuple_string(p.slice_sizes);
  }
  check_index_dims("gather", description, in[0], in[1],
                   {d.offset_dims, rank, d.collapsed_slice_dims, d.start_index_map, d.operand_batching_dims,
                    d.start_indices_batching_dims});
  auto require = [&](bool condition, const char* why) {
    if (!condition)
      throw_error(ErrorCode::shape, "gather", "{} at {} with {}: {}", in[0]->text, in[1]->text, description, why);
  };
  require(p.slice_sizes.size() == operand.size(), "there must be one slice size per operand dimension");
  for (int i = 0; i < operand.rank(); ++i)
    require(indices.elements() == 0 || (p.slice_sizes[i] >= 0 && p.slice_sizes[i] <= operand[i]),
            "a slice size exceeds the operand");
  for (auto a : d.collapsed_slice_dims) require(p.slice_sizes[a] == 1, "collapsed dimensions must have slice size 1");
  for (auto a : d.operand_batching_dims) require(p.slice_sizes[a] <= 1, "batching dimensions must have slice size 1");

  Ints kept = remaining(operand.rank(), d.collapsed_slice_dims, d.operand_batching_dims);
  Shape shape;
  for (int i = 0, from_indices = 0, from_slice = 0; i < rank; ++i)
    shape.push_back(contains(d.offset_dims, i) ? p.slice_sizes[kept[from_slice++]] : indices[from_indices++]);
  out.push_back(joined_aval(in, shape, in[0]->weak_type));
}
lax::GatherOptions options_of(const GatherParams& p) {
  return {.unique_indices = p.unique_indices,
          .indices_are_sorted = p.indices_are_sorted,
          .mode = p.mode,
          .fill_value = p.fill_value};
}
JvpOut gather_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<GatherParams>();
  Array out = bind_one(gather_p, primals, params), tangent;
  lax::GatherOptions options = options_of(p);
  options.fill_value = Scalar(std::int64_t{0}, DType::int32);
  if (tangents[0].has_value())
    tangent = lax::gather(tangents[0], primals[1], p.dimension_numbers, p.slice_sizes, options);
  return {{out}, {tangent}};
}
std::vector<Array> gather_transpose(const Params* params, std::span<const Array> cotangents,
                                    std::span<const TransposeIn> in) {
  auto& p = params->get<GatherParams>();
  auto& d = p.dimension_numbers;
  if (!cotangents[0].has_value() || !in[0].linear()) return {Array(), Array()};
  return {lax::scatter_add(
              zeros(strong(in[0].aval)), in[1].value, cotangents[0],
              {.update_window_dims = d.offset_dims,
               .inserted_window_dims = d.collapsed_slice_dims,
               .scatter_dims_to_operand_dims = d.start_index_map,
               .operand_batching_dims = d.operand_batching_dims,
               .scatter_indices_batching_dims = d.start_indices_batching_dims},
              {.indices_are_sorted = p.indices_are_sorted, .unique_indices = p.unique_indices, .mode = p.mode}),
          Array()};
}
BatchOut gather_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<GatherParams>();
  return batch_gather(in.size, in.args[0], in.dims[0], in.args[1], in.dims[1], p.dimension_numbers, p.slice_sizes,
                      options_of(p));
}

// True where the whole slice lies in the operand, for each index vector: of the indices' shape without the last.
std::string emit_in_bounds(LowerContext& ctx, const std::string& indices, AvalP indices_aval, AvalP operand,
                           const GatherParams& p) {
  DType dtype = itemsize(indices_aval->dtype) == 8 ? DType::int64 : DType::int32;
  AvalP aval = with_dtype(indices_aval, dtype), bits = with_dtype(aval, DType::bool_);
  std::string x = ctx.convert(indices, indices_aval, aval);
  Ints upper;
  for (auto a : p.dimension_numbers.start_index_map) upper.push_back(operand->shape[a] - p.slice_sizes[a]);
  std::string limit = emit_index_constant(ctx, upper, dtype, aval->shape);
  auto compare = [&](const char* direction, const std::string& y) {
    return ctx.emit("stablehlo.compare {}, {}, {}, SIGNED : ({}, {}) -> {}", direction, x, y, aval->mlir, aval->mlir,
                    bits->mlir);
  };
  std::string above = compare("GE", ctx.constant(Scalar(std::int64_t{0}, dtype), aval)), below = compare("LE", limit);
  std::string both = ctx.emit("stablehlo.and {}, {} : {}", above, below, bits->mlir);
  int last = aval->rank() - 1;
  AvalP reduced = with_shape(bits, aval->shape.without(last));
  return ctx.emit(
      "stablehlo.reduce({} init: {}) applies stablehlo.and across dimensions = [{}] : ({}, tensor<i1>) -> {}", both,
      ctx.constant(Scalar(true)), last, bits->mlir, reduced->mlir);
}
void gather_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                  std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<GatherParams>();
  auto& d = p.dimension_numbers;
  AvalP result = out_avals[0];
  if (result->size() == 0) {
    out.push_back(ctx.constant(Scalar(std::int64_t{0}, result->dtype), result));
    return;
  }
  std::string gathered = ctx.emit(
      "\"stablehlo.gather\"({}, {}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = "
      "{}, operand_batching_dims = {}, start_indices_batching_dims = {}, start_index_map = {}, index_vector_dim = "
      "{}>, indices_are_sorted = {}, slice_sizes = {}}}> : {}",
      in[0], in[1], int_list(d.offset_dims), int_list(d.collapsed_slice_dims), int_list(d.operand_batching_dims),
      int_list(d.start_indices_batching_dims), int_list(d.start_index_map), in_avals[1]->rank() - 1,
      p.indices_are_sorted, i64_array(p.slice_sizes), function_type(in_avals, out_avals));
  if (p.mode == GatherScatterMode::fill_or_drop && !d.start_index_map.empty()) {
    std::string mask = emit_in_bounds(ctx, in[1], in_avals[1], in_avals[0], p);
    AvalP mask_aval = make_aval(in_avals[1]->shape.without(in_avals[1]->rank() - 1), DType::bool_);
    AvalP wide = make_aval(result->shape, DType::bool_);
    mask = ctx.emit("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", mask,
                    int_list(remaining(result->rank(), d.offset_dims)), mask_aval->mlir, wide->mlir);
    gathered = ctx.emit("stablehlo.select {}, {}, {} : {}, {}", mask, gathered, ctx.constant(*p.fill_value, result),
                        wide->mlir, result->mlir);
  }
  out.push_back(gathered);
}

std::vector<Example> gather_examples() {
  using examples::array;
  using examples::values;
  auto example = [](const char* label, ExampleOperand x, ExampleOperand i, GatherDimensionNumbers d, Shape sizes,
                    GatherScatterMode mode = GatherScatterMode::fill_or_drop) {
    std::optional<Scalar> fill;
    if (mode == GatherScatterMode::fill_or_drop) fill = Scalar(std::int64_t{3}, DType::int32);
    return Example{
        .label = label, .in = {x, i}, .params = make_params(GatherParams{d, fill, false, mode, sizes, false})};
  };
  GatherDimensionNumbers rows{.offset_dims = {1}, .collapsed_slice_dims = {0}, .start_index_map = {0}};
  auto ints = [](Shape shape, std::initializer_list<double> data) { return values(shape, DType::int32, data); };
  return {
      example("rows", array({3, 2}, DType::float32), ints({4, 1}, {2, 0, 2, 1}), rows, {1, 2}),
      example("rows, filled", array({3, 2}, DType::float32), ints({4, 1}, {2, -1, 3, 1}), rows, {1, 2}),
      example("rows, clipped", array({3, 2}, DType::bfloat16), ints({4, 1}, {2, -1, 5, 1}), rows, {1, 2},
              GatherScatterMode::clip),
      example("blocks", array({4, 3}, DType::float32), ints({2, 2}, {1, 0, 2, 1}),
              {.offset_dims = {0, 2}, .start_index_map = {0, 1}}, {2, 2}, GatherScatterMode::promise_in_bounds),
      example("blocks, filled", array({4, 3}, DType::complex64), ints({2, 2}, {1, 0, 3, 1}),
              {.offset_dims = {0, 2}, .start_index_map = {0, 1}}, {2, 2}),
      example("elements", array({4}, DType::float32), values({2, 2, 1}, DType::uint8, {3, 0, 0, 9}),
              {.collapsed_slice_dims = {0}, .start_index_map = {0}}, {1}),
      example("batching", array({2, 3, 2}, DType::float32), ints({2, 2, 1}, {2, 0, 0, 1}),
              {.offset_dims = {2},
               .collapsed_slice_dims = {1},
               .start_index_map = {1},
               .operand_batching_dims = {0},
               .start_indices_batching_dims = {0}},
              {1, 1, 2}),
      example("nothing", array({3, 2}, DType::float32), ints({0, 1}, {}), rows, {1, 2}),
      example("no components", array({3}, DType::float32), ints({2, 0}, {}), {.offset_dims = {1}}, {3}),
      example("bool", array({3, 1}, DType::bool_), ints({2, 1}, {1, 7}), rows, {1, 1}),
  };
}

}  // namespace

BatchOut batch_gather(std::int64_t, const Array& operand, int operand_dim, const Array& indices, int indices_dim,
                      const GatherDimensionNumbers& d, const Shape& slice_sizes, const lax::GatherOptions& options) {
  GatherDimensionNumbers dims = d;
  lax::GatherOptions with = options;
  Shape sizes = slice_sizes;
  Array x = operand, at = indices;
  dims.offset_dims = shifted(d.offset_dims);
  if (operand_dim != kNotMapped) {
    x = moveaxis(operand, operand_dim, 0);
    dims.collapsed_slice_dims = shifted(d.collapsed_slice_dims);
    dims.start_index_map = shifted(d.start_index_map);
    dims.operand_batching_dims = shifted(d.operand_batching_dims);
  }
  if (indices_dim != kNotMapped) {
    at = moveaxis(indices, indices_dim, 0);
    dims.start_indices_batching_dims = shifted(d.start_indices_batching_dims);
  }
  if (indices_dim == kNotMapped) {
    sizes = prefixed(x.shape()[0], slice_sizes);
    dims.offset_dims = prefixed(0, dims.offset_dims);
  } else if (operand_dim == kNotMapped) {
    with.unique_indices = with.indices_are_sorted = false;
  } else {
    sizes = prefixed(x.shape()[0] == 0 ? 0 : 1, slice_sizes);
    dims.operand_batching_dims = prefixed(0, dims.operand_batching_dims);
    dims.start_indices_batching_dims = prefixed(0, dims.start_indices_batching_dims);
  }
  return {{lax::gather(x, at, dims, sizes, with)}, {0}};
}

std::string emit_index_constant(LowerContext& ctx, const Ints& values, DType dtype, const Shape& shape) {
  AvalP row = make_aval({static_cast<std::int64_t>(values.size())}, dtype), whole = make_aval(shape, dtype);
  std::string text = ctx.emit("stablehlo.constant dense<{}> : {}", int_list(values), row->mlir);
  return ctx.emit("stablehlo.broadcast_in_dim {}, dims = [{}] : ({}) -> {}", text, shape.rank() - 1, row->mlir,
                  whole->mlir);
}

LOCKSTEP_PRIMITIVE(gather_p, {.name = "gather",
                              .abstract_eval = gather_abstract_eval,
                              .jvp = gather_jvp,
                              .transpose = gather_transpose,
                              .batch = gather_batch,
                              .lower = gather_lower,
                              .examples = gather_examples});

namespace lax {

void print_param(Printer& p, GatherScatterMode mode) {
  constexpr const char* names[] = {"CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"};
  print_text(p, std::string("GatherScatterMode.") + names[static_cast<int>(mode)]);
}
void print_param(Printer& p, const GatherDimensionNumbers& v) {
  print_text(p, fmt::format("GatherDimensionNumbers(offset_dims={}, collapsed_slice_dims={}, start_index_map={}, "
                            "operand_batching_dims={}, start_indices_batching_dims={})",
                            to_tuple_string(v.offset_dims), to_tuple_string(v.collapsed_slice_dims),
                            to_tuple_string(v.start_index_map), to_tuple_string(v.operand_batching_dims),
                            to_tuple_string(v.start_indices_batching_dims)));
}
std::size_t hash_param(const GatherDimensionNumbers& v) {
  std::size_t h = 0;
  for (const Ints* list : {&v.offset_dims, &v.collapsed_slice_dims, &v.start_index_map, &v.operand_batching_dims,
                           &v.start_indices_batching_dims})
    h = hash_combine(h, lockstep::hash_param(*list));
  return h;
}

namespace {
Scalar default_fill(DType t) {
  if (is_inexact(t)) return Scalar(std::numeric_limits<double>::quiet_NaN(), t);
  if (t == DType::key) return Scalar(~std::uint64_t{0}, t);
  return is_signed_integer(t) ? min_value(t) : max_value(t);
}
}  // namespace

Array gather(const Operand& operand, const Operand& start_indices, const GatherDimensionNumbers& dimension_numbers,
             const Shape& slice_sizes, const GatherOptions& options) {
  LocationScope scope(operand.where);
  GatherScatterMode mode = options.mode.value_or(GatherScatterMode::promise_in_bounds);
  std::optional<Scalar> fill;
  if (mode == GatherScatterMode::fill_or_drop)
    fill = options.fill_value ? *options.fill_value : default_fill(operand.array.dtype());
  return bind_one(gather_p, {operand.array, start_indices.array},
                  make_params(GatherParams{dimension_numbers, fill, options.indices_are_sorted, mode, slice_sizes,
                                           options.unique_indices}));
}

}  // namespace lax
}  // namespace lockstep

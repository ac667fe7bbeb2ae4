// scatter and its combining relatives: slices written at traced places.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "lockstep/core/printer.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/gather_params.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/reducers.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/structural_rules.h"

namespace lockstep {
namespace {

using lax::GatherScatterMode;
using lax::ScatterDimensionNumbers;

struct ScatterParams {
  ScatterDimensionNumbers dimension_numbers;
  bool indices_are_sorted;
  GatherScatterMode mode;
  bool unique_indices;
  DType dtype;  // of the operand
};

Array replace(const Array&, const Array& update) { return update; }
Array subtract(const Array& a, const Array& b) { return lax::sub(a, b); }

// The scalar function that combines an element with an update, traced once for each dtype.
template <auto kCombine>
const ClosedJaxpr& update_jaxpr(DType dtype) {
  static std::mutex mutex;
  static auto* made = new std::unordered_map<DType, ClosedJaxpr>;
  std::lock_guard lock(mutex);
  ClosedJaxpr& j = (*made)[dtype];
  if (!j) {
    AvalP aval = make_aval({}, dtype);
    j = trace_reducer([](std::span<const Array> a, std::span<const Array> b) { return Arrays{kCombine(a[0], b[0])}; },
                      {&aval, 1}, "scatter");
  }
  return j;
}
template <auto kCombine>
void scatter_print(Printer& printer, const Params* params) {
  auto& p = params->get<ScatterParams>();
  auto value = [&](const auto& v) { return [&] { print_param(printer, v); }; };
  std::optional<ClosedJaxpr> update;
  if (kCombine != replace) update = update_jaxpr<kCombine>(p.dtype);
  internal::sort_and_print(printer, {{"dimension_numbers", value(p.dimension_numbers)},
                                     {"indices_are_sorted", value(p.indices_are_sorted)},
                                     {"mode", value(p.mode)},
                                     {"unique_indices", value(p.unique_indices)},
                                     {"update_consts", [&] { print_text(printer, "()"); }},
                                     {"update_jaxpr", value(update)}});
}

// The sizes of a window in the operand.
Shape window_sizes(const ScatterDimensionNumbers& d, const Shape& operand, const Shape& updates) {
  Shape sizes;
  std::size_t next = 0;
  for (int i = 0; i < operand.rank(); ++i)
    sizes.push_back(contains(d.inserted_window_dims, i) || contains(d.operand_batching_dims, i)
                        ? 1
                        : updates[d.update_window_dims[next++]]);
  return sizes;
}
// Reads what the scatter would write to: an array of the updates' shape. 0 where it would write nothing.
Array read_back(const ScatterParams& p, const Array& x, const Array& indices, const Shape& updates,
                Scalar fill_value = Scalar(std::int64_t{0}, DType::int32)) {
  auto& d = p.dimension_numbers;
  return lax::gather(x, indices,
                     {.offset_dims = d.update_window_dims,
                      .collapsed_slice_dims = d.inserted_window_dims,
                      .start_index_map = d.scatter_dims_to_operand_dims,
                      .operand_batching_dims = d.operand_batching_dims,
                      .start_indices_batching_dims = d.scatter_indices_batching_dims},
                     window_sizes(d, x.shape(), updates), {.mode = p.mode, .fill_value = fill_value});
}
lax::ScatterOptions options_of(const ScatterParams& p) {
  return {.indices_are_sorted = p.indices_are_sorted, .unique_indices = p.unique_indices, .mode = p.mode};
}

void check_scatter(const Primitive& P, const ScatterDimensionNumbers& d, std::span<const AvalP> in, AvalList& out) {
  AvalP operand = in[0], indices = in[1], updates = in[2];
  Printer printer;
  print_param(printer, d);
  check_index_dims(P.name, printer.text, operand, indices,
                   {d.update_window_dims, updates->rank(), d.inserted_window_dims, d.scatter_dims_to_operand_dims,
                    d.operand_batching_dims, d.scatter_indices_batching_dims});
  AvalP same[] = {operand, updates};
  check_same_dtype(P.name, same);
  Ints kept = remaining(operand->rank(), d.inserted_window_dims, d.operand_batching_dims);
  Ints outer = remaining(updates->rank(), d.update_window_dims);
  bool fits = outer.rank() == indices->rank() - 1;
  for (int i = 0; fits && i < outer.rank(); ++i) fits = updates->shape[outer[i]] == indices->shape[i];
  for (int i = 0; fits && i < kept.rank(); ++i)
    fits = updates->shape[d.update_window_dims[i]] <= operand->shape[kept[i]];
  if (!fits)
    throw_error(ErrorCode::shape, P.name,
                "updates {} do not fit {} at {} with {}: they must have the indices' dimensions (without the last) and "
                "windows no larger than the operand",
                updates->text, operand->text, indices->text, printer.text);
  out.push_back(joined_aval(in, operand->shape, operand->weak_type));
}
template <const Primitive& P>
void scatter_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_scatter(P, params->get<ScatterParams>().dimension_numbers, in, out);
}

// ---- differentiation ----

template <const Primitive& P>
JvpOut scatter_linear_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  Array out = bind_one(P, primals, params);
  if (!tangents[0].has_value() && !tangents[2].has_value()) return {{out}, {Array()}};
  Array moved = bind_one(P,
                         {instantiate_zeros(tangents[0], primals[0].aval()), primals[1],
                          instantiate_zeros(tangents[2], primals[2].aval())},
                         params);
  return {{out}, {moved}};
}
template <bool kNegate>
std::vector<Array> scatter_addsub_transpose(const Params* params, std::span<const Array> cotangents,
                                            std::span<const TransposeIn> in) {
  std::vector<Array> out(3);
  if (!cotangents[0].has_value()) return out;
  if (in[0].linear()) out[0] = cotangents[0];
  if (in[2].linear()) {
    out[2] = read_back(params->get<ScatterParams>(), cotangents[0], in[1].value, in[2].aval->shape);
    if (kNegate) out[2] = lax::neg(out[2]);
  }
  return out;
}
void require_unique(const ScatterParams& p, const char* operation, const char* what) {
  if (!p.unique_indices)
    throw_error(ErrorCode::missing_rule, operation,
                "{} is defined only for indices that are promised to be unique (unique_indices = true)", what);
}

JvpOut scatter_mul_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<ScatterParams>();
  Array out = bind_one(scatter_mul_p, primals, params), tangent;
  if (tangents[0].has_value()) tangent = bind_one(scatter_mul_p, {tangents[0], primals[1], primals[2]}, params);
  if (tangents[2].has_value()) {
    require_unique(p, "scatter_mul", "the derivative by the updates");
    Array spread =
        lax::scatter_add(zeros(primals[0].aval()), primals[1], tangents[2], p.dimension_numbers, options_of(p));
    tangent = add_any(tangent, lax::mul(primals[0], spread));
  }
  return {{out}, {tangent}};
}
std::vector<Array> scatter_mul_transpose(const Params* params, std::span<const Array> cotangents,
                                         std::span<const TransposeIn> in) {
  auto& p = params->get<ScatterParams>();
  std::vector<Array> out(3);
  if (!cotangents[0].has_value()) return out;
  if (in[0].linear()) out[0] = bind_one(scatter_mul_p, {cotangents[0], in[1].value, in[2].value}, params);
  if (in[2].linear()) {
    require_unique(p, "scatter_mul", "the derivative by the updates");
    out[2] = read_back(p, lax::mul(cotangents[0], in[0].value), in[1].value, in[2].aval->shape);
  }
  return out;
}

// Updates that win share the tangent evenly among themselves, and with the operand if it is equal to them.
template <const Primitive& P>
JvpOut scatter_extremal_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<ScatterParams>();
  const Array &operand = primals[0], &indices = primals[1], &updates = primals[2];
  Array out = bind_one(P, primals, params);
  if (!tangents[0].has_value() && !tangents[2].has_value()) return {{out}, {Array()}};
  Array operand_dot = instantiate_zeros(tangents[0], operand.aval());
  Array updates_dot = instantiate_zeros(tangents[2], updates.aval());
  auto read = [&](const Array& x) { return read_back(p, x, indices, updates.shape()); };
  auto count = [&](const Array& of) {
    return read(lax::scatter_add(zeros(operand.aval()), indices, of, p.dimension_numbers, {.mode = p.mode}));
  };
  Array one = scalar_like(updates, 1.0), none = zeros(updates.aval()),
        all = full(updates.aval(), Scalar(1.0, DType::float32));
  Array before = read(operand), after = read(out);
  Array successful = lax::eq(updates, after), retained = lax::eq(before, after);
  Array winners = count(lax::select(successful, all, none)), attempts = count(all);
  Array shared = lax::div(one, lax::add(winners, one));
  Array share = lax::select(retained, shared, lax::div(one, winners));
  Array updates_weight = lax::select(successful, share, none);
  Array operand_share = lax::select(retained, shared, zeros(winners.aval()));
  Array operand_weight = lax::div(lax::add(scalar_like(updates, -1.0), operand_share), attempts);
  Array moved = lax::mul(read(operand_dot), operand_weight);
  moved = lax::add(moved, lax::mul(updates_dot, updates_weight));
  return {{out}, {lax::scatter_add(operand_dot, indices, moved, p.dimension_numbers, options_of(p))}};
}

// Which of several updates to one place wins is not known, but the tangent must come from the same: the updates are
// numbered, the numbers scattered and read back, and all that did not win masked.
JvpOut scatter_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto& p = params->get<ScatterParams>();
  const Array &operand = primals[0], &indices = primals[1], &updates = primals[2];
  if (!tangents[0].has_value() && !tangents[2].has_value()) return {{bind_one(scatter_p, primals, params)}, {Array()}};
  if (p.unique_indices) return scatter_linear_jvp<scatter_p>(params, primals, tangents);
  Array operand_dot = instantiate_zeros(tangents[0], operand.aval());
  Array updates_dot = instantiate_zeros(tangents[2], updates.aval());

  Shape ids_shape = keep_axes(updates.shape(), p.dimension_numbers.update_window_dims);
  DType dtype = ids_shape.elements() < (std::int64_t{1} << 32) - 1 ? DType::uint32 : DType::uint64;
  Array ids = lax::reshape(lax::iota(dtype, ids_shape.elements()), ids_shape);
  ids = lax::add(ids, full(make_aval(updates.shape(), dtype), Scalar(std::int64_t{1}, dtype)));
  Array scattered = lax::scatter(zeros(make_aval(operand.shape(), dtype)), indices, ids, p.dimension_numbers,
                                 {.indices_are_sorted = p.indices_are_sorted, .mode = p.mode});
  Array winners = read_back(p, scattered, indices, updates.shape());

  Array kept = lax::eq(scattered, zeros(scattered.aval())), won = lax::eq(ids, winners);
  auto combine = [&](const Array& x, const Array& y) {
    Array kept_x = lax::select(kept, x, zeros(x.aval())), won_y = lax::select(won, y, zeros(y.aval()));
    return lax::scatter_add(kept_x, indices, won_y, p.dimension_numbers, options_of(p));
  };
  return {{combine(operand, updates)}, {combine(operand_dot, updates_dot)}};
}
std::vector<Array> scatter_transpose(const Params* params, std::span<const Array> cotangents,
                                     std::span<const TransposeIn> in) {
  auto& p = params->get<ScatterParams>();
  std::vector<Array> out(3);
  require_unique(p, "scatter", "the transpose");
  if (!cotangents[0].has_value()) return out;
  if (in[0].linear()) out[0] = bind_one(scatter_p, {cotangents[0], in[1].value, zeros(strong(in[2].aval))}, params);
  if (in[2].linear()) out[2] = read_back(p, cotangents[0], in[1].value, in[2].aval->shape);
  return out;
}

// ---- batching and lowering ----

// `make` makes the primitive's parameters of those with a batch dimension.
template <class Make>
BatchOut batch_params(const Primitive& primitive, const BatchIn& in, const ScatterParams& p, const Make& make) {
  const ScatterDimensionNumbers& d = p.dimension_numbers;
  ScatterParams with = p;
  with.dimension_numbers = {.update_window_dims = shifted(d.update_window_dims),
                            .inserted_window_dims = shifted(d.inserted_window_dims),
                            .scatter_dims_to_operand_dims = shifted(d.scatter_dims_to_operand_dims),
                            .operand_batching_dims = shifted(d.operand_batching_dims),
                            .scatter_indices_batching_dims = d.scatter_indices_batching_dims};
  ScatterDimensionNumbers& dims = with.dimension_numbers;
  Array operand = batch_axis_at_front(in.args[0], in.dims[0], in.size), indices = in.args[1];
  Array updates = batch_axis_at_front(in.args[2], in.dims[2], in.size);
  if (in.dims[1] == kNotMapped) {
    dims.update_window_dims = prefixed(0, dims.update_window_dims);
  } else {
    indices = moveaxis(indices, in.dims[1], 0);
    dims.operand_batching_dims = prefixed(0, dims.operand_batching_dims);
    dims.scatter_indices_batching_dims = prefixed(0, shifted(d.scatter_indices_batching_dims));
  }
  return {{bind_one(primitive, {operand, indices, updates}, make(with))}, {0}};
}
template <const Primitive& P>
BatchOut scatter_batch(const Params* params, const BatchIn& in) {
  return batch_params(P, in, params->get<ScatterParams>(), [](const ScatterParams& p) { return make_params(p); });
}

// The nearest indices whose windows fit.
std::string emit_clamped(LowerContext& ctx, const ScatterDimensionNumbers& d, std::span<const AvalP> in_avals,
                         const std::string& indices) {
  AvalP aval = in_avals[1];
  Shape sizes = window_sizes(d, in_avals[0]->shape, in_avals[2]->shape);
  std::uint64_t largest = max_value(aval->dtype).as_uint();
  Ints upper;
  for (auto a : d.scatter_dims_to_operand_dims)
    upper.push_back(
        static_cast<std::int64_t>(std::min(largest, static_cast<std::uint64_t>(in_avals[0]->shape[a] - sizes[a]))));
  return ctx.emit("stablehlo.clamp {}, {}, {} : {}", ctx.constant(Scalar(std::int64_t{0}, aval->dtype), aval), indices,
                  emit_index_constant(ctx, upper, aval->dtype, aval->shape), aval->mlir);
}
void emit_scatter(LowerContext& ctx, const ScatterParams& p, const ClosedJaxpr& update, std::span<const AvalP> in_avals,
                  std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& d = p.dimension_numbers;
  std::string indices = in[1];
  if (p.mode == GatherScatterMode::clip && !d.scatter_dims_to_operand_dims.empty())
    indices = emit_clamped(ctx, d, in_avals, indices);
  std::string region = reducer_region(ctx, update);
  out.push_back(ctx.emit(
      "\"stablehlo.scatter\"({}, {}, {}) <{{indices_are_sorted = {}, scatter_dimension_numbers = "
      "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, input_batching_dims = {}, "
      "scatter_indices_batching_dims = {}, scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, unique_indices = "
      "{}}}> {} : {}",
      in[0], indices, in[2], p.indices_are_sorted, int_list(d.update_window_dims), int_list(d.inserted_window_dims),
      int_list(d.operand_batching_dims), int_list(d.scatter_indices_batching_dims),
      int_list(d.scatter_dims_to_operand_dims), in_avals[1]->rank() - 1, p.unique_indices, region,
      function_type(in_avals, out_avals)));
}
template <auto kCombine>
void scatter_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                   std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  emit_scatter(ctx, params->get<ScatterParams>(), update_jaxpr<kCombine>(in_avals[0]->dtype), in_avals, out_avals, in,
               out);
}

// ---- scatter_apply: a function of the elements instead of updates ----

struct ScatterApplyParams {
  ScatterDimensionNumbers dimension_numbers;
  bool indices_are_sorted;
  GatherScatterMode mode;
  bool unique_indices;
  DType dtype;
  ClosedJaxpr update;  // of an element and an update, which it leaves alone
};
ScatterParams scatter_of(const ScatterApplyParams& p) {
  return {p.dimension_numbers, p.indices_are_sorted, p.mode, p.unique_indices, p.dtype};
}
ParamsRef apply_params(const ScatterParams& p, const ClosedJaxpr& update) {
  return make_params(
      ScatterApplyParams{p.dimension_numbers, p.indices_are_sorted, p.mode, p.unique_indices, p.dtype, update});
}
void apply_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_scatter(scatter_apply_p, params->get<ScatterApplyParams>().dimension_numbers, in, out);
}
BatchOut apply_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<ScatterApplyParams>();
  return batch_params(scatter_apply_p, in, scatter_of(p),
                      [&](const ScatterParams& with) { return apply_params(with, p.update); });
}
void apply_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                 std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<ScatterApplyParams>();
  emit_scatter(ctx, scatter_of(p), p.update, in_avals, out_avals, in, out);
}
void apply_print(Printer& printer, const Params* params) {
  auto& p = params->get<ScatterApplyParams>();
  auto value = [&](const auto& v) { return [&] { print_param(printer, v); }; };
  internal::sort_and_print(printer, {{"dimension_numbers", value(p.dimension_numbers)},
                                     {"indices_are_sorted", value(p.indices_are_sorted)},
                                     {"mode", value(p.mode)},
                                     {"unique_indices", value(p.unique_indices)},
                                     {"update_consts", [&] { print_text(printer, "()"); }},
                                     {"update_jaxpr", value(p.update)}});
}
ClosedJaxpr apply_jaxpr(const std::function<Array(const Array&)>& f, DType dtype) {
  AvalP aval = make_aval({}, dtype);
  return trace_reducer([&](std::span<const Array> a, std::span<const Array>) { return Arrays{f(a[0])}; }, {&aval, 1},
                       "scatter_apply");
}
// Of integers: there is no derivative.
std::vector<Example> apply_examples() {
  ScatterDimensionNumbers rows{
      .update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
  auto doubled = [](const Array& x) { return lax::mul(x, scalar_like(x, 2.0)); };
  ScatterParams p{rows, false, GatherScatterMode::fill_or_drop, false, DType::int32};
  return {Example{.label = "int, rows repeated",
                  .in = {examples::array({3, 2}, DType::int32), examples::values({3, 1}, DType::int32, {2, 0, 2}),
                         examples::array({3, 2}, DType::int32, {.seed = 1})},
                  .params = apply_params(p, apply_jaxpr(doubled, DType::int32))}};
}

std::vector<Example> examples_of(bool unique_only, bool complex_numbers) {
  using examples::array;
  using examples::values;
  auto example = [&](const char* label, ExampleOperand x, ExampleOperand i, ExampleOperand u, ScatterDimensionNumbers d,
                     bool unique, GatherScatterMode mode = GatherScatterMode::fill_or_drop) {
    DType dtype = x.aval->dtype;
    return Example{
        .label = label, .in = {x, i, u}, .params = make_params(ScatterParams{d, false, mode, unique, dtype})};
  };
  auto ints = [](Shape shape, std::initializer_list<double> data) { return values(shape, DType::int32, data); };
  auto updates = [](Shape shape, DType dtype) { return array(shape, dtype, {.seed = 1}); };
  ScatterDimensionNumbers rows{
      .update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}};
  ScatterDimensionNumbers blocks{.update_window_dims = {1, 2}, .scatter_dims_to_operand_dims = {0, 1}};
  auto f32 = DType::float32, repeated = unique_only ? DType::int32 : f32;
  std::vector<Example> out{
      example("rows", array({3, 2}, f32), ints({2, 1}, {2, 0}), updates({2, 2}, f32), rows, true),
      example("rows, some dropped", array({3, 2}, f32), ints({3, 1}, {1, -1, 3}), updates({3, 2}, f32), rows, true),
      example("rows, repeated", array({3, 2}, repeated), ints({3, 1}, {1, 0, 1}), updates({3, 2}, repeated), rows,
              false),
      example("rows, clipped", array({3, 2}, DType::bfloat16), ints({2, 1}, {-1, 7}), updates({2, 2}, DType::bfloat16),
              rows, true, GatherScatterMode::clip),
      example("blocks", array({4, 3}, f32), ints({2, 2}, {0, 0, 2, 1}), updates({2, 2, 2}, f32), blocks, true,
              GatherScatterMode::promise_in_bounds),
      example("elements", array({4}, f32), values({2, 1}, DType::uint8, {3, 0}), updates({2}, f32),
              {.inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}}, true),
      example("batching", array({2, 3, 2}, f32), ints({2, 2, 1}, {2, 0, 0, 1}), updates({2, 2, 2}, f32),
              {.update_window_dims = {2},
               .inserted_window_dims = {1},
               .scatter_dims_to_operand_dims = {1},
               .operand_batching_dims = {0},
               .scatter_indices_batching_dims = {0}},
              true),
      example("no updates", array({3, 2}, f32), ints({0, 1}, {}), updates({0, 2}, f32), rows, true),
      example("no components", array({3}, f32), ints({0}, {}), updates({3}, f32), {.update_window_dims = {0}}, true),
      example("int", array({3, 2}, DType::int32), ints({2, 1}, {2, 0}), updates({2, 2}, DType::int32), rows, false),
  };
  if (complex_numbers)
    out.push_back(example("complex", array({3, 1}, DType::complex64), ints({2, 1}, {2, 0}),
                          updates({2, 1}, DType::complex64), rows, true));
  return out;
}
// kUniqueOnly: what can be differentiated has unique indices.
template <bool kUniqueOnly, bool kComplex>
std::vector<Example> scatter_examples() {
  return examples_of(kUniqueOnly, kComplex);
}

}  // namespace

BatchOut batch_scatter(const Primitive& primitive, const BatchIn& in, const ScatterDimensionNumbers& dimension_numbers,
                       const lax::ScatterOptions& options) {
  return batch_params(
      primitive, in,
      {dimension_numbers, options.indices_are_sorted, options.mode.value_or(GatherScatterMode::fill_or_drop),
       options.unique_indices, in.args[0].dtype()},
      [](const ScatterParams& p) { return make_params(p); });
}

LOCKSTEP_PRIMITIVE(scatter_p, {.name = "scatter",
                               .abstract_eval = scatter_abstract_eval<scatter_p>,
                               .jvp = scatter_jvp,
                               .transpose = scatter_transpose,
                               .batch = scatter_batch<scatter_p>,
                               .lower = scatter_lower<replace>,
                               .examples = scatter_examples<false, true>,
                               .print = scatter_print<replace>});
LOCKSTEP_PRIMITIVE(scatter_add_p, {.name = "scatter-add",
                                   .abstract_eval = scatter_abstract_eval<scatter_add_p>,
                                   .jvp = scatter_linear_jvp<scatter_add_p>,
                                   .transpose = scatter_addsub_transpose<false>,
                                   .batch = scatter_batch<scatter_add_p>,
                                   .lower = scatter_lower<reducer_add>,
                                   .examples = scatter_examples<false, true>,
                                   .print = scatter_print<reducer_add>});
LOCKSTEP_PRIMITIVE(scatter_sub_p, {.name = "scatter-sub",
                                   .abstract_eval = scatter_abstract_eval<scatter_sub_p>,
                                   .jvp = scatter_linear_jvp<scatter_sub_p>,
                                   .transpose = scatter_addsub_transpose<true>,
                                   .batch = scatter_batch<scatter_sub_p>,
                                   .lower = scatter_lower<subtract>,
                                   .examples = scatter_examples<false, true>,
                                   .print = scatter_print<subtract>});
LOCKSTEP_PRIMITIVE(scatter_mul_p, {.name = "scatter-mul",
                                   .abstract_eval = scatter_abstract_eval<scatter_mul_p>,
                                   .jvp = scatter_mul_jvp,
                                   .transpose = scatter_mul_transpose,
                                   .batch = scatter_batch<scatter_mul_p>,
                                   .lower = scatter_lower<reducer_mul>,
                                   .examples = scatter_examples<true, true>,
                                   .print = scatter_print<reducer_mul>});
LOCKSTEP_PRIMITIVE(scatter_min_p, {.name = "scatter-min",
                                   .abstract_eval = scatter_abstract_eval<scatter_min_p>,
                                   .jvp = scatter_extremal_jvp<scatter_min_p>,
                                   .batch = scatter_batch<scatter_min_p>,
                                   .lower = scatter_lower<reducer_min>,
                                   .examples = scatter_examples<false, false>,
                                   .print = scatter_print<reducer_min>});
LOCKSTEP_PRIMITIVE(scatter_max_p, {.name = "scatter-max",
                                   .abstract_eval = scatter_abstract_eval<scatter_max_p>,
                                   .jvp = scatter_extremal_jvp<scatter_max_p>,
                                   .batch = scatter_batch<scatter_max_p>,
                                   .lower = scatter_lower<reducer_max>,
                                   .examples = scatter_examples<false, false>,
                                   .print = scatter_print<reducer_max>});

LOCKSTEP_PRIMITIVE(scatter_apply_p, {.name = "scatter_apply",
                                     .abstract_eval = apply_abstract_eval,
                                     .batch = apply_batch,
                                     .lower = apply_lower,
                                     .examples = apply_examples,
                                     .print = apply_print});

namespace lax {

void print_param(Printer& p, const ScatterDimensionNumbers& v) {
  print_text(p, fmt::format("ScatterDimensionNumbers(update_window_dims={}, inserted_window_dims={}, "
                            "scatter_dims_to_operand_dims={}, operand_batching_dims={}, "
                            "scatter_indices_batching_dims={})",
                            to_tuple_string(v.update_window_dims), to_tuple_string(v.inserted_window_dims),
                            to_tuple_string(v.scatter_dims_to_operand_dims), to_tuple_string(v.operand_batching_dims),
                            to_tuple_string(v.scatter_indices_batching_dims)));
}
std::size_t hash_param(const ScatterDimensionNumbers& v) {
  std::size_t h = 0;
  for (const Ints* list : {&v.update_window_dims, &v.inserted_window_dims, &v.scatter_dims_to_operand_dims,
                           &v.operand_batching_dims, &v.scatter_indices_batching_dims})
    h = hash_combine(h, lockstep::hash_param(*list));
  return h;
}

namespace {
Array bind_scatter(const Primitive& primitive, const Operand& operand, const Operand& scatter_indices,
                   const Operand& updates, const ScatterDimensionNumbers& dimension_numbers,
                   const ScatterOptions& options) {
  LocationScope scope(operand.where);
  Array same[] = {operand.array, updates.array};
  adopt_dtypes(same);
  return bind_one(primitive, {same[0], scatter_indices.array, same[1]},
                  make_params(ScatterParams{dimension_numbers, options.indices_are_sorted,
                                            options.mode.value_or(GatherScatterMode::fill_or_drop),
                                            options.unique_indices, same[0].dtype()}));
}
}  // namespace

Array scatter(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
              const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options) {
  return bind_scatter(scatter_p, operand, scatter_indices, updates, dimension_numbers, options);
}
Array scatter_add(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options) {
  return bind_scatter(scatter_add_p, operand, scatter_indices, updates, dimension_numbers, options);
}
Array scatter_sub(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options) {
  return bind_scatter(scatter_sub_p, operand, scatter_indices, updates, dimension_numbers, options);
}
Array scatter_mul(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options) {
  return bind_scatter(scatter_mul_p, operand, scatter_indices, updates, dimension_numbers, options);
}
Array scatter_min(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options) {
  return bind_scatter(scatter_min_p, operand, scatter_indices, updates, dimension_numbers, options);
}
Array scatter_max(const Operand& operand, const Operand& scatter_indices, const Operand& updates,
                  const ScatterDimensionNumbers& dimension_numbers, const ScatterOptions& options) {
  return bind_scatter(scatter_max_p, operand, scatter_indices, updates, dimension_numbers, options);
}

Array scatter_apply(const Operand& operand, const Operand& scatter_indices,
                    const std::function<Array(const Array&)>& func, const ScatterDimensionNumbers& dimension_numbers,
                    const Shape& update_shape, const ScatterOptions& options) {
  LocationScope scope(operand.where);
  const Array& x = operand.array;
  ScatterParams p{dimension_numbers, options.indices_are_sorted, options.mode.value_or(GatherScatterMode::fill_or_drop),
                  options.unique_indices, x.dtype()};
  Array unused = zeros(make_aval(update_shape, x.dtype()));
  return bind_one(scatter_apply_p, {x, scatter_indices.array, unused}, apply_params(p, apply_jaxpr(func, x.dtype())));
}

}  // namespace lax
}  // namespace lockstep

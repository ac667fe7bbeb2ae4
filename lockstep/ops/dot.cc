#include "lockstep/ops/dot.h"

#include <algorithm>
#include <tuple>

#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/structural.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace lax {

namespace {
const char* name_of(Precision v) {
  return v == Precision::default_ ? "DEFAULT" : v == Precision::high ? "HIGH" : "HIGHEST";
}
std::pair<Precision, Precision> both_of(const CanonicalPrecision& precision) {
  return precision.value_or(std::pair(Precision::default_, Precision::default_));
}
}  // namespace
void print_param(Printer& p, Precision v) { print_text(p, fmt::format("Precision.{}", name_of(v))); }
std::string precision_list(const CanonicalPrecision& precision) {
  auto [lhs, rhs] = both_of(precision);
  return fmt::format("[{}, {}]", name_of(lhs), name_of(rhs));
}
std::string precision_config(const CanonicalPrecision& precision) {
  auto [lhs, rhs] = both_of(precision);
  return fmt::format("[#stablehlo<precision {}>, #stablehlo<precision {}>]", name_of(lhs), name_of(rhs));
}
void print_param(Printer& p, const DotDimensionNumbers& v) {
  auto list = [](const Ints& dims) { return int_list(dims); };
  print_text(p, fmt::format("(({}, {}), ({}, {}))", list(v.contracting.first), list(v.contracting.second),
                            list(v.batch.first), list(v.batch.second)));
}
std::size_t hash_param(const DotDimensionNumbers& v) {
  return hash_combine(lockstep::hash_param(v.contracting), lockstep::hash_param(v.batch));
}

}  // namespace lax

namespace {

using lax::CanonicalPrecision;
using lax::DotDimensionNumbers;

struct DotGeneralParams {
  DotDimensionNumbers dimension_numbers;
  CanonicalPrecision precision;
  std::optional<DType> preferred_element_type;
};

Array bind_dot(const Array& lhs, const Array& rhs, DotGeneralParams params) {
  return bind_one(dot_general_p, {lhs, rhs}, make_params(std::move(params)));
}
DotGeneralParams params_of(DotDimensionNumbers dimension_numbers, const lax::DotOptions& options) {
  DotGeneralParams params{std::move(dimension_numbers), std::nullopt, options.preferred_element_type};
  if (options.precision) params.precision = *options.precision;
  if (params.preferred_element_type) params.preferred_element_type = canonicalize(*params.preferred_element_type);
  return params;
}

}  // namespace

Array lax::dot_general(const Operand& lhs, const Operand& rhs, const DotDimensionNumbers& dimension_numbers,
                       const DotOptions& options) {
  LocationScope scope(lhs.where);
  return bind_dot(lhs.array, rhs.array, params_of(dimension_numbers, options));
}
Array lax::dot(const Operand& lhs, const Operand& rhs, const DotOptions& options) {
  LocationScope scope(lhs.where);
  const Shape &a = lhs.array.shape(), &b = rhs.array.shape();
  if (a.rank() < 1 || a.rank() > 2 || b.rank() < 1 || b.rank() > 2 || a.back() != b.front())
    throw_error(ErrorCode::shape, "dot",
                "needs vectors or matrices whose last and first dimensions agree, not {} and {}; use dot_general for "
                "others",
                to_string(a), to_string(b));
  return bind_dot(lhs.array, rhs.array, params_of({{{a.rank() - 1}, {0}}, {}}, options));
}
Array lax::batch_matmul(const Operand& lhs, const Operand& rhs, const DotOptions& options) {
  LocationScope scope(lhs.where);
  int rank = lhs.array.ndim();
  if (rank < 2 || rank != rhs.array.ndim())
    throw_error(ErrorCode::shape, "batch_matmul", "needs operands of equal rank, at least 2, not {} and {}",
                to_string(lhs.array.shape()), to_string(rhs.array.shape()));
  Ints batch = iota_ints(rank - 2);
  return bind_dot(lhs.array, rhs.array, params_of({{{rank - 1}, {rank - 2}}, {batch, batch}}, options));
}

namespace {

void check_dims(const char* side, AvalP a, const Ints& contracting, const Ints& batch) {
  Ints seen;
  for (const Ints* list : {&batch, &contracting})
    for (auto d : *list) {
      if (d < 0 || d >= a->rank())
        throw_error(ErrorCode::axis, "dot_general", "dimension {} of {} is out of range: it is {}", d, side, a->text);
      if (contains(seen, d))
        throw_error(ErrorCode::axis, "dot_general",
                    "dimension {} of {} is repeated: batch {}, contracting {} must be distinct", d, side,
                    to_tuple_string(batch), to_tuple_string(contracting));
      seen.push_back(d);
    }
}

// Which of two unequal types a product is computed in: XLA's order of types by range, precision, width and sign.
auto type_rank(DType t) {
  DType r = real_type(t);
  bool floating = is_floating(r);
  int max_exponent = -1, mantissa = -1;
  if (floating) {
    max_exponent = r == DType::float16 ? 16 : r == DType::float64 ? 1024 : 128;
    mantissa = r == DType::float16 ? 10 : r == DType::bfloat16 ? 7 : r == DType::float32 ? 23 : 52;
  }
  std::size_t bits = is_bool(r) ? 1 : 8 * itemsize(r);
  return std::tuple(is_complex(t), max_exponent, mantissa, bits, !is_unsigned_integer(r));
}

DType result_dtype(AvalP lhs, AvalP rhs, std::optional<DType> preferred) {
  for (AvalP a : {lhs, rhs})
    if (!is_bool(a->dtype) && !is_integer(a->dtype) && !is_inexact(a->dtype))
      throw_error(ErrorCode::dtype, "dot_general", "does not take elements of type {}", name(a->dtype));
  DType result = type_rank(lhs->dtype) < type_rank(rhs->dtype) ? rhs->dtype : lhs->dtype;
  if (!preferred || *preferred == result) return result;
  if (!is_floating(result) && itemsize(real_type(*preferred)) < itemsize(real_type(result)))
    throw_error(ErrorCode::dtype, "dot_general", "preferred_element_type {} is narrower than the result's type {}",
                name(*preferred), name(result));
  return *preferred;
}

void dot_abstract_eval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<DotGeneralParams>();
  AvalP lhs = in[0], rhs = in[1];
  auto& [lhs_contracting, rhs_contracting] = p.dimension_numbers.contracting;
  auto& [lhs_batch, rhs_batch] = p.dimension_numbers.batch;
  check_dims("lhs", lhs, lhs_contracting, lhs_batch);
  check_dims("rhs", rhs, rhs_contracting, rhs_batch);
  auto same = [&](const char* what, const Ints& l, const Ints& r) {
    if (l.size() != r.size() || take(lhs->shape, l) != take(rhs->shape, r))
      throw_error(ErrorCode::shape, "dot_general", "{} dimensions {} of {} and {} of {} have different sizes", what,
                  to_tuple_string(l), lhs->text, to_tuple_string(r), rhs->text);
  };
  same("batch", lhs_batch, rhs_batch);
  same("contracting", lhs_contracting, rhs_contracting);
  Aval result;
  result.shape = take(lhs->shape, lhs_batch);
  for (auto d : take(lhs->shape, remaining(lhs->rank(), lhs_batch, lhs_contracting))) result.shape.push_back(d);
  for (auto d : take(rhs->shape, remaining(rhs->rank(), rhs_batch, rhs_contracting))) result.shape.push_back(d);
  result.dtype = result_dtype(lhs, rhs, p.preferred_element_type);
  result.weak_type = lhs->weak_type && rhs->weak_type;
  join_varying(result, in);
  out.push_back(intern(std::move(result)));
}

JvpOut dot_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto bind = [&](const Array& a, const Array& b) { return bind_one(dot_general_p, {a, b}, params); };
  Array out = bind(primals[0], primals[1]), tangent;
  if (tangents[0].has_value()) tangent = bind(tangents[0], primals[1]);
  if (tangents[1].has_value()) {
    Array t = bind(primals[0], tangents[1]);
    tangent = tangent.has_value() ? add_any(tangent, t) : t;
  }
  return {{out}, {tangent}};
}

// The cotangent of x in dot_general(x, y), or in dot_general(y, x) if `swapped`; `numbers` lists x first.
Array transpose_one(const Array& ct, AvalP x, const Array& y, const DotGeneralParams& p,
                    const DotDimensionNumbers& numbers, bool swapped) {
  auto& [x_contracting, y_contracting] = numbers.contracting;
  auto& [x_batch, y_batch] = numbers.batch;
  Ints x_kept = remaining(x->rank(), x_contracting, x_batch);
  Ints y_kept = remaining(y.ndim(), y_contracting, y_batch);
  auto range = [](std::size_t start, std::size_t n) {
    Ints r;
    for (std::size_t i = 0; i < n; ++i) r.push_back(static_cast<std::int64_t>(start + i));
    return r;
  };
  Ints ct_batch = range(0, x_batch.size());
  Ints ct_y = range(x_batch.size() + (swapped ? 0 : x_kept.size()), y_kept.size());
  Ints unsorted = x_batch;
  for (auto d : x_kept) unsorted.push_back(d);
  for (auto d : take(x_contracting, argsort(y_contracting))) unsorted.push_back(d);
  DotGeneralParams dims = p;
  dims.dimension_numbers = {{ct_y, y_kept}, {ct_batch, y_batch}};
  Array out = lax::transpose(bind_dot(ct, y, dims), argsort(unsorted));
  return out.dtype() == x->dtype ? out : convert(out, x->dtype, x->weak_type);
}

std::vector<Array> dot_transpose(const Params* params, std::span<const Array> cotangents,
                                 std::span<const TransposeIn> in) {
  auto& p = params->get<DotGeneralParams>();
  if (!cotangents[0].has_value()) return {Array(), Array()};
  LS_CHECK(in[0].linear() != in[1].linear(), "dot_general is linear in one operand at a time");
  auto& [contracting, batch] = p.dimension_numbers;
  if (in[0].linear())
    return {transpose_one(cotangents[0], in[0].aval, in[1].value, p, p.dimension_numbers, false), Array()};
  DotDimensionNumbers swapped{{contracting.second, contracting.first}, {batch.second, batch.first}};
  return {Array(), transpose_one(cotangents[0], in[1].aval, in[0].value, p, swapped, true)};
}

BatchOut dot_batch(const Params* params, const BatchIn& in) {
  DotGeneralParams p = params->get<DotGeneralParams>();
  auto& [lhs_contracting, rhs_contracting] = p.dimension_numbers.contracting;
  auto& [lhs_batch, rhs_batch] = p.dimension_numbers.batch;
  int lhs_dim = in.dims[0], rhs_dim = in.dims[1], out_dim = 0;
  auto kept_before = [](int rank, const Ints& a, const Ints& b, int dim) {
    Ints kept = remaining(rank, a, b);
    return static_cast<int>(std::count_if(kept.begin(), kept.end(), [&](auto d) { return d < dim; }));
  };
  auto bump = [](Ints& a, Ints& b, int dim) { a = bump_dims(a, dim), b = bump_dims(b, dim); };
  int lhs_rank = in.args[0].ndim(), rhs_rank = in.args[1].ndim();
  if (rhs_dim == kNotMapped) {
    out_dim = static_cast<int>(lhs_batch.size()) + kept_before(lhs_rank, lhs_batch, lhs_contracting, lhs_dim);
    bump(lhs_batch, lhs_contracting, lhs_dim);
  } else if (lhs_dim == kNotMapped) {
    out_dim = lhs_rank - static_cast<int>(lhs_contracting.size()) +
              kept_before(rhs_rank, rhs_batch, rhs_contracting, rhs_dim);
    bump(rhs_batch, rhs_contracting, rhs_dim);
  } else {
    bump(lhs_batch, lhs_contracting, lhs_dim);
    bump(rhs_batch, rhs_contracting, rhs_dim);
    lhs_batch = lhs_batch.with(0, lhs_dim);
    rhs_batch = rhs_batch.with(0, rhs_dim);
  }
  return {{bind_dot(in.args[0], in.args[1], p)}, {out_dim}};
}

void dot_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
               std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<DotGeneralParams>();
  std::string operands[2] = {in[0], in[1]};
  AvalP avals[2] = {in_avals[0], in_avals[1]};
  if (avals[0]->dtype != avals[1]->dtype)
    for (int i = 0; i < 2; ++i) {
      AvalP to = with_dtype(avals[i], out_avals[0]->dtype);
      operands[i] = ctx.convert(operands[i], avals[i], to);
      avals[i] = to;
    }
  auto& [contracting, batch] = p.dimension_numbers;
  std::string dims;
  if (!batch.first.empty())
    dims = fmt::format("batching_dims = {} x {}, ", int_list(batch.first), int_list(batch.second));
  dims += fmt::format("contracting_dims = {} x {}", int_list(contracting.first), int_list(contracting.second));
  out.push_back(ctx.emit("stablehlo.dot_general {}, {}, {}, precision = {} : {}", operands[0], operands[1], dims,
                         lax::precision_list(p.precision), function_type(avals, out_avals)));
}

void dot_print(Printer& p, const Params* params) {
  auto& d = params->get<DotGeneralParams>();
  std::vector<std::pair<std::string_view, std::function<void()>>> fields;
  fields.emplace_back("dimension_numbers", [&] { print_param(p, d.dimension_numbers); });
  if (d.precision) fields.emplace_back("precision", [&] { print_param(p, d.precision); });
  if (d.preferred_element_type)
    fields.emplace_back("preferred_element_type", [&] { print_param(p, *d.preferred_element_type); });
  internal::sort_and_print(p, std::move(fields));
}

}  // namespace

namespace {

std::vector<Example> dot_examples() {
  using examples::array;
  using enum DType;
  auto params = [](DotDimensionNumbers n, std::optional<DType> preferred = std::nullopt) {
    return make_params(DotGeneralParams{std::move(n), std::nullopt, preferred});
  };
  return {
      {"matrices", {array({2, 3}, float32), array({3, 4}, float32, {.seed = 1})}, params({{{1}, {0}}, {}})},
      {"vectors", {array({3}, float32), array({3}, float32, {.seed = 1})}, params({{{0}, {0}}, {}})},
      {"outer", {array({2}, float32), array({3}, float32, {.seed = 1})}, params({{{}, {}}, {}})},
      {"scalars", {array({}, float32), array({}, float32, {.seed = 1})}, params({{{}, {}}, {}})},
      {"batch",
       {array({2, 3, 2, 4}, float32), array({4, 2, 5, 3}, float32, {.seed = 1})},
       params({{{3}, {0}}, {{0, 1}, {1, 3}}})},
      {"two contracted out of order",
       {array({3, 2, 4}, float32), array({4, 5, 3}, float32, {.seed = 1})},
       params({{{0, 2}, {2, 0}}, {}})},
      {"complex", {array({2, 3}, complex64), array({2, 3}, complex64, {.seed = 1})}, params({{{1}, {1}}, {}})},
      {"bfloat16 in float32",
       {array({2, 3}, bfloat16), array({3, 2}, bfloat16, {.seed = 1})},
       params({{{1}, {0}}, {}}, float32)},
      {"int32", {array({2, 3}, int32), array({3, 2}, int32, {.seed = 1})}, params({{{1}, {0}}, {}})},
      {"empty sum", {array({2, 0}, float32), array({0, 3}, float32)}, params({{{1}, {0}}, {}})},
  };
}

}  // namespace

LOCKSTEP_PRIMITIVE(dot_general_p, {.name = "dot_general",
                                   .abstract_eval = dot_abstract_eval,
                                   .jvp = dot_jvp,
                                   .transpose = dot_transpose,
                                   .batch = dot_batch,
                                   .lower = dot_lower,
                                   .examples = dot_examples,
                                   .print = dot_print});

}  // namespace lockstep

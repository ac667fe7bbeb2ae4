#include "lockstep/ops/conv.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/window_rules.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace lax {

void print_param(Printer& p, const ConvDimensionNumbers& v) {
  print_text(p, fmt::format("ConvDimensionNumbers(lhs_spec={}, rhs_spec={}, out_spec={})", to_tuple_string(v.lhs_spec),
                            to_tuple_string(v.rhs_spec), to_tuple_string(v.out_spec)));
}
std::size_t hash_param(const ConvDimensionNumbers& v) {
  return hash_combine(lockstep::hash_param(v.lhs_spec),
                      hash_combine(lockstep::hash_param(v.rhs_spec), lockstep::hash_param(v.out_spec)));
}
ConvDimensionNumbers conv_dimension_numbers(int rank, const std::optional<ConvLayouts>& layouts) {
  if (!layouts) return {iota_ints(rank), iota_ints(rank), iota_ints(rank)};
  auto wrong = [&] {
    throw_error(ErrorCode::invalid_argument, "conv_general_dilated",
                "dimension_numbers {{\"{}\", \"{}\", \"{}\"}} do not fit arrays of rank {}: each needs {} different "
                "letters, the first and last N and C, the second O and I, and all the same others",
                layouts->lhs, layouts->rhs, layouts->out, rank, rank);
  };
  auto spec = [&](const std::string& text, char first, char second) {
    std::string others;
    for (char c : layouts->rhs)
      if (c != 'O' && c != 'I') others += c;
    Ints out;
    for (char c : std::string{first, second} + others) {
      auto at = text.find(c);
      if (at == std::string::npos || text.rfind(c) != at) wrong();
      out.push_back(static_cast<std::int64_t>(at));
    }
    if (static_cast<int>(text.size()) != rank || static_cast<int>(out.size()) != rank) wrong();
    return out;
  };
  return {spec(layouts->lhs, 'N', 'C'), spec(layouts->rhs, 'O', 'I'), spec(layouts->out, 'N', 'C')};
}

}  // namespace lax

namespace {

using lax::ConvDimensionNumbers;
using lax::PaddingPairs;

struct ConvParams {
  std::int64_t batch_group_count;
  ConvDimensionNumbers dimension_numbers;
  std::int64_t feature_group_count;
  Ints lhs_dilation;
  None out_sharding;
  PaddingPairs padding;
  lax::CanonicalPrecision precision;
  std::optional<DType> preferred_element_type;
  Ints rhs_dilation;
  Ints window_strides;
};
Array bind_conv(const Array& lhs, const Array& rhs, ConvParams p) {
  return bind_one(conv_general_dilated_p, {lhs, rhs}, make_params(std::move(p)));
}
Ints spatial(const Ints& spec) { return Ints(spec.begin() + 2, spec.end()); }
Shape spatial_sizes(const Shape& shape, const Ints& spec) { return take(shape, spatial(spec)); }
Shape dilate(const Shape& sizes, const Ints& dilation) {
  Shape out = sizes;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = lax::dilate_dim(out[i], dilation[i]);
  return out;
}
lax::CanonicalPrecision canonical(const std::optional<lax::PrecisionPair>& p) {
  if (!p) return std::nullopt;
  return lax::CanonicalPrecision(*p);
}

}  // namespace

Array lax::conv_general_dilated(const Operand& lhs, const Operand& rhs, const Ints& window_strides,
                                const Padding& padding, const ConvOptions& o) {
  LocationScope scope(lhs.where);
  const Array &x = lhs.array, &w = rhs.array;
  if (x.ndim() != w.ndim() || x.ndim() < 2 || window_strides.size() + 2 != x.shape().size())
    throw_error(ErrorCode::shape, "conv_general_dilated",
                "needs operands of one rank, two more than the number of window strides: {} and {} with strides {}",
                x.aval()->text, w.aval()->text, to_tuple_string(window_strides));
  Ints ones = Shape::filled(window_strides.size(), 1);
  ConvParams p{.batch_group_count = o.batch_group_count,
               .dimension_numbers = conv_dimension_numbers(x.ndim(), o.dimension_numbers),
               .feature_group_count = o.feature_group_count,
               .lhs_dilation = o.lhs_dilation.value_or(ones),
               .out_sharding = {},
               .padding = {},
               .precision = canonical(o.precision),
               .preferred_element_type = o.preferred_element_type,
               .rhs_dilation = o.rhs_dilation.value_or(ones),
               .window_strides = window_strides};
  if (p.lhs_dilation.size() != ones.size() || p.rhs_dilation.size() != ones.size())
    throw_error(ErrorCode::shape, "conv_general_dilated",
                "dilations {} and {} must have one entry for each of {} "
                "spatial dimensions",
                to_tuple_string(p.lhs_dilation), to_tuple_string(p.rhs_dilation), ones.size());
  if (p.preferred_element_type) p.preferred_element_type = canonicalize(*p.preferred_element_type);
  p.padding =
      padding_pairs("conv_general_dilated", padding, spatial_sizes(x.shape(), p.dimension_numbers.lhs_spec),
                    dilate(spatial_sizes(w.shape(), p.dimension_numbers.rhs_spec), p.rhs_dilation), window_strides);
  return bind_conv(x, w, std::move(p));
}
Array lax::conv(const Operand& lhs, const Operand& rhs, const Ints& window_strides, const Padding& padding,
                const DotOptions& o) {
  return conv_general_dilated(lhs, rhs, window_strides, padding,
                              {.precision = o.precision, .preferred_element_type = o.preferred_element_type});
}
Array lax::conv_transpose(const Operand& lhs, const Operand& rhs, const Ints& strides, const Padding& padding,
                          const ConvTransposeOptions& o) {
  LocationScope scope(lhs.where);
  const Array& x = lhs.array;
  Array w = rhs.array;
  static const char* const letters[] = {"", "H", "HW", "HWD"};
  std::size_t n = strides.size();
  if (!o.dimension_numbers && n > 3)
    throw_error(ErrorCode::invalid_argument, "conv_transpose", "needs dimension_numbers for {} spatial dimensions", n);
  if (x.ndim() != w.ndim() || x.shape().size() != n + 2)
    throw_error(ErrorCode::shape, "conv_transpose",
                "needs operands of one rank, two more than the number of strides: {} and {} with strides {}",
                x.aval()->text, w.aval()->text, to_tuple_string(strides));
  std::string s = o.dimension_numbers ? "" : letters[n];
  ConvLayouts layouts = o.dimension_numbers.value_or(ConvLayouts{"N" + s + "C", s + "IO", "N" + s + "C"});
  ConvDimensionNumbers numbers = conv_dimension_numbers(x.ndim(), layouts);
  Ints rhs_dilation = o.rhs_dilation.value_or(Shape::filled(n, 1));
  PaddingPairs pads = padding.pairs;
  if (!padding.name.empty()) {
    Shape window = dilate(spatial_sizes(w.shape(), numbers.rhs_spec), rhs_dilation);
    for (std::size_t i = 0; i < n; ++i) {
      std::int64_t k = window[i], stride = strides[i], total, low;
      if (padding.name == "SAME") {
        total = k + stride - 2;
        low = stride > k - 1 ? k - 1 : (total + 1) / 2;
      } else if (padding.name == "VALID") {
        total = k + stride - 2 + std::max<std::int64_t>(k - stride, 0);
        low = k - 1;
      } else {
        throw_error(ErrorCode::invalid_argument, "conv_transpose", "padding \"{}\" is neither SAME nor VALID",
                    padding.name);
      }
      pads.emplace_back(low, total - low);
    }
  }
  if (o.transpose_kernel) {
    w = rev(w, spatial(numbers.rhs_spec));
    Ints swap = iota_ints(w.ndim());
    std::swap(swap[static_cast<std::size_t>(numbers.rhs_spec[0])], swap[static_cast<std::size_t>(numbers.rhs_spec[1])]);
    w = transpose(w, swap);
  }
  return conv_general_dilated(x, w, Shape::filled(n, 1), pads,
                              {.lhs_dilation = strides,
                               .rhs_dilation = rhs_dilation,
                               .dimension_numbers = layouts,
                               .precision = o.precision,
                               .preferred_element_type = o.preferred_element_type});
}

namespace {

void conv_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<ConvParams>();
  AvalP lhs = in[0], rhs = in[1];
  auto& [lhs_spec, rhs_spec, out_spec] = p.dimension_numbers;
  auto wrong = [&](const std::string& what) {
    throw_error(ErrorCode::shape, "conv_general_dilated", "{}: lhs is {}, rhs is {}", what, lhs->text, rhs->text);
  };
  check_same_dtype("conv_general_dilated", in);
  Shape l = take(lhs->shape, lhs_spec), r = take(rhs->shape, rhs_spec);
  if (p.feature_group_count < 1 || p.batch_group_count < 1) wrong("group counts must be positive");
  if (p.feature_group_count > 1 && p.batch_group_count > 1) wrong("only one group count may be more than 1");
  if (l[1] % p.feature_group_count != 0 || l[1] / p.feature_group_count != r[1])
    wrong(fmt::format("lhs's features {} divided by feature_group_count {} must equal rhs's input features {}", l[1],
                      p.feature_group_count, r[1]));
  if (r[0] % p.feature_group_count != 0)
    wrong(fmt::format("rhs's output features {} must be a multiple of feature_group_count {}", r[0],
                      p.feature_group_count));
  if (l[0] % p.batch_group_count != 0 || r[0] % p.batch_group_count != 0)
    wrong(fmt::format("lhs's batch {} and rhs's output features {} must be multiples of batch_group_count {}", l[0],
                      r[0], p.batch_group_count));
  std::size_t n = l.size() - 2;
  if (p.window_strides.size() != n || p.lhs_dilation.size() != n || p.rhs_dilation.size() != n || p.padding.size() != n)
    wrong(fmt::format("strides, dilations and padding must have {} entries", n));
  Shape result{l[0] / p.batch_group_count, r[0]};
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t padded = lax::dilate_dim(l[i + 2], p.lhs_dilation[i]) + p.padding[i].first + p.padding[i].second;
    if (padded < 0) wrong("negative padding takes away more than there is");
    result.push_back(lax::stride_dim(padded, lax::dilate_dim(r[i + 2], p.rhs_dilation[i]), p.window_strides[i]));
  }
  Aval aval;
  aval.shape = take(result, argsort(out_spec));
  aval.dtype = p.preferred_element_type.value_or(lhs->dtype);
  aval.weak_type = lhs->weak_type && rhs->weak_type;
  join_varying(aval, in);
  out.push_back(intern(std::move(aval)));
}

JvpOut conv_jvp(const Params* params, std::span<const Array> primals, std::span<const Array> tangents) {
  auto bind = [&](const Array& a, const Array& b) { return bind_one(conv_general_dilated_p, {a, b}, params); };
  Array out = bind(primals[0], primals[1]), tangent;
  if (tangents[0].has_value()) tangent = bind(tangents[0], primals[1]);
  if (tangents[1].has_value()) tangent = add_any(tangent, bind(primals[0], tangents[1]));
  return {{out}, {tangent}};
}

// Axis `src` becomes the slower part of axis `dst` (counted after src is gone).
Array axis_into(int src, int dst, const Array& x) {
  Ints perm = iota_ints(x.ndim()).without(src).with(dst, src);
  Shape shape = x.shape().without(src);
  shape[static_cast<std::size_t>(dst)] *= x.shape(src);
  return lax::reshape(x, shape, perm);
}
Array axis_out_of(int src, std::int64_t size, const Array& x) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(src)] /= size;
  return lax::reshape(x, shape.with(src, size));
}
Ints swapped(const Ints& spec) {
  Ints out = spec;
  std::swap(out[0], out[1]);
  return out;
}
int at(const Ints& spec, int i) { return static_cast<int>(spec[static_cast<std::size_t>(i)]); }

// With m batch, j input and k output features and g groups: forward is [m, gj] [j, gk] -> [m, gk], or with batch groups
// [gm, j] [j, gk] -> [m, gk]; these are the contractions that give [m, gj] or [gm, j] ...
Array conv_transpose_lhs(const Array& ct, AvalP lhs, Array rhs, const ConvParams& forward) {
  ConvParams p = forward;
  auto& [lhs_spec, rhs_spec, out_spec] = forward.dimension_numbers;
  Shape window = spatial_sizes(rhs.shape(), rhs_spec);
  std::int64_t groups = std::max(p.feature_group_count, p.batch_group_count);
  if (groups > 1) rhs = axis_into(at(rhs_spec, 0), at(rhs_spec, 1), axis_out_of(at(rhs_spec, 0), groups, rhs));
  p.feature_group_count = groups;
  p.batch_group_count = 1;
  p.dimension_numbers = {out_spec, swapped(rhs_spec), lhs_spec};
  p.padding =
      vjp_lhs_padding(spatial_sizes(lhs->shape, lhs_spec), window, forward.window_strides,
                      spatial_sizes(ct.shape(), out_spec), forward.padding, forward.lhs_dilation, forward.rhs_dilation);
  p.window_strides = forward.lhs_dilation;
  p.lhs_dilation = forward.window_strides;
  Array out = bind_conv(ct, convert(lax::rev(rhs, spatial(rhs_spec)), ct.dtype()), std::move(p));
  out = convert(out, lhs->dtype);
  if (forward.batch_group_count > 1)
    out = axis_into(at(lhs_spec, 1), at(lhs_spec, 0), axis_out_of(at(lhs_spec, 1), groups, out));
  return out;
}
// ... and [j, gk].
Array conv_transpose_rhs(const Array& ct, const Array& lhs, AvalP rhs, const ConvParams& forward) {
  if (ct.size() == 0) return Array();
  ConvParams p = forward;
  auto& [lhs_spec, rhs_spec, out_spec] = forward.dimension_numbers;
  std::swap(p.feature_group_count, p.batch_group_count);
  p.dimension_numbers = {swapped(lhs_spec), swapped(out_spec), swapped(rhs_spec)};
  Shape in = spatial_sizes(lhs.shape(), lhs_spec), window = spatial_sizes(rhs->shape, rhs_spec);
  Shape result = spatial_sizes(ct.shape(), out_spec);
  for (std::size_t i = 0; i < in.size(); ++i)
    p.padding[i].second = lax::dilate_dim(result[i], forward.window_strides[i]) -
                          lax::dilate_dim(in[i], forward.lhs_dilation[i]) +
                          lax::dilate_dim(window[i], forward.rhs_dilation[i]) - forward.padding[i].first - 1;
  p.window_strides = forward.rhs_dilation;
  p.rhs_dilation = forward.window_strides;
  return convert(bind_conv(convert(lhs, ct.dtype()), ct, std::move(p)), rhs->dtype);
}
std::vector<Array> conv_transpose(const Params* params, std::span<const Array> cotangents,
                                  std::span<const TransposeIn> in) {
  auto& p = params->get<ConvParams>();
  if (!cotangents[0].has_value()) return {Array(), Array()};
  LS_CHECK(in[0].linear() != in[1].linear(), "conv_general_dilated is linear in one operand at a time");
  if (in[0].linear()) return {conv_transpose_lhs(cotangents[0], in[0].aval, in[1].value, p), Array()};
  return {Array(), conv_transpose_rhs(cotangents[0], in[0].value, in[1].aval, p)};
}

// The mapped axis becomes part of the batch, or of the features, with groups where both operands have it.
BatchOut conv_batch(const Params* params, const BatchIn& in) {
  ConvParams p = params->get<ConvParams>();
  auto& [lhs_spec, rhs_spec, out_spec] = params->get<ConvParams>().dimension_numbers;
  const Array &lhs = in.args[0], &rhs = in.args[1];
  int lhs_dim = in.dims[0], rhs_dim = in.dims[1];
  int batch = at(lhs_spec, 0), feature = at(lhs_spec, 1), kernel = at(rhs_spec, 0);
  if (in.size == 0) {
    AvalP avals[2];
    for (std::size_t i = 0; i < 2; ++i) {
      AvalP a = in.args[i].aval();
      avals[i] = in.dims[i] == kNotMapped ? a : with_shape(a, a->shape.without(in.dims[i]));
    }
    AvalList out;
    conv_aval(params, avals, out);
    return {{zeros(with_shape(out[0], out[0]->shape.with(0, 0)))}, {0}};
  }
  if (lhs_dim != kNotMapped && rhs_dim != kNotMapped) {
    bool batch_groups = p.batch_group_count > 1;
    Array new_lhs = axis_into(lhs_dim, batch_groups ? batch : feature, lhs);
    (batch_groups ? p.batch_group_count : p.feature_group_count) *= in.size;
    Array out = bind_conv(new_lhs, axis_into(rhs_dim, kernel, rhs), std::move(p));
    return {{axis_out_of(at(out_spec, 1), in.size, out)}, {at(out_spec, 1)}};
  }
  // Groups are the slowest part of a dimension: they are split off, the mapped axis is put behind them, and they are
  // put back.
  auto behind_groups = [&](const Array& x, int dim, int target, std::int64_t groups) {
    Array y = axis_out_of(target + (dim <= target), groups, x);
    y = axis_into(dim + (target < dim), target + 1, y);
    return axis_into(target, target, y);
  };
  if (lhs_dim != kNotMapped) {
    Array new_lhs = p.batch_group_count == 1 ? axis_into(lhs_dim, batch, lhs)
                                             : behind_groups(lhs, lhs_dim, batch, p.batch_group_count);
    Array out = bind_conv(new_lhs, rhs, std::move(p));
    return {{axis_out_of(at(out_spec, 0), in.size, out)}, {at(out_spec, 0)}};
  }
  std::int64_t groups = std::max(p.feature_group_count, p.batch_group_count);
  int out_feature = at(out_spec, 1);
  if (groups == 1) {
    Array out = bind_conv(lhs, axis_into(rhs_dim, kernel, rhs), std::move(p));
    return {{axis_out_of(out_feature, in.size, out)}, {out_feature}};
  }
  Array out = bind_conv(lhs, behind_groups(rhs, rhs_dim, kernel, groups), std::move(p));
  out = axis_out_of(out_feature + 1, in.size, axis_out_of(out_feature, groups, out));
  return {{axis_into(out_feature, out_feature + 1, out)}, {out_feature}};
}

std::string dimension_text(const Ints& spec, char first, char second) {
  std::vector<std::string> places(spec.size());
  places[static_cast<std::size_t>(spec[0])] = first;
  places[static_cast<std::size_t>(spec[1])] = second;
  for (std::size_t i = 2; i < spec.size(); ++i) places[static_cast<std::size_t>(spec[i])] = std::to_string(i - 2);
  return fmt::format("[{}]", fmt::join(places, ", "));
}
// Complex convolutions are made of three real ones; XLA has no fast ones on CPU.
void conv_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<ConvParams>();
  if (is_complex(in_avals[0]->dtype)) {
    ConvParams real = p;
    if (real.preferred_element_type) real.preferred_element_type = real_type(*real.preferred_element_type);
    auto traced = trace_to_jaxpr(
        [&](std::span<const Array> a) {
          auto conv = [&](const Array& x, const Array& y) { return bind_conv(x, y, real); };
          Array xr = lax::real(a[0]), xi = lax::imag(a[0]), yr = lax::real(a[1]), yi = lax::imag(a[1]);
          Array k1 = conv(lax::add(xr, xi), yr), k2 = conv(xr, lax::sub(yi, yr)), k3 = conv(xi, lax::add(yr, yi));
          return Arrays{lax::complex(lax::sub(k1, k3), lax::add(k1, k2))};
        },
        in_avals, "complex_convolution");
    out = ctx.inline_jaxpr(traced, in);
    return;
  }
  std::string padding;
  for (auto [low, high] : p.padding) padding += fmt::format("{}[{}, {}]", padding.empty() ? "" : ", ", low, high);
  std::string reversal;
  for (std::size_t i = 0; i < p.padding.size(); ++i) reversal += i ? ", false" : "false";
  auto& [lhs_spec, rhs_spec, out_spec] = p.dimension_numbers;
  out.push_back(ctx.emit(
      "stablehlo.convolution({}, {}) dim_numbers = {}x{}->{}, window = {{stride = {}, pad = [{}], lhs_dilate = {}, "
      "rhs_dilate = {}, reverse = [{}]}} {{batch_group_count = {} : i64, feature_group_count = {} : i64, "
      "precision_config = {}}} : {}",
      in[0], in[1], dimension_text(lhs_spec, 'b', 'f'), dimension_text(rhs_spec, 'o', 'i'),
      dimension_text(out_spec, 'b', 'f'), int_list(p.window_strides), padding, int_list(p.lhs_dilation),
      int_list(p.rhs_dilation), reversal, p.batch_group_count, p.feature_group_count,
      lax::precision_config(p.precision), function_type(in_avals, out_avals)));
}

}  // namespace

namespace {

std::vector<Example> conv_examples() {
  using examples::array;
  using enum DType;
  auto params = [](const lax::ConvLayouts& layouts, Ints strides, PaddingPairs padding, Ints lhs_dilation,
                   Ints rhs_dilation, std::int64_t features = 1, std::int64_t batches = 1) {
    int rank = static_cast<int>(strides.size()) + 2;
    return make_params(ConvParams{batches, lax::conv_dimension_numbers(rank, layouts), features,
                                  std::move(lhs_dilation), None(), std::move(padding), std::nullopt, std::nullopt,
                                  std::move(rhs_dilation), std::move(strides)});
  };
  lax::ConvLayouts ncw{"NCW", "OIW", "NCW"}, nhwc{"NHWC", "HWIO", "NHWC"};
  Example plain{
      "NCW", {array({2, 3, 6}, float32), array({4, 3, 2}, float32, {.seed = 1})}, params(ncw, {1}, {{0, 0}}, {1}, {1})};
  Example strided{"NHWC strided, padded",
                  {array({1, 5, 4, 2}, float32), array({3, 2, 2, 3}, float32, {.seed = 1})},
                  params(nhwc, {2, 1}, {{1, 1}, {0, 1}}, {1, 1}, {1, 1})};
  Example dilated{"dilated both ways",
                  {array({1, 2, 5}, float32), array({2, 2, 2}, float32, {.seed = 1})},
                  params(ncw, {1}, {{1, 2}}, {2}, {3})};
  Example grouped{"feature groups",
                  {array({2, 4, 5}, float32), array({6, 2, 2}, float32, {.seed = 1})},
                  params(ncw, {1}, {{0, 0}}, {1}, {1}, 2)};
  Example batched{"batch groups",
                  {array({4, 3, 5}, float32), array({2, 3, 2}, float32, {.seed = 1})},
                  params(ncw, {1}, {{0, 0}}, {1}, {1}, 1, 2)};
  Example complex{"complex",
                  {array({1, 2, 4}, complex64), array({2, 2, 2}, complex64, {.seed = 1})},
                  params(ncw, {1}, {{0, 0}}, {1}, {1})};
  return {plain, strided, dilated, grouped, batched, complex};
}

}  // namespace

LOCKSTEP_PRIMITIVE(conv_general_dilated_p, {.name = "conv_general_dilated",
                                            .abstract_eval = conv_aval,
                                            .jvp = conv_jvp,
                                            .transpose = conv_transpose,
                                            .batch = conv_batch,
                                            .lower = conv_lower,
                                            .examples = conv_examples});

}  // namespace lockstep

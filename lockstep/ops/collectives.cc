// Collectives that move values: all_gather, reduce_scatter, all_to_all, ppermute, axis_index.
#include "lockstep/ops/collectives.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/ops/axes.h"
#include "lockstep/ops/builders.h"
#include "lockstep/ops/collective_axes.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/reducers.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/replica_groups.h"
#include "lockstep/ops/structural.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace lax {

void print_param(Printer& p, const AxisName& v) {
  if (!v.tuple) return print_text(p, v.names[0]);
  std::string text;
  for (auto& n : v.names) text += (text.empty() ? "'" : ", '") + n + "'";
  print_text(p, "(" + text + (v.names.size() == 1 ? ",)" : ")"));
}
std::size_t hash_param(const AxisName& v) { return hash_combine(lockstep::hash_param(v.names), v.tuple); }

}  // namespace lax

using lax::AxisIndexGroups;
using lax::AxisName;

void check_index_groups(const char* operation, const std::optional<AxisIndexGroups>& groups) {
  if (!groups) return;
  Ints all;
  for (auto& g : *groups)
    for (auto i : g) all.push_back(i);
  std::sort(all.begin(), all.end());
  if (all != iota_ints(static_cast<std::int64_t>(all.size())))
    throw_error(ErrorCode::invalid_argument, operation, "axis_index_groups must cover all axis indices, each once");
}
std::int64_t group_size(const char* operation, const AxisName& axes, const std::optional<AxisIndexGroups>& groups) {
  std::int64_t n = 1;
  for (auto& name : axes.names) n *= find_axis(operation, name).size;
  if (!groups) return n;
  check_index_groups(operation, groups);
  for (auto& g : *groups)
    if (g.size() != groups->front().size())
      throw_error(ErrorCode::invalid_argument, operation, "axis_index_groups must all have the same size");
  return static_cast<std::int64_t>(groups->front().size());
}
void refuse_groups(const char* operation, const std::optional<AxisIndexGroups>& groups) {
  if (groups)
    throw_error(ErrorCode::invalid_argument, operation, "axis_index_groups cannot be used over an axis of vmap");
}
Array split_axis(const Array& x, int axis, std::int64_t factor) {
  Shape shape = x.shape();
  std::int64_t& size = shape[static_cast<std::size_t>(axis)];
  LS_CHECK(size % factor == 0);
  size /= factor;
  return lax::reshape(x, shape.with(axis, factor));
}
Array fold_axis(const Array& x, int axis) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] *= shape[static_cast<std::size_t>(axis) + 1];
  return lax::reshape(x, shape.without(axis + 1));
}

namespace {

AxisName as_tuple(AxisName axes) {
  axes.tuple = true;
  return axes;
}
// The axes before and after the own one, and the sizes these parts have: `size` is that of all together.
struct AxisParts {
  AxisName major, minor;
  std::int64_t major_size, minor_size;
};
AxisParts parts_around(const AxisName& axes, const BatchIn& in, const char* operation) {
  auto at = std::find(axes.names.begin(), axes.names.end(), in.axis_name);
  AxisParts p{AxisName(std::vector(axes.names.begin(), at)), AxisName(std::vector(at + 1, axes.names.end())), 1, 1};
  p.major_size = group_size(operation, p.major, std::nullopt);
  p.minor_size = group_size(operation, p.minor, std::nullopt);
  return p;
}

// ---- all_gather ----

struct AllGatherParams {
  std::int64_t all_gather_dimension;
  std::optional<AxisIndexGroups> axis_index_groups;
  AxisName axis_name;
  std::int64_t axis_size;
  bool tiled;
};
Array bind_all_gather(const Array& x, AllGatherParams p) {
  return bind_one(all_gather_p, {x}, make_params(std::move(p)));
}
// ---- reduce_scatter ----

struct ReduceScatterParams {
  std::optional<AxisIndexGroups> axis_index_groups;
  AxisName axis_name;
  std::int64_t axis_size;
  std::int64_t scatter_dimension;
  bool tiled;
};
Array bind_reduce_scatter(const Array& x, ReduceScatterParams p) {
  return bind_one(reduce_scatter_p, {x}, make_params(std::move(p)));
}

}  // namespace

Array lax::all_gather(const Operand& x, const AxisName& axis_name, const AllGatherOptions& o) {
  LocationScope scope(x.where);
  if (axis_name.names.empty()) return x.array;
  std::int64_t size = group_size("all_gather", axis_name, o.axis_index_groups);
  int axis = canonical_axis("all_gather", o.axis, x.array.ndim() + (o.tiled ? 0 : 1));
  return bind_all_gather(x.array, {axis, o.axis_index_groups, as_tuple(axis_name), size, o.tiled});
}

namespace {

void all_gather_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<AllGatherParams>();
  int dim = static_cast<int>(p.all_gather_dimension);
  Shape shape = p.tiled ? in[0]->shape : in[0]->shape.with(dim, p.axis_size);
  if (p.tiled) shape[static_cast<std::size_t>(dim)] *= p.axis_size;
  out.push_back(with_shape(in[0], shape));
}
std::vector<Array> all_gather_transpose(const Params* params, std::span<const Array> cotangents,
                                        std::span<const TransposeIn>) {
  auto& p = params->get<AllGatherParams>();
  if (!cotangents[0].has_value()) return {Array()};
  return {bind_reduce_scatter(cotangents[0],
                              {p.axis_index_groups, p.axis_name, p.axis_size, p.all_gather_dimension, p.tiled})};
}
BatchOut all_gather_batch(const Params* params, const BatchIn& in) {
  AllGatherParams p = params->get<AllGatherParams>();
  Array x = in.args[0];
  int dim = in.dims[0], at = static_cast<int>(p.all_gather_dimension);
  if (!is_own_axis(in, p.axis_name.names)) {
    if (dim != kNotMapped && dim <= at)
      ++p.all_gather_dimension;
    else if (dim != kNotMapped && !p.tiled)
      ++dim;
    return {{bind_all_gather(x, std::move(p))}, {dim}};
  }
  refuse_groups("all_gather", p.axis_index_groups);
  x = dim == kNotMapped ? broadcast_new_axis(x, in.size, at) : moveaxis(x, dim, at);
  AxisParts parts = parts_around(p.axis_name, in, "all_gather");
  if (!parts.minor.names.empty()) {
    x = bind_all_gather(x, {at + 1, std::nullopt, parts.minor, parts.minor_size, false});
    x = fold_axis(x, at);
  }
  if (!parts.major.names.empty()) {
    x = bind_all_gather(x, {at, std::nullopt, parts.major, parts.major_size, false});
    x = fold_axis(x, at);
  }
  return {{p.tiled ? fold_axis(x, at) : x}, {kNotMapped}};
}
void all_gather_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                      std::span<const AvalP> out_avals, std::span<const std::string> in,
                      std::vector<std::string>& out) {
  auto& p = params->get<AllGatherParams>();
  std::string x = in[0];
  AvalP aval = in_avals[0];
  if (!p.tiled) {
    int dim = static_cast<int>(p.all_gather_dimension);
    AvalP with_one = make_aval(aval->shape.with(dim, 1), aval->dtype);
    x = ctx.emit("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", x,
                 int_list(iota_ints(aval->rank() + 1).without(dim)), aval->mlir, with_one->mlir);
    aval = with_one;
  }
  out.push_back(ctx.emit(
      "\"stablehlo.all_gather\"({}) <{{all_gather_dim = {} : i64, {}, replica_groups = {}, use_global_device_ids}}> : "
      "({}) -> {}",
      x, p.all_gather_dimension, kChannelHandle,
      table_attribute(replica_groups(ctx, "all_gather", p.axis_name.names, p.axis_index_groups)), aval->mlir,
      out_avals[0]->mlir));
}

}  // namespace

LOCKSTEP_PRIMITIVE(all_gather_p,
                   {.name = "all_gather",
                    .abstract_eval = all_gather_aval,
                    .jvp = rules::jvp_linear<all_gather_p>,
                    .transpose = all_gather_transpose,
                    .batch = all_gather_batch,
                    .lower = all_gather_lower,
                    .axis_names = [](const Params* p) { return p->get<AllGatherParams>().axis_name.names; }});

Array lax::psum_scatter(const Operand& x, const AxisName& axis_name, const PsumScatterOptions& o) {
  LocationScope scope(x.where);
  if (axis_name.names.empty()) return x.array;
  std::int64_t size = group_size("psum_scatter", axis_name, o.axis_index_groups);
  int dim = canonical_axis("psum_scatter", o.scatter_dimension, x.array.ndim());
  return bind_reduce_scatter(x.array, {o.axis_index_groups, as_tuple(axis_name), size, dim, o.tiled});
}

namespace {

void reduce_scatter_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<ReduceScatterParams>();
  int dim = static_cast<int>(p.scatter_dimension);
  std::int64_t size = in[0]->shape[static_cast<std::size_t>(dim)];
  Shape shape = in[0]->shape;
  if (p.tiled) {
    if (size % p.axis_size != 0)
      throw_error(ErrorCode::shape, "psum_scatter", "dimension {} of {} must be divisible by the axis size {}", dim,
                  in[0]->text, p.axis_size);
    shape[static_cast<std::size_t>(dim)] /= p.axis_size;
  } else {
    if (size != p.axis_size)
      throw_error(ErrorCode::shape, "psum_scatter",
                  "dimension {} of {} must equal the axis size {}; with tiled = true a multiple would do", dim,
                  in[0]->text, p.axis_size);
    shape = shape.without(dim);
  }
  out.push_back(with_shape(in[0], shape));
}
std::vector<Array> reduce_scatter_transpose(const Params* params, std::span<const Array> cotangents,
                                            std::span<const TransposeIn>) {
  auto& p = params->get<ReduceScatterParams>();
  if (!cotangents[0].has_value()) return {Array()};
  return {
      bind_all_gather(cotangents[0], {p.scatter_dimension, p.axis_index_groups, p.axis_name, p.axis_size, p.tiled})};
}
BatchOut reduce_scatter_batch(const Params* params, const BatchIn& in) {
  ReduceScatterParams p = params->get<ReduceScatterParams>();
  Array x = in.args[0];
  int dim = in.dims[0], at = static_cast<int>(p.scatter_dimension);
  if (!is_own_axis(in, p.axis_name.names)) {
    if (dim != kNotMapped && dim <= at)
      ++p.scatter_dimension;
    else if (dim != kNotMapped && !p.tiled)
      --dim;
    return {{bind_reduce_scatter(x, std::move(p))}, {dim}};
  }
  refuse_groups("psum_scatter", p.axis_index_groups);
  x = dim == kNotMapped ? lax::mul(x, scalar_like(x, static_cast<double>(in.size))) : lax::reduce_sum(x, {dim});
  if (p.tiled) x = split_axis(x, at, p.axis_size);
  AxisParts parts = parts_around(p.axis_name, in, "psum_scatter");
  if (!parts.major.names.empty()) {
    x = split_axis(x, at, parts.major_size);
    x = bind_reduce_scatter(x, {std::nullopt, parts.major, parts.major_size, at, false});
  }
  if (!parts.minor.names.empty()) {
    x = split_axis(x, at, in.size);
    x = bind_reduce_scatter(x, {std::nullopt, parts.minor, parts.minor_size, at + 1, false});
  }
  return {{x}, {at}};
}
void reduce_scatter_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                          std::span<const AvalP> out_avals, std::span<const std::string> in,
                          std::vector<std::string>& out) {
  auto& p = params->get<ReduceScatterParams>();
  AvalP element = make_aval({}, in_avals[0]->dtype);
  auto reducer = trace_reducer([](auto a, auto b) { return Arrays{reducer_add(a[0], b[0])}; }, {&element, 1}, "sum");
  Shape shape = in_avals[0]->shape;
  shape[static_cast<std::size_t>(p.scatter_dimension)] /= p.axis_size;
  AvalP scattered = make_aval(shape, in_avals[0]->dtype);
  std::string groups = table_attribute(replica_groups(ctx, "psum_scatter", p.axis_name.names, p.axis_index_groups));
  std::string region = reducer_region(ctx, reducer);
  std::string x = ctx.emit(
      "\"stablehlo.reduce_scatter\"({}) <{{{}, replica_groups = {}, scatter_dimension = {} : i64, "
      "use_global_device_ids}}> {} : ({}) -> {}",
      in[0], kChannelHandle, groups, p.scatter_dimension, region, in_avals[0]->mlir, scattered->mlir);
  if (!p.tiled) x = ctx.emit("stablehlo.reshape {} : ({}) -> {}", x, scattered->mlir, out_avals[0]->mlir);
  out.push_back(x);
}

}  // namespace

LOCKSTEP_PRIMITIVE(reduce_scatter_p,
                   {.name = "reduce_scatter",
                    .abstract_eval = reduce_scatter_aval,
                    .jvp = rules::jvp_linear<reduce_scatter_p>,
                    .transpose = reduce_scatter_transpose,
                    .batch = reduce_scatter_batch,
                    .lower = reduce_scatter_lower,
                    .axis_names = [](const Params* p) { return p->get<ReduceScatterParams>().axis_name.names; }});

// ---- all_to_all ----

namespace {

// The primitive keeps the rank: split_axis is divided by the axis size, concat_axis multiplied.
struct AllToAllParams {
  std::optional<AxisIndexGroups> axis_index_groups;
  AxisName axis_name;
  std::int64_t axis_size;
  std::int64_t concat_axis;
  std::int64_t split_axis;
  bool tiled;
};
Array bind_all_to_all(const Array& x, AllToAllParams p) {
  return bind_one(all_to_all_p, {x}, make_params(std::move(p)));
}

}  // namespace

Array lax::all_to_all(const Operand& operand, const AxisName& axis_name, const AllToAllOptions& o) {
  LocationScope scope(operand.where);
  Array x = operand.array;
  std::int64_t size = group_size("all_to_all", axis_name, o.axis_index_groups);
  int split = canonical_axis("all_to_all", o.split_axis, x.ndim());
  int concat = canonical_axis("all_to_all", o.concat_axis, x.ndim());
  if (o.tiled ? x.shape(split) % size != 0 : x.shape(split) != size)
    throw_error(ErrorCode::shape, "all_to_all", "split_axis {} of {} must {} the axis size {}", split, x.aval()->text,
                o.tiled ? "be divisible by" : "equal", size);
  if (!o.tiled && split != concat) {
    if (split < concat)
      ++concat;
    else
      ++split;
    x = lax::expand_dims(x, {concat});
  }
  x = bind_all_to_all(x, {o.axis_index_groups, axis_name, size, concat, split, o.tiled});
  return !o.tiled && split != concat ? lax::squeeze(x, {split}) : x;
}

namespace {

void all_to_all_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  auto& p = params->get<AllToAllParams>();
  Shape shape = in[0]->shape;
  shape[static_cast<std::size_t>(p.split_axis)] /= p.axis_size;
  shape[static_cast<std::size_t>(p.concat_axis)] *= p.axis_size;
  out.push_back(strong(with_shape(in[0], shape)));
}
std::vector<Array> all_to_all_transpose(const Params* params, std::span<const Array> cotangents,
                                        std::span<const TransposeIn>) {
  AllToAllParams p = params->get<AllToAllParams>();
  if (!cotangents[0].has_value()) return {Array()};
  std::swap(p.split_axis, p.concat_axis);
  return {bind_all_to_all(cotangents[0], std::move(p))};
}

// Over an own axis among others: the chunks are collected in three leading dimensions [major, own, minor], which are
// folded into concat_axis at the end.
std::pair<Array, int> all_to_all_among(Array x, int dim, const AllToAllParams& p, const AxisParts& parts,
                                       std::int64_t size) {
  x = lax::expand_dims(moveaxis(x, dim, 0), {0, 2});
  int split = static_cast<int>(p.split_axis) + 3, concat = static_cast<int>(p.concat_axis) + 3;
  if (!parts.major.names.empty())
    x = bind_all_to_all(x, {std::nullopt, parts.major, parts.major_size, 0, split, p.tiled});
  x = split_axis(x, split, size);
  int out_dim = split;
  if (split <= concat) ++concat;
  ++split;
  if (!parts.minor.names.empty())
    x = bind_all_to_all(x, {std::nullopt, parts.minor, parts.minor_size, 2, split, p.tiled});
  x = fold_axis(fold_axis(x, 0), 0);
  concat -= 2;
  x = fold_axis(moveaxis(x, 0, concat - 1), concat - 1);
  return {x, out_dim - 3};
}

BatchOut all_to_all_batch(const Params* params, const BatchIn& in) {
  AllToAllParams p = params->get<AllToAllParams>();
  Array x = in.args[0];
  int dim = in.dims[0], split = static_cast<int>(p.split_axis), concat = static_cast<int>(p.concat_axis);
  if (!is_own_axis(in, p.axis_name.names)) {
    if (dim != kNotMapped) {
      p.split_axis += dim <= split;
      p.concat_axis += dim <= concat;
    }
    return {{bind_all_to_all(x, std::move(p))}, {dim}};
  }
  refuse_groups("all_to_all", p.axis_index_groups);
  if (dim == kNotMapped) {
    x = broadcast_new_axis(x, in.size, 0);
    dim = 0;
  }
  if (p.axis_name.names.size() > 1) {
    auto [out, out_dim] = all_to_all_among(x, dim, p, parts_around(p.axis_name, in, "all_to_all"), in.size);
    return {{out}, {out_dim}};
  }
  if (split != concat) {
    x = fold_axis(moveaxis(x, dim, concat), concat);
    return {{split_axis(x, split, in.size)}, {split}};
  }
  int axis = split + (dim <= split);
  x = split_axis(x, axis, in.size);
  int from = dim + (axis <= dim);
  Ints swap = iota_ints(x.ndim());
  std::swap(swap[static_cast<std::size_t>(axis)], swap[static_cast<std::size_t>(from)]);
  return {{fold_axis(lax::transpose(x, swap), axis)}, {dim}};
}
void all_to_all_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                      std::span<const AvalP> out_avals, std::span<const std::string> in,
                      std::vector<std::string>& out) {
  auto& p = params->get<AllToAllParams>();
  auto groups = replica_groups(ctx, "all_to_all", p.axis_name.names, p.axis_index_groups);
  if (p.axis_size == 1) {
    out.push_back(in[0]);
    return;
  }
  out.push_back(
      ctx.emit("\"stablehlo.all_to_all\"({}) <{{{}, concat_dimension = {} : i64, replica_groups = {}, split_count = {} "
               ": i64, split_dimension = {} : i64}}> : ({}) -> {}",
               in[0], kChannelHandle, p.concat_axis, table_attribute(groups), p.axis_size, p.split_axis,
               in_avals[0]->mlir, out_avals[0]->mlir));
}
void all_to_all_print(Printer& printer, const Params* params) {
  auto& p = params->get<AllToAllParams>();
  internal::sort_and_print(printer, {{"axis_index_groups", [&] { print_param(printer, p.axis_index_groups); }},
                                     {"axis_name", [&] { print_param(printer, p.axis_name); }},
                                     {"concat_axis", [&] { print_param(printer, p.concat_axis); }},
                                     {"split_axis", [&] { print_param(printer, p.split_axis); }},
                                     {"tiled", [&] { print_param(printer, p.tiled); }}});
}

}  // namespace

LOCKSTEP_PRIMITIVE(all_to_all_p,
                   {.name = "all_to_all",
                    .abstract_eval = all_to_all_aval,
                    .jvp = rules::jvp_linear<all_to_all_p>,
                    .transpose = all_to_all_transpose,
                    .batch = all_to_all_batch,
                    .lower = all_to_all_lower,
                    .axis_names = [](const Params* p) { return p->get<AllToAllParams>().axis_name.names; },
                    .print = all_to_all_print});

// ---- ppermute ----

namespace {

struct PpermuteParams {
  AxisName axis_name;
  std::vector<std::pair<std::int64_t, std::int64_t>> perm;
};

}  // namespace

Array lax::ppermute(const Operand& x, const AxisName& axis_name, const Permutation& perm) {
  LocationScope scope(x.where);
  std::int64_t n = group_size("ppermute", axis_name, std::nullopt);
  Ints sources, destinations;
  for (auto [from, to] : perm) {
    if (from < 0 || from >= n || to < 0 || to >= n)
      throw_error(ErrorCode::invalid_argument, "ppermute", "({}, {}) is out of range for an axis of size {}", from, to,
                  n);
    if (contains(sources, from) || contains(destinations, to))
      throw_error(ErrorCode::invalid_argument, "ppermute",
                  "sources and destinations must be unique, but one of ({}, {}) is repeated", from, to);
    sources.push_back(from);
    destinations.push_back(to);
  }
  return bind_one(ppermute_p, {x.array}, make_params(PpermuteParams{as_tuple(axis_name), perm}));
}
Array lax::pshuffle(const Operand& x, const AxisName& axis_name, const Ints& perm) {
  LocationScope scope(x.where);
  Permutation pairs;
  for (std::size_t i = 0; i < perm.size(); ++i) pairs.emplace_back(perm[i], static_cast<std::int64_t>(i));
  return ppermute(x, axis_name, pairs);
}

namespace {

std::vector<Array> ppermute_transpose(const Params* params, std::span<const Array> cotangents,
                                      std::span<const TransposeIn>) {
  PpermuteParams p = params->get<PpermuteParams>();
  if (!cotangents[0].has_value()) return {Array()};
  for (auto& [from, to] : p.perm) std::swap(from, to);
  return {bind_one(ppermute_p, {cotangents[0]}, make_params(std::move(p)))};
}
BatchOut ppermute_batch(const Params* params, const BatchIn& in) {
  auto& p = params->get<PpermuteParams>();
  int dim = in.dims[0];
  if (!is_own_axis(in, p.axis_name.names)) return {{bind_one(ppermute_p, {in.args[0]}, params)}, {dim}};
  if (p.axis_name.names.size() > 1)
    throw_error(ErrorCode::invalid_argument, "ppermute", "cannot permute over several axes one of which is vmap's");
  Array x = batch_axis_at_front(in.args[0], dim, in.size);
  constexpr std::int64_t kNone = -2;
  Ints source = Shape::filled(static_cast<std::size_t>(in.size), kNone);
  for (auto [from, to] : p.perm) source[static_cast<std::size_t>(to)] = from;
  Arrays pieces;
  for (std::size_t i = 0; i < source.size();) {
    std::size_t end = i + 1;
    while (end < source.size() && source[end] == (source[i] == kNone ? kNone : source[end - 1] + 1)) ++end;
    auto n = static_cast<std::int64_t>(end - i);
    pieces.push_back(source[i] == kNone ? zeros(with_shape(x.aval(), x.shape().without(0).with(0, n)))
                                        : lax::slice_in_dim(x, source[i], source[i] + n));
    i = end;
  }
  return {{pieces.size() == 1 ? pieces[0] : lax::concatenate(pieces, 0)}, {0}};
}
void ppermute_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                    std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<PpermuteParams>();
  std::vector<Ints> pairs;
  for (Ints group : replica_groups(ctx, "ppermute", p.axis_name.names)) {
    std::sort(group.begin(), group.end());
    for (auto [from, to] : p.perm)
      pairs.push_back({group[static_cast<std::size_t>(from)], group[static_cast<std::size_t>(to)]});
  }
  std::string table = pairs.empty() ? "dense<> : tensor<0x2xi64>" : table_attribute(pairs);
  out.push_back(ctx.emit("\"stablehlo.collective_permute\"({}) <{{{}, source_target_pairs = {}}}> : ({}) -> {}", in[0],
                         kChannelHandle, table, in_avals[0]->mlir, out_avals[0]->mlir));
}

}  // namespace

LOCKSTEP_PRIMITIVE(ppermute_p,
                   {.name = "ppermute",
                    .abstract_eval = rules::same_avals,
                    .jvp = rules::jvp_linear<ppermute_p>,
                    .transpose = ppermute_transpose,
                    .batch = ppermute_batch,
                    .lower = ppermute_lower,
                    .axis_names = [](const Params* p) { return p->get<PpermuteParams>().axis_name.names; }});

// ---- axis_index ----

namespace {

struct AxisIndexParams {
  AxisName axis_name;
};

}  // namespace

std::int64_t lax::axis_size(const AxisName& axis_name, std::source_location where) {
  LocationScope scope(where);
  return group_size("axis_size", axis_name, std::nullopt);
}
Array lax::axis_index(const AxisName& axis_name, std::source_location where) {
  LocationScope scope(where);
  auto one = [](const std::string& name) {
    find_axis("axis_index", name);
    return bind_one(axis_index_p, {}, make_params(AxisIndexParams{name}));
  };
  if (!axis_name.tuple) return one(axis_name.names[0]);
  std::int64_t inner = 1;
  Array index = scalar(Scalar(std::int64_t{0}, DType::int32), DType::int32);
  for (auto name = axis_name.names.rbegin(); name != axis_name.names.rend(); ++name) {
    index = lax::add(index, lax::mul(one(*name), Array(inner)));
    inner *= find_axis("axis_index", *name).size;
  }
  return index;
}

namespace {

void axis_index_aval(const Params*, std::span<const AvalP>, AvalList& out) {
  out.push_back(make_aval({}, DType::int32));
}
BatchOut axis_index_batch(const Params* params, const BatchIn& in) {
  if (is_own_axis(in, params->get<AxisIndexParams>().axis_name.names)) return {{lax::iota(DType::int32, in.size)}, {0}};
  return {{bind_one(axis_index_p, {}, params)}, {kNotMapped}};
}
// From the partition number; where only some axes are manual, inside a computation in which the others are manual too.
void axis_index_lower(LowerContext& ctx, const Params* params, std::span<const AvalP>, std::span<const AvalP>,
                      std::span<const std::string>, std::vector<std::string>& out) {
  const std::string& name = params->get<AxisIndexParams>().axis_name.names[0];
  auto at = std::find_if(ctx.axes.begin(), ctx.axes.end(), [&](const LowerAxis& a) { return a.name == name; });
  if (at == ctx.axes.end())
    throw_error(ErrorCode::axis, "axis_index", "there is no mesh axis \"{}\" in the program being compiled", name);
  std::int64_t inner = 1;
  for (auto a = at + 1; a != ctx.axes.end(); ++a) inner *= a->size;
  AvalP id = make_aval({}, DType::uint32);
  auto compute = [&] {
    std::string divisor = ctx.constant(Scalar(inner, id->dtype)), modulus = ctx.constant(Scalar(at->size, id->dtype));
    std::string partition = ctx.emit("stablehlo.partition_id : tensor<ui32>");
    std::string quotient = ctx.emit("stablehlo.divide {}, {} : tensor<ui32>", partition, divisor);
    std::string index = ctx.emit("stablehlo.remainder {}, {} : tensor<ui32>", quotient, modulus);
    return ctx.emit("stablehlo.convert {} : (tensor<ui32>) -> tensor<i32>", index);
  };
  std::string automatic;
  for (auto& a : ctx.axes)
    if (!a.manual) automatic += (automatic.empty() ? "\"" : ", \"") + a.name + "\"";
  if (automatic.empty()) {
    out.push_back(compute());
    return;
  }
  ctx.begin_region(true);
  std::string index = compute();
  ctx.line(fmt::format("sdy.return {} : tensor<i32>", index));
  std::string body = ctx.end_region();
  out.push_back(ctx.emit(
      "sdy.manual_computation() in_shardings=[] out_shardings=[<@{}, []>] manual_axes={{{}}} () {{\n{}}} : () -> "
      "tensor<i32>",
      ctx.mesh_symbol, automatic, body));
}

}  // namespace

LOCKSTEP_PRIMITIVE(axis_index_p,
                   {.name = "axis_index",
                    .abstract_eval = axis_index_aval,
                    .jvp = rules::jvp_zero<axis_index_p>,
                    .batch = axis_index_batch,
                    .lower = axis_index_lower,
                    .axis_names = [](const Params* p) { return p->get<AxisIndexParams>().axis_name.names; }});

}  // namespace lockstep

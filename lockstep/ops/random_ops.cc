#include "lockstep/ops/random_ops.h"

#include <map>
#include <mutex>

#include "lockstep/ops/builders.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/examples.h"
#include "lockstep/support/error.h"

namespace lockstep {

namespace {

const char* const kImpl = "fry";

Shape join(const Shape& a, const Shape& b) {
  Shape out = a;
  for (auto d : b) out.push_back(d);
  return out;
}

// ---- the hash, in lax functions ----

Array number(std::uint32_t v) { return scalar(Scalar(std::uint64_t{v}, DType::uint32), DType::uint32); }

// Twenty rounds in five groups of four. Written out: the compiler then fuses them into one pass over the data, which
// compiles and runs several times faster than a loop over the groups.
Arrays hash_rounds(std::span<const Array> in) {
  static constexpr std::uint32_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  Array keys[3] = {in[0], in[1], lax::bitwise_xor(lax::bitwise_xor(in[0], in[1]), number(0x1BD11BDA))};
  Array x = lax::add(in[2], keys[0]), y = lax::add(in[3], keys[1]);
  for (std::uint32_t group = 0; group < 5; ++group) {
    for (std::uint32_t by : kRotations[group % 2]) {
      x = lax::add(x, y);
      y = lax::bitwise_xor(
          x, lax::bitwise_or(lax::shift_left(y, number(by)), lax::shift_right_logical(y, number(32 - by))));
    }
    x = lax::add(x, keys[(group + 1) % 3]);
    y = lax::add(lax::add(y, keys[(group + 2) % 3]), number(group + 1));
  }
  return {x, y};
}

// One traced hash for each combination of operand types, so that a module has one function for it.
const ClosedJaxpr& hash_of(std::span<const AvalP> in) {
  static std::mutex mutex;
  static auto* made = new std::map<std::vector<AvalP>, ClosedJaxpr>;
  std::lock_guard lock(mutex);
  auto [it, fresh] = made->try_emplace(std::vector<AvalP>(in.begin(), in.end()));
  if (fresh) {
    LocationOverride no_line(0);
    it->second = trace_to_jaxpr(hash_rounds, in, "threefry2x32");
  }
  return it->second;
}
std::vector<std::string> call_hash(LowerContext& ctx, std::span<const AvalP> in_avals,
                                   std::span<const std::string> in) {
  const ClosedJaxpr& hash = hash_of(in_avals);
  std::string text = "func.call @" + ctx.function_for(hash, "threefry2x32") + "(";
  for (std::size_t i = 0; i < in.size(); ++i) text += (i ? ", " : "") + in[i];
  return ctx.emit_many(2, text + ") : " + function_type(in_avals, hash->out_avals()));
}

// ---- words of keys, as text ----

struct Words {
  std::string high, low;
};
AvalP words_aval(const Shape& shape) { return make_aval(shape, DType::uint32); }

Words split_words(LowerContext& ctx, const std::string& x, const Shape& shape) {
  AvalP wide = make_aval(shape, DType::uint64), narrow = words_aval(shape);
  std::string by = ctx.constant(Scalar(std::uint64_t{32}, DType::uint64), wide);
  std::string high = ctx.emit("stablehlo.shift_right_logical {}, {} : {}", x, by, wide->mlir);
  return {ctx.convert(high, wide, narrow), ctx.convert(x, wide, narrow)};
}
std::string join_words(LowerContext& ctx, const Words& words, const Shape& shape) {
  AvalP wide = make_aval(shape, DType::uint64), narrow = words_aval(shape);
  std::string by = ctx.constant(Scalar(std::uint64_t{32}, DType::uint64), wide);
  std::string high = ctx.convert(words.high, narrow, wide), low = ctx.convert(words.low, narrow, wide);
  high = ctx.emit("stablehlo.shift_left {}, {} : {}", high, by, wide->mlir);
  return ctx.emit("stablehlo.or {}, {} : {}", high, low, wide->mlir);
}
// Words of shape `lead` repeated over further dimensions.
std::string repeat(LowerContext& ctx, const std::string& x, const Shape& lead, const Shape& shape) {
  if (lead == shape) return x;
  Ints dims;
  for (int i = 0; i < lead.rank(); ++i) dims.push_back(i);
  return ctx.emit("stablehlo.broadcast_in_dim {}, dims = {} : ({}) -> {}", x, int_list(dims), words_aval(lead)->mlir,
                  words_aval(shape)->mlir);
}
// The hash of 0, 1, 2, ... (64-bit numbers over `inner`, in row-major order) under each key.
Words hash_counts(LowerContext& ctx, const std::string& keys, const Shape& outer, const Shape& inner) {
  Shape shape = join(outer, inner);
  AvalP wide = make_aval(shape, DType::uint64);
  std::string counts = ctx.constant(Scalar(std::uint64_t{0}, DType::uint64), wide);
  std::uint64_t stride = 1;
  for (int d = inner.rank() - 1; d >= 0; --d) {
    if (inner[d] > 1) {
      std::string along = ctx.emit("stablehlo.iota dim = {} : {}", outer.rank() + d, wide->mlir);
      if (stride > 1)
        along = ctx.emit("stablehlo.multiply {}, {} : {}", along, ctx.constant(Scalar(stride, DType::uint64), wide),
                         wide->mlir);
      counts = ctx.emit("stablehlo.add {}, {} : {}", counts, along, wide->mlir);
    }
    stride *= static_cast<std::uint64_t>(inner[d]);
  }
  Words count = split_words(ctx, counts, shape), key = split_words(ctx, keys, outer);
  AvalP narrow = words_aval(shape);
  AvalP avals[] = {narrow, narrow, narrow, narrow};
  std::string in[] = {repeat(ctx, key.high, outer, shape), repeat(ctx, key.low, outer, shape), count.high, count.low};
  auto out = call_hash(ctx, avals, in);
  return {out[0], out[1]};
}

}  // namespace

// ---- threefry2x32 ----

namespace {

void threefry_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  for (AvalP a : in)
    if (a->dtype != DType::uint32)
      throw_error(ErrorCode::dtype, "threefry2x32", "operands must be uint32, got {}", to_string(in));
  AvalP result = strong(elementwise_aval("threefry2x32", in, DType::uint32));
  out.push_back(result);
  out.push_back(result);
}
void threefry_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP>,
                    std::span<const std::string> in, std::vector<std::string>& out) {
  AvalList strong_avals;
  for (AvalP a : in_avals) strong_avals.push_back(words_aval(a->shape));
  out = call_hash(ctx, strong_avals, in);
}
std::vector<Example> threefry_examples() {
  auto words = [](Shape s, int seed) { return examples::array(s, DType::uint32, {0, 4294967296.0, seed}); };
  return {{.label = "scalars", .in = {words({}, 1), words({}, 2), words({}, 3), words({}, 4)}},
          {.label = "one key", .in = {words({}, 1), words({}, 2), words({2, 3}, 3), words({2, 3}, 4)}},
          {.label = "keys", .in = {words({5}, 1), words({5}, 2), words({5}, 3), words({5}, 4)}}};
}

}  // namespace
std::pair<Array, Array> threefry2x32(const Array& k1, const Array& k2, const Array& x1, const Array& x2) {
  Array in[] = {k1, k2, x1, x2};
  Arrays out = bind_many(threefry2x32_p, in);
  return {out[0], out[1]};
}
LOCKSTEP_PRIMITIVE(threefry2x32_p, {.name = "threefry2x32",
                                    .abstract_eval = threefry_aval,
                                    .jvp = rules::jvp_zero<threefry2x32_p>,
                                    .batch = rules::batch_nary<threefry2x32_p>,
                                    .lower = threefry_lower,
                                    .examples = threefry_examples,
                                    .multiple_results = true});

// ---- making and reading keys ----

namespace {

struct ImplParams {
  std::string impl;
};
ParamsRef impl_params() { return make_params(ImplParams{kImpl}); }
ExampleOperand keys(Shape shape) { return examples::array(std::move(shape), DType::key); }

void seed_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  check_dtype("random_seed", in[0], kInt);
  out.push_back(with_dtype(in[0], DType::key));
}
void seed_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                std::span<const std::string> in, std::vector<std::string>& out) {
  AvalP from = in_avals[0];
  std::string x = in[0];
  if (itemsize(from->dtype) < 8) {
    AvalP word = words_aval(from->shape);
    x = ctx.convert(x, from, word);
    from = word;
  }
  out.push_back(ctx.convert(x, from, out_avals[0]));
}
void wrap_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  if (in[0]->dtype != DType::uint32)
    throw_error(ErrorCode::dtype, "random_wrap", "the words of keys must be uint32, got {}", in[0]->text);
  if (in[0]->rank() == 0 || in[0]->shape.back() != 2)
    throw_error(ErrorCode::shape, "random_wrap", "the words of keys must have a last dimension of 2, got {}",
                in[0]->text);
  Shape shape = in[0]->shape;
  shape.pop_back();
  out.push_back(with_dtype(with_shape(in[0], std::move(shape)), DType::key));
}
BatchOut wrap_batch(const Params* params, const BatchIn& in) {
  return {{bind_one(random_wrap_p, {moveaxis(in.args[0], in.dims[0], 0)}, ParamsRef(params))}, {0}};
}
void wrap_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                std::span<const std::string> in, std::vector<std::string>& out) {
  const Shape& shape = out_avals[0]->shape;
  AvalP column = words_aval(shape.with(shape.rank(), 1));
  auto word = [&](int k) {
    std::string ranges;
    for (auto d : shape) ranges += fmt::format("0:{}, ", d);
    std::string x =
        ctx.emit("stablehlo.slice {} [{}{}:{}] : ({}) -> {}", in[0], ranges, k, k + 1, in_avals[0]->mlir, column->mlir);
    return ctx.emit("stablehlo.reshape {} : ({}) -> {}", x, column->mlir, words_aval(shape)->mlir);
  };
  std::string high = word(0);
  out.push_back(join_words(ctx, {high, word(1)}, shape));
}
void unwrap_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  check_dtype("random_unwrap", in[0], kKey);
  out.push_back(with_dtype(with_shape(in[0], in[0]->shape.with(in[0]->rank(), 2)), DType::uint32));
}
void unwrap_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                  std::span<const std::string> in, std::vector<std::string>& out) {
  const Shape& shape = in_avals[0]->shape;
  AvalP narrow = words_aval(shape), column = words_aval(shape.with(shape.rank(), 1));
  Words words = split_words(ctx, in[0], shape);
  std::string high = ctx.emit("stablehlo.reshape {} : ({}) -> {}", words.high, narrow->mlir, column->mlir);
  std::string low = ctx.emit("stablehlo.reshape {} : ({}) -> {}", words.low, narrow->mlir, column->mlir);
  out.push_back(ctx.emit("stablehlo.concatenate {}, {}, dim = {} : ({}, {}) -> {}", high, low, shape.rank(),
                         column->mlir, column->mlir, out_avals[0]->mlir));
}

}  // namespace
Array random_seed(const Array& seeds) { return bind_one(random_seed_p, {seeds}, impl_params()); }
LOCKSTEP_PRIMITIVE(random_seed_p,
                   {.name = "random_seed",
                    .abstract_eval = seed_aval,
                    .jvp = rules::jvp_zero<random_seed_p>,
                    .batch = rules::batch_nary<random_seed_p>,
                    .lower = seed_lower,
                    .examples = [] { return examples::elementwise(kInt, 1, {examples::Range{}}, impl_params()); }});

Array random_wrap(const Array& words) { return bind_one(random_wrap_p, {words}, impl_params()); }
LOCKSTEP_PRIMITIVE(random_wrap_p,
                   {.name = "random_wrap",
                    .abstract_eval = wrap_aval,
                    .jvp = rules::jvp_zero<random_wrap_p>,
                    .batch = wrap_batch,
                    .lower = wrap_lower,
                    .examples = []() -> std::vector<Example> {
                      return {{.label = "one", .in = {examples::array({2}, DType::uint32)}, .params = impl_params()},
                              {.label = "matrix",
                               .in = {examples::array({2, 3, 2}, DType::uint32)},
                               .params = impl_params()}};
                    }});

Array random_unwrap(const Array& keys) { return bind_one(random_unwrap_p, {keys}); }
LOCKSTEP_PRIMITIVE(random_unwrap_p,
                   {.name = "random_unwrap",
                    .abstract_eval = unwrap_aval,
                    .jvp = rules::jvp_zero<random_unwrap_p>,
                    .batch = rules::batch_nary<random_unwrap_p>,
                    .lower = unwrap_lower,
                    .examples = []() -> std::vector<Example> {
                      return {{.label = "one", .in = {keys({})}}, {.label = "matrix", .in = {keys({2, 3})}}};
                    }});

// ---- new keys and bits from keys ----

namespace {

struct SplitParams {
  Shape shape;
};
void split_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_dtype("random_split", in[0], kKey);
  out.push_back(with_shape(in[0], join(in[0]->shape, params->get<SplitParams>().shape)));
}
void split_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                 std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  Words words = hash_counts(ctx, in[0], in_avals[0]->shape, params->get<SplitParams>().shape);
  out.push_back(join_words(ctx, words, out_avals[0]->shape));
}

void fold_in_aval(const Params*, std::span<const AvalP> in, AvalList& out) {
  check_dtype("random_fold_in", in[0], kKey);
  if (in[1]->dtype != DType::uint32)
    throw_error(ErrorCode::dtype, "random_fold_in", "data must be uint32, got {}", in[1]->text);
  out.push_back(with_dtype(elementwise_aval("random_fold_in", in, DType::key), DType::key));
}
void fold_in_lower(LowerContext& ctx, const Params*, std::span<const AvalP> in_avals, std::span<const AvalP> out_avals,
                   std::span<const std::string> in, std::vector<std::string>& out) {
  const Shape& shape = out_avals[0]->shape;
  AvalP narrow = words_aval(shape);
  Words key = split_words(ctx, ctx.broadcast_to(in[0], in_avals[0], out_avals[0]), shape);
  std::string zero = ctx.constant(Scalar(std::uint64_t{0}, DType::uint32), narrow);
  AvalP avals[] = {narrow, narrow, narrow, narrow};
  std::string operands[] = {key.high, key.low, zero, ctx.broadcast_to(in[1], in_avals[1], out_avals[0])};
  auto words = call_hash(ctx, avals, operands);
  out.push_back(join_words(ctx, {words[0], words[1]}, shape));
}

struct BitsParams {
  std::int64_t bit_width;
  Shape shape;
};
DType unsigned_of_width(std::int64_t bits) {
  switch (bits) {
    case 8:
      return DType::uint8;
    case 16:
      return DType::uint16;
    case 32:
      return DType::uint32;
    case 64:
      return DType::uint64;
    default:
      throw_error(ErrorCode::invalid_argument, "random_bits", "bit width {}; it must be 8, 16, 32 or 64", bits);
  }
}
void bits_aval(const Params* params, std::span<const AvalP> in, AvalList& out) {
  check_dtype("random_bits", in[0], kKey);
  auto& p = params->get<BitsParams>();
  out.push_back(with_dtype(with_shape(in[0], join(in[0]->shape, p.shape)), unsigned_of_width(p.bit_width)));
}
void bits_lower(LowerContext& ctx, const Params* params, std::span<const AvalP> in_avals,
                std::span<const AvalP> out_avals, std::span<const std::string> in, std::vector<std::string>& out) {
  auto& p = params->get<BitsParams>();
  Words words = hash_counts(ctx, in[0], in_avals[0]->shape, p.shape);
  const Shape& shape = out_avals[0]->shape;
  if (p.bit_width == 64) {
    out.push_back(join_words(ctx, words, shape));
    return;
  }
  AvalP narrow = words_aval(shape);
  std::string mixed = ctx.emit("stablehlo.xor {}, {} : {}", words.high, words.low, narrow->mlir);
  out.push_back(ctx.convert(mixed, narrow, out_avals[0]));
}
std::vector<Example> bits_examples() {
  auto example = [](Shape outer, int width, Shape shape) {
    return Example{.label = fmt::format("{} bits {} of {}", width, to_string(shape), to_string(outer)),
                   .in = {keys(std::move(outer))},
                   .params = make_params(BitsParams{width, shape})};
  };
  return {example({}, 32, {}),     example({}, 32, {2, 3}), example({2}, 32, {3}), example({}, 8, {5}),
          example({}, 16, {1, 4}), example({3}, 64, {2}),   example({}, 32, {0})};
}

}  // namespace
Array random_split(const Array& keys, const Shape& shape) {
  return bind_one(random_split_p, {keys}, make_params(SplitParams{shape}));
}
LOCKSTEP_PRIMITIVE(random_split_p,
                   {.name = "random_split",
                    .abstract_eval = split_aval,
                    .jvp = rules::jvp_zero<random_split_p>,
                    .batch = rules::batch_nary<random_split_p>,
                    .lower = split_lower,
                    .examples = []() -> std::vector<Example> {
                      return {
                          {.label = "one in two", .in = {keys({})}, .params = make_params(SplitParams{{2}})},
                          {.label = "each in a matrix", .in = {keys({2})}, .params = make_params(SplitParams{{3, 2}})}};
                    }});

Array random_fold_in(const Array& keys, const Array& data) { return bind_one(random_fold_in_p, {keys, data}); }
LOCKSTEP_PRIMITIVE(random_fold_in_p,
                   {.name = "random_fold_in",
                    .abstract_eval = fold_in_aval,
                    .jvp = rules::jvp_zero<random_fold_in_p>,
                    .batch = rules::batch_nary<random_fold_in_p>,
                    .lower = fold_in_lower,
                    .examples = []() -> std::vector<Example> {
                      return {{.label = "one", .in = {keys({}), examples::array({}, DType::uint32)}},
                              {.label = "a key and many", .in = {keys({}), examples::array({4}, DType::uint32)}},
                              {.label = "many keys", .in = {keys({2, 3}), examples::array({2, 1}, DType::uint32)}}};
                    }});

Array random_bits(const Array& keys, int bit_width, const Shape& shape) {
  return bind_one(random_bits_p, {keys}, make_params(BitsParams{bit_width, shape}));
}
LOCKSTEP_PRIMITIVE(random_bits_p, {.name = "random_bits",
                                   .abstract_eval = bits_aval,
                                   .jvp = rules::jvp_zero<random_bits_p>,
                                   .batch = rules::batch_nary<random_bits_p>,
                                   .lower = bits_lower,
                                   .examples = bits_examples});

}  // namespace lockstep

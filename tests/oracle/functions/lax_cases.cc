// Functions of lax/ that are not elementwise (oracle/elementwise) nor structural (oracle/structural).
#include "lockstep/api/vmap.h"
#include "lockstep/lax/lax.h"
#include "lockstep/numpy/indexing.h"
#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {
namespace {

Arrays list(const std::pair<Array, Array>& p) { return {p.first, p.second}; }
#define MANY(name, ...)                                      \
  {                                                          \
    "lax_" name, [](const Arrays& a) { return __VA_ARGS__; } \
  }
#define LAX(name, ...) CASE("lax_" name, __VA_ARGS__)
// Over vmap's axis "i" of the first argument.
#define NAMED(name, ...) LAX(name, vmap([](const Array& x) -> Array { return __VA_ARGS__; }, {.axis_name = "i"})(a[0]))

const RegisterCases reductions(
    "lax",
    {
        LAX("reduce_sum", lax::reduce_sum(a[0], {0})),
        LAX("reduce_prod", lax::reduce_prod(a[0], {1})),
        LAX("reduce_max", lax::reduce_max(a[0], {0, 1})),
        LAX("reduce_min", lax::reduce_min(a[0], {1})),
        LAX("reduce_and", lax::reduce_and(a[0], {0})),
        LAX("reduce_or", lax::reduce_or(a[0], {0})),
        LAX("reduce_xor", lax::reduce_xor(a[0], {0})),
        LAX("argmax", lax::argmax(a[0], 1)),
        LAX("argmin", lax::argmin(a[0], 0, DType::uint8)),
        LAX("reduce", lax::reduce(a[0], 1.0f, [](const Array& x, const Array& y) { return lax::mul(x, y); }, {0})),
        MANY("reduce_many",
             lax::reduce(Arrays{a[0], a[1]}, Arrays{a[2], a[3]},
                         [](std::span<const Array> x, std::span<const Array> y) {
                           Array better = lax::gt(y[0], x[0]);
                           return Arrays{lax::select(better, y[0], x[0]), lax::select(better, y[1], x[1])};
                         },
                         {1})),
        LAX("cumsum", lax::cumsum(a[0], 1)),
        LAX("cumprod", lax::cumprod(a[0], 0, true)),
        LAX("cummax", lax::cummax(a[0], 1)),
        LAX("cummin", lax::cummin(a[0], 0, true)),
        LAX("cumlogsumexp", lax::cumlogsumexp(a[0], 1)),
        MANY("associative_scan", lax::associative_scan(
                                     [](std::span<const Array> x, std::span<const Array> y) {
                                       return Arrays{lax::mul(x[0], y[0]), lax::add(lax::mul(y[0], x[1]), y[1])};
                                     },
                                     a, {.reverse = true, .axis = 1})),
        LAX("sort", lax::sort(a[0], {.dimension = 0})),
        MANY("sort_keys", lax::sort(a, {.num_keys = 2})),
        MANY("sort_key_val", list(lax::sort_key_val(a[0], a[1]))),
        MANY("top_k", list(lax::top_k(a[0], 2))),
        MANY("top_k_0", list(lax::top_k(a[0], 2, 0))),
        LAX("select_n", lax::select_n(a[0], {a[1], a[2], a[3]})),
    });
const RegisterCases arrays(
    "lax", {
               LAX("broadcast", lax::broadcast(a[0], {2, 1})),
               LAX("broadcast_to_rank", lax::broadcast_to_rank(a[0], 4)),
               LAX("iota", lax::iota(DType::float32, 4), lax::broadcasted_iota(DType::int8, {2, 3}, 1)),
               LAX("full", lax::full({2, 3}, 1.5f), lax::full({2}, 3, DType::bfloat16)),
               LAX("full_like", lax::full_like(a[0], 2), lax::full_like(a[0], 3, DType::int32, Shape{2})),
               LAX("copy", lax::copy(a[0])),
               LAX("collapse", lax::collapse(a[0], 1), lax::collapse(a[0], 0, 2)),
               LAX("dynamic_update_slice_in_dim", lax::dynamic_update_slice_in_dim(a[0], a[1], a[2], 1)),
               LAX("dot", lax::dot(a[0], a[1])),
               LAX("batch_matmul", lax::batch_matmul(a[0], a[1])),
               LAX("dot_general", lax::dot_general(a[0], a[1], {{{2}, {1}}, {{0}, {2}}})),
               LAX("dot_general_bf16",
                   lax::dot_general(a[0], a[1], {{{1}, {0}}, {{}, {}}}, {.preferred_element_type = DType::float32})),
           });
#define SCATTER(name)                                                                                                 \
  LAX(#name, lax::name(a[0], a[1], a[2],                                                                              \
                       {.update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}}, \
                       {.unique_indices = true}))
const RegisterCases scatters(
    "lax",
    {
        SCATTER(scatter),
        SCATTER(scatter_add),
        SCATTER(scatter_sub),
        SCATTER(scatter_min),
        SCATTER(scatter_max),
        LAX("scatter_apply",
            lax::scatter_apply(
                a[0], a[1], [](const Array& x) { return lax::add(lax::mul(x, 2.0f), 1.0f); },
                {.update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}}, {3, 4})),
        LAX("at_apply", a[0].at(a[1]).apply([](const Array& x) { return lax::sin(x); })),
    });
const RegisterCases windows(
    "lax",
    {
        LAX("conv", lax::conv(a[0], a[1], {2, 1}, "SAME")),
        LAX("conv_pairs", lax::conv(a[0], a[1], {1, 1}, {{1, 0}, {0, 2}})),
        LAX("conv_general_dilated",
            lax::conv_general_dilated(a[0], a[1], {1, 2}, "SAME",
                                      {.rhs_dilation = Ints{2, 1}, .dimension_numbers = {{"NHWC", "HWIO", "NHWC"}}})),
        LAX("conv_groups", lax::conv_general_dilated(a[0], a[1], {1}, "VALID", {.feature_group_count = 2})),
        LAX("conv_batch_groups", lax::conv_general_dilated(a[0], a[1], {1}, "VALID", {.batch_group_count = 2})),
        LAX("conv_lhs_dilation", lax::conv_general_dilated(a[0], a[1], {1}, {{2, 1}}, {.lhs_dilation = Ints{2}})),
        LAX("conv_transpose", lax::conv_transpose(a[0], a[1], {2, 2}, "SAME")),
        LAX("conv_transpose_kernel", lax::conv_transpose(a[0], a[1], {1, 2}, "VALID", {.transpose_kernel = true})),
        LAX("reduce_window_max", lax::reduce_window(a[0], -std::numeric_limits<float>::infinity(), lax::max, {2, 2},
                                                    {.window_strides = Ints{1, 2}, .padding = "SAME"})),
        LAX("reduce_window_min", lax::reduce_window(a[0], std::numeric_limits<float>::infinity(), lax::min, {2, 3})),
        LAX("reduce_window_add", lax::reduce_window(a[0], 0.0f, lax::add, {2, 2},
                                                    {.padding = {{1, 0}, {0, 2}},
                                                     .base_dilation = Ints{1, 2},
                                                     .window_dilation = Ints{2, 1}})),
        LAX("reduce_window_mul", lax::reduce_window(a[0], 1.0f, lax::mul, {1, 2})),
    });
const RegisterCases control_flow(
    "lax",
    {
        MANY("scan",
             [&] {
               auto [carry, ys] = lax::scan(
                   [](Array c, Array x) {
                     Array next = lax::add(lax::mul(c, 0.5f), lax::sin(x));
                     return std::pair{next, lax::mul(next, x)};
                   },
                   a[0], a[1]);
               return Arrays{carry, ys};
             }()),
        MANY("scan_reverse",
             [&] {
               auto [carry, ys] = lax::scan(
                   [](Array c, Array x) {
                     return std::pair{lax::add(c, x), c};
                   },
                   a[0], a[1], {.reverse = true, .unroll = 2});
               return Arrays{carry, ys};
             }()),
        LAX("while_loop", lax::while_loop([](Array x) { return lax::lt(lax::reduce_sum(x, {0}), 20.0f); },
                                          [](Array x) { return lax::add(lax::mul(x, 1.5f), 0.25f); }, a[0])),
        LAX("fori_loop", lax::fori_loop(
                             0, 4, [](Array i, Array x) { return lax::mul(lax::sin(x), lax::cos(x)); }, a[0])),
        LAX("fori_loop_traced", lax::fori_loop(
                                    0, a[1], [](Array i, Array x) { return lax::add(x, i); }, a[0])),
        LAX("cond", lax::cond(
                        a[0], [](Array x, Array y) { return lax::mul(lax::sin(x), y); },
                        [](Array x, Array y) { return lax::sub(x, y); }, a[1], a[2])),
        LAX("switch", lax::switch_(a[0],
                                   std::tuple{[](Array x) { return lax::neg(x); }, [](Array x) { return lax::exp(x); },
                                              [](Array x) { return lax::mul(x, x); }},
                                   a[1])),
        LAX("map", lax::map([](Array x) { return lax::mul(x, lax::sin(x)); }, a[0])),
    });
const RegisterCases collectives("lax",
                                {
                                    NAMED("psum", lax::psum(x, "i")),
                                    NAMED("pmean", lax::pmean(x, "i")),
                                    NAMED("pmax", lax::pmax(x, "i")),
                                    NAMED("pmin", lax::pmin(x, "i")),
                                    NAMED("all_gather", lax::all_gather(x, "i", {.axis = 1})),
                                    NAMED("all_gather_tiled", lax::all_gather(x, "i", {.tiled = true})),
                                    NAMED("psum_scatter", lax::psum_scatter(x, "i", {.tiled = true})),
                                    NAMED("all_to_all", lax::all_to_all(x, "i", 0, 1)),
                                    NAMED("pswapaxes", lax::pswapaxes(x, "i", 1)),
                                    NAMED("ppermute", lax::ppermute(x, "i", {{0, 1}, {1, 2}, {2, 0}})),
                                    NAMED("pshuffle", lax::pshuffle(x, "i", {2, 0, 1})),
                                    NAMED("axis_index",
                                          lax::mul(x, lax::convert_element_type(lax::axis_index("i"), DType::float32))),
                                    NAMED("axis_size", lax::mul(x, static_cast<float>(lax::axis_size("i")))),
                                });

}  // namespace
}  // namespace lockstep::oracle

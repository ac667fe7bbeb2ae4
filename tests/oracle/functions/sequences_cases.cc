// Functions of numpy/sorting.h, numpy/series.h, numpy/index_tricks.h and the products of numpy/linalg.h.
#include "lockstep/numpy/numpy.h"
#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {
namespace {

namespace np = numpy;

Arrays list(const std::pair<Array, Array>& p) { return {p.first, p.second}; }
#define MANY(name, ...)                               \
  {                                                   \
    name, [](const Arrays& a) { return __VA_ARGS__; } \
  }

const RegisterCases sorting(
    "sequences",
    {
        CASE("sort", np::sort(a[0])),
        CASE("sort_0", np::sort(a[0], 0)),
        CASE("sort_none", np::sort(a[0], none)),
        CASE("sort_descending", np::sort(a[0], -1, {.descending = true})),
        CASE("argsort", np::argsort(a[0])),
        CASE("argsort_0", np::argsort(a[0], 0)),
        CASE("argsort_none", np::argsort(a[0], none)),
        CASE("argsort_descending", np::argsort(a[0], -1, {.descending = true})),
        CASE("lexsort", np::lexsort(a)),
        CASE("lexsort_0", np::lexsort(a, 0)),
        CASE("sort_complex", np::sort_complex(a[0])),
        CASE("partition", np::partition(a[0], 2)),
        CASE("partition_0", np::partition(a[0], -1, 0)),
        CASE("argpartition", np::argpartition(a[0], 2)),
        CASE("argpartition_0", np::argpartition(a[0], 1, 0)),
        CASE("searchsorted", np::searchsorted(a[0], a[1])),
        CASE("searchsorted_right", np::searchsorted(a[0], a[1], np::Side::right)),
        CASE("digitize", np::digitize(a[0], a[1])),
        CASE("digitize_right", np::digitize(a[0], a[1], true)),
        CASE("isin", np::isin(a[0], a[1])),
        CASE("isin_invert", np::isin(a[0], a[1], {.invert = true})),
        CASE("unique", np::unique(a[0])),
        CASE("unique_4", np::unique(a[0], {.size = 4})),
        CASE("unique_fill", np::unique(a[0], {.size = 14, .fill_value = -7})),
        CASE("unique_axis", np::unique(a[0], {.axis = 1, .size = 3})),
        MANY("unique_all",
             [&] {
               np::Unique u = np::unique_all(a[0], {.equal_nan = true, .size = 15});
               return Arrays{u.values, u.indices, u.inverse_indices, u.counts};
             }()),
        CASE("bincount", np::bincount(a[0])),
        CASE("bincount_6", np::bincount(a[0], {.length = 6})),
        CASE("bincount_min", np::bincount(a[0], {.minlength = 20})),
        CASE("bincount_weights", np::bincount(a[0], {.weights = a[1], .length = 6})),
        MANY("histogram", list(np::histogram(a[0]))),
        MANY("histogram_range", list(np::histogram(a[0], 4, {.range = std::pair<Array, Array>{-1.0, 2.0}}))),
        MANY("histogram_density", list(np::histogram(a[0], 3, {.weights = a[1], .density = true}))),
        MANY("histogram_edges", list(np::histogram(a[0], a[1]))),
        CASE("histogram_bin_edges", np::histogram_bin_edges(a[0], 5)),
    });
const RegisterCases series(
    "sequences",
    {
        CASE("diff", np::diff(a[0])),
        CASE("diff_2", np::diff(a[0], 2, {.axis = 0})),
        CASE("diff_joined", np::diff(a[0], 1, {.prepend = 2, .append = a[0]})),
        CASE("ediff1d", np::ediff1d(a[0])),
        CASE("ediff1d_ends", np::ediff1d(a[0], {.to_end = a[1], .to_begin = 3})),
        MANY("gradient", np::gradient(a[0])),
        MANY("gradient_spacing", np::gradient(a[0], {2.0, a[1]})),
        MANY("gradient_axis", np::gradient(a[0], {0.5}, -1)),
        CASE("trapezoid", np::trapezoid(a[0])),
        CASE("trapezoid_dx", np::trapezoid(a[0], {.dx = 0.5, .axis = 0})),
        CASE("trapezoid_x", np::trapezoid(a[0], {.x = a[1]})),
        CASE("unwrap", np::unwrap(a[0])),
        CASE("unwrap_period", np::unwrap(a[0], {.discont = 4, .axis = 0, .period = 7})),
        CASE("interp", np::interp(a[0], a[1], a[2])),
        CASE("interp_ends", np::interp(a[0], a[1], a[2], {.left = -1.0, .right = 9.0})),
        CASE("interp_extrapolate", np::interp(a[0], a[1], a[2], {.extrapolate = true})),
        CASE("interp_period", np::interp(a[0], a[1], a[2], {.period = 3.0})),
        CASE("convolve", np::convolve(a[0], a[1]), np::convolve(a[0], a[1], "same"), np::convolve(a[0], a[1], "valid")),
        CASE("correlate", np::correlate(a[0], a[1]), np::correlate(a[0], a[1], "same"),
             np::correlate(a[0], a[1], "full")),
        CASE("polyval", np::polyval(a[0], a[1])),
        CASE("polyadd", np::polyadd(a[0], a[1])),
        CASE("polymul", np::polymul(a[0], a[1])),
        CASE("vander", np::vander(a[0]), np::vander(a[0], {.n = 3}), np::vander(a[0], {.n = 5, .increasing = true})),
        CASE("windows", np::bartlett(6), np::blackman(7), np::hamming(6), np::hanning(5), np::hanning(1)),
    });
const RegisterCases products(
    "sequences",
    {
        CASE("kron", np::kron(a[0], a[1])),
        CASE("cross", np::cross(a[0], a[1])),
        CASE("cross_axis", np::cross(a[0], a[1], {.axis = 0})),
        CASE("trace", np::trace(a[0]), np::trace(a[0], 1), np::trace(a[0], -1, {.axis1 = 1, .axis2 = 0})),
        CASE("trace_int8", np::trace(a[0], 0, {.dtype = DType::int8})),
        CASE("cov", np::cov(a[0]), np::cov(a[0], {.bias = true}), np::cov(a[0], {.rowvar = false, .ddof = 2})),
        CASE("cov_y", np::cov(a[0], {.y = a[1]})),
        CASE("cov_weights", np::cov(a[0], {.fweights = a[1], .aweights = a[2]})),
        CASE("corrcoef", np::corrcoef(a[0])),
        CASE("matmul", np::matmul(a[0], a[1])),
        CASE("dot", np::dot(a[0], a[1])),
        CASE("vdot", np::vdot(a[0], a[1])),
        CASE("inner", np::inner(a[0], a[1])),
        CASE("outer", np::outer(a[0], a[1])),
        CASE("tensordot", np::tensordot(a[0], a[1], 1)),
        CASE("tensordot_axes", np::tensordot(a[0], a[1], {{0, 2}, {1, 0}})),
        CASE("einsum_attention", np::einsum("bqd,bkd->bqk", {a[0], a[1]})),
        CASE("einsum_implicit", np::einsum("ij,jk", {a[0], a[1]})),
        CASE("einsum_diagonal", np::einsum("ii->i", {a[0]}), np::einsum("ii", {a[0]})),
        CASE("einsum_dots", np::einsum("...ij,jk->...ik", {a[0], a[1]})),
        CASE("einsum_three", np::einsum("ij,jk,kl->il", {a[0], a[1], a[2]})),
    });
const RegisterCases index_tricks(
    "sequences",
    {
        MANY("triu_indices", list(np::triu_indices(4, 1))),
        MANY("tril_indices", list(np::tril_indices(3, -1, 5))),
        MANY("diag_indices", np::diag_indices(3, 3)),
        MANY("ix_", np::ix_(a)),
        CASE("indices", np::indices({2, 3}), np::indices({3}, {.dtype = DType::float32})),
        MANY("unravel_index", np::unravel_index(a[0], {3, 4})),
        CASE("ravel_multi_index", np::ravel_multi_index(a, {3, 4})),
        CASE("ravel_multi_index_wrap", np::ravel_multi_index(a, {3, 4}, "wrap")),
        CASE("select", np::select({a[0] > 1, a[0] > 0}, {a[0], 2 * a[0]}, -1)),
        CASE("compress", np::compress(a[0], a[1], {.axis = 0, .size = 2})),
        CASE("compress_fill", np::compress(a[0], a[1], {.axis = 1, .size = 4, .fill_value = 9})),
        CASE("compress_all", np::compress(a[0], a[1])),
        CASE("extract", np::extract(a[0], a[1], {.size = 5})),
        CASE("put", np::put(a[0], a[1], a[2]), np::put(a[0], a[1], a[2], {.mode = "clip"}),
             np::put(a[0], a[1], a[2], {.mode = "wrap"})),
        CASE("put_along_axis", np::put_along_axis(a[0], a[1], a[2], 1)),
        CASE("fill_diagonal", np::fill_diagonal(a[0], a[1])),
        CASE("apply_along_axis", np::apply_along_axis([](const Array& x) { return np::cumsum(x) * x[0]; }, 1, a[0])),
        CASE("apply_over_axes",
             np::apply_over_axes([](const Array& x, int axis) { return np::sum(x, axis); }, a[0], {0, 2})),
        MANY("nonzero", np::nonzero(a[0])),
        MANY("nonzero_5", np::nonzero(a[0], {.size = 5})),
        MANY("nonzero_fill", np::nonzero(a[0], {.size = 14, .fill_value = -1})),
        MANY("where_5", np::where(a[0], {.size = 5})),
        CASE("flatnonzero", np::flatnonzero(a[0])),
        CASE("flatnonzero_5", np::flatnonzero(a[0], {.size = 5})),
        CASE("argwhere", np::argwhere(a[0])),
        CASE("argwhere_5", np::argwhere(a[0], {.size = 5})),
    });
const RegisterCases shapes("sequences",
                           {
                               CASE("reshape", np::reshape(a[0], {2, -1})),
                               CASE("expand_dims", np::expand_dims(a[0], {0, -1})),
                               CASE("matrix_transpose", np::matrix_transpose(a[0])),
                               MANY("broadcast_arrays", np::broadcast_arrays({a[0], a[1]})),
                               CASE("append", np::append(a[0], a[1]), np::append(a[0], a[1], 0)),
                               MANY("unstack", np::unstack(a[0], 1)),
                               MANY("hsplit", np::hsplit(a[0], 2)),
                               MANY("vsplit", np::vsplit(a[0], {1, 2})),
                               MANY("dsplit", np::dsplit(a[0], 2)),
                               CASE("diagflat", np::diagflat(a[0], 1)),
                               CASE("empties", np::empty({2}) * 0, np::empty_like(a[0]) * 0),
                               // Other names of functions whose cases are elsewhere.
                               CASE("aliases_1", np::abs(a[0]), np::acos(a[0]), np::acosh(2 + a[0]), np::asin(a[0]),
                                    np::asinh(a[0]), np::atan(a[0]), np::atanh(a[0]), np::conj(a[0]), np::degrees(a[0]),
                                    np::radians(a[0]), np::fix(3 * a[0]), np::amax(a[0], 0), np::amin(a[0], 1)),
                               CASE("aliases_2", np::atan2(a[0], a[1]), np::divide(a[0], a[1]), np::mod(a[0], a[1]),
                                    np::pow(a[0], a[1])),
                               CASE("aliases_int", np::invert(a[0]), np::bitwise_invert(a[0])),
                           });

}  // namespace
}  // namespace lockstep::oracle

// The functions that structural_test.py calls by name. A request on stdin: a line "NAME COUNT", then COUNT arrays, then
// the same inputs stacked along a new first axis. The answer: "ok", the jaxpr (a line with its length, then the text),
// then four lists of arrays: results of the compiled jaxpr, of evaluating step by step, gradients by the inexact inputs
// of the sum of the results weighted by 1, 2, 3, 1, 2, ..., and results under vmap. Or "error", and the message.
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "lockstep/api/eval.h"
#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/gather.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/structural.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/transforms/autodiff.h"
#include "lockstep/transforms/batching.h"

using namespace lockstep;
namespace np = lockstep::numpy;
using In = std::span<const Array>;

const std::map<std::string, std::function<Arrays(In)>>& cases() {
  static const std::map<std::string, std::function<Arrays(In)>> all{
#define CASE(name, ...)                                \
  {                                                    \
#name, [](In in) -> Arrays { return __VA_ARGS__; } \
  }
#define X in[0]
      // indexing: static
      CASE(index_int, {X[0]}),
      CASE(index_negative, {X[{-1, -2}]}),
      CASE(index_slices, {X[{slice(1, 3), slice(0, -1)}]}),
      CASE(index_strides, {X[{slice(none, none, 2), slice(3, none, -2)}]}),
      CASE(index_reverse, {X[{slice(none, none, -1)}]}),
      CASE(index_reverse_steps, {X[{slice(none, none, -2), slice(1, end), slice(-1, none)}]}),
      CASE(index_dots, {X[{dots, newaxis, 0}]}),
      CASE(index_newaxes, {X[{newaxis, slice(), newaxis, 1, newaxis}]}),
      CASE(index_all, {X[slice()]}),
      CASE(index_empty, {X[{slice(3, 1)}]}),
      CASE(index_beyond, {X[{slice(2, 100), slice(-100, 2)}]}),
      CASE(index_stop, {X[{slice(2), slice(-1)}]}),
      CASE(index_out_of_bounds, {X[10]}),
      // indexing: scalars
      CASE(index_traced, {X[in[1]]}),
      CASE(index_traced_mixed, {X[{slice(1, 3), in[1]}]}),
      CASE(index_traced_reverse, {X[{in[1], slice(none, none, -1)}]}),
      CASE(index_traced_stride, {X[{slice(none, none, 2), in[1]}]}),
      CASE(index_traced_static, {X[{in[1], 0, dots}]}),
      CASE(index_traced_newaxis, {X[{newaxis, in[1], newaxis}]}),
      CASE(index_traced_all, {X[{in[1], in[1], in[1]}]}),
      CASE(index_traced_narrow, {X[{dots, in[1]}]}),
      // indexing: arrays
      CASE(index_array, {X[in[1]]}),
      CASE(index_array_int, {X[{in[1], 0}]}),
      CASE(index_array_second, {X[{slice(), in[1]}]}),
      CASE(index_arrays_apart, {X[{in[1], slice(), in[2]}]}),
      CASE(index_arrays_after_slice, {X[{slice(1, 3), in[1], in[2]}]}),
      CASE(index_array_reverse, {X[{in[1], newaxis, slice(none, none, -1)}]}),
      CASE(index_arrays_broadcast, {X[{in[1][{slice(), newaxis}], in[2]}]}),
      CASE(index_array_dots, {X[{dots, in[1]}]}),
      CASE(index_array_unsigned, {X[in[1]]}),
      CASE(get_fill, {X.at(in[1]).get({.mode = "fill", .fill_value = 7})}),
      CASE(get_fill_default, {X.at(in[1]).get({.mode = "fill"})}),
      CASE(get_clip, {X.at(in[1]).get({.mode = "clip"})}),
      CASE(get_no_wrap, {X.at(in[1]).get({.mode = "fill", .fill_value = -1, .wrap_negative_indices = false})}),
      // updates
      CASE(set_int, {X.at(0).set(1.0)}),
      CASE(set_out_of_bounds, {X.at(10).set(1.0)}),
      CASE(set_slice, {X.at({slice(1, 3)}).set(in[1])}),
      CASE(add_slice, {X.at({slice(1, 3)}).add(in[1])}),
      CASE(add_strided, {X.at({slice(none, none, -2), 1}).add(1.5)}),
      CASE(set_array, {X.at(in[1]).set(2)}),
      CASE(set_array_values, {X.at(in[1]).set(in[2])}),
      CASE(add_array_values, {X.at(in[1]).add(in[2])}),
      CASE(subtract_array_values, {X.at(in[1]).subtract(in[2])}),
      CASE(multiply_numbers, {X.at({in[1], in[1]}).multiply(2)}),
      CASE(multiply_values, {X.at(in[1]).multiply(in[2], {.unique_indices = true})}),
      CASE(divide_values, {X.at(in[1]).divide(in[2], {.unique_indices = true})}),
      CASE(power_values, {X.at(in[1]).power(in[2], {.unique_indices = true})}),
      CASE(min_values, {X.at(in[1]).min(in[2])}),
      CASE(max_values, {X.at(in[1]).max(in[2])}),
      CASE(min_newaxis, {X.at({in[1], newaxis}).min(0.5)}),
      CASE(set_clip, {X.at(in[1]).set(in[2], {.mode = "clip"})}),
      CASE(set_unique, {X.at(in[1]).set(in[2], {.unique_indices = true})}),
      CASE(set_float_in_ints, {X.at(0).set(2.5)}),
      // lax
      CASE(lax_broadcast, {lax::broadcast_in_dim(X, {3, 2, 4}, {0, 2})}),
      CASE(lax_reshape, {lax::reshape(X, {4, 3})}),
      CASE(lax_reshape_order, {lax::reshape(X, {12}, Ints{1, 0})}),
      CASE(lax_transpose, {lax::transpose(X, {2, 0, 1})}),
      CASE(lax_squeeze, {lax::squeeze(X, {0, -1})}),
      CASE(lax_expand_dims, {lax::expand_dims(X, {0, 2})}),
      CASE(lax_concatenate, {lax::concatenate({X, in[1], X}, 1)}),
      CASE(lax_stack, {lax::stack({X, in[1]}, 1)}),
      CASE(lax_unstack, lax::unstack(X, 1)),
      CASE(lax_split, lax::split(X, {1, 3}, 1)),
      CASE(lax_tile, {lax::tile(X, {2, 3})}),
      CASE(lax_pad, {lax::pad(X, 0.5, {{1, 2, 0}, {-1, 0, 1}})}),
      CASE(lax_pad_traced, {lax::pad(X, in[1], {{1, 2, 0}, {-1, 0, 1}})}),
      CASE(lax_rev, {lax::rev(X, {1})}),
      CASE(lax_slice, {lax::slice(X, {1, 0}, {3, 4}, Ints{1, 3})}),
      CASE(lax_slice_in_dim, {lax::slice_in_dim(X, 1, -1, 2, 1)}),
      CASE(lax_index_in_dim, {lax::index_in_dim(X, -1, 1, false)}),
      CASE(lax_dynamic_slice, {lax::dynamic_slice(X, {in[1], 1}, {2, 2})}),
      CASE(lax_dynamic_slice_in_dim, {lax::dynamic_slice_in_dim(X, in[1], 2, 1)}),
      CASE(lax_dynamic_index_in_dim, {lax::dynamic_index_in_dim(X, in[1], 0, false)}),
      CASE(lax_dynamic_update_slice, {lax::dynamic_update_slice(X, in[1], {in[2], 1})}),
      CASE(lax_dynamic_update_index_in_dim, {lax::dynamic_update_index_in_dim(X, in[1], in[2], 1)}),
      CASE(lax_gather, {lax::gather(X, in[1], {.offset_dims = {1}, .collapsed_slice_dims = {0}, .start_index_map = {0}},
                                    {1, 4}, {.mode = lax::GatherScatterMode::clip})}),
      CASE(lax_scatter_mul,
           {lax::scatter_mul(
               X, in[1], in[2],
               {.update_window_dims = {1}, .inserted_window_dims = {0}, .scatter_dims_to_operand_dims = {0}},
               {.unique_indices = true})}),
      // numpy
      CASE(np_ravel, {np::ravel(X)}),
      CASE(np_squeeze, {np::squeeze(X)}),
      CASE(np_moveaxis, {np::moveaxis(X, {0, 1}, {-1, 0})}),
      CASE(np_swapaxes, {np::swapaxes(X, 0, -1)}),
      CASE(np_transpose, {X.T(), np::transpose(X, {1, 2, 0})}),
      CASE(np_flip, {np::flip(X), np::flip(X, 1), np::flip(X, {0, -1}), np::fliplr(X), np::flipud(X)}),
      CASE(np_rot90, {np::rot90(X), np::rot90(X, 2), np::rot90(X, -1, {1, 2})}),
      CASE(np_roll, {np::roll(X, 1), np::roll(X, -2, 1), np::roll(X, {1, 2}, {0, 1})}),
      CASE(np_roll_traced, {np::roll(X, in[1], 1)}),
      CASE(np_concatenate, {np::concatenate({X, in[1]}, 1), np::concatenate({X, in[1]}, none)}),
      CASE(np_stack, {np::stack({X, in[1]}, -1)}),
      CASE(np_stacks, {np::vstack({X, X}), np::hstack({X, X}), np::dstack({X, X}), np::column_stack({X, X})}),
      CASE(np_split, np::split(X, 2, 1)),
      CASE(np_split_places, np::split(X, {1, 3}, 1)),
      CASE(np_array_split, np::array_split(X, 3, 1)),
      CASE(np_repeat, {np::repeat(X, 2), np::repeat(X, 2, 0), np::repeat(X, {1, 0, 2}, 0)}),
      CASE(np_tile, {np::tile(X, 2), np::tile(X, {2, 1, 2})}),
      CASE(np_pad_constant, {np::pad(X, 1, "constant", {.constant_values = 3})}),
      CASE(np_pad_edge, {np::pad(X, {{1, 2}, {0, 3}}, "edge")}),
      CASE(np_pad_reflect, {np::pad(X, {{1, 5}, {3, 4}}, "reflect"), np::pad(X, 2, "symmetric")}),
      CASE(np_pad_odd, {np::pad(X, 4, "reflect", {.reflect_odd = true})}),
      CASE(np_pad_wrap, {np::pad(X, {5, 4}, "wrap")}),
      CASE(np_triangles, {np::tril(X), np::triu(X, 1), np::tril(X, -1), np::tri(3, 4, 1)}),
      CASE(np_diagonal, {np::diagonal(X), np::diagonal(X, 1), np::diagonal(X, -1, 1, 0)}),
      CASE(np_diag, {np::diag(X), np::diag(X, 1), np::diag(X, -2)}),
      CASE(np_meshgrid, np::meshgrid({X, in[1]})),
      CASE(np_meshgrid_sparse, np::meshgrid({X, in[1]}, {.sparse = true, .indexing = "ij"})),
      CASE(np_where, {np::where(lax::gt(X, 0), X, in[1])}),
      CASE(np_where_scalar, {np::where(lax::gt(X[{0, 0}], 0), X, 1)}),
      CASE(np_take, {np::take(X, in[1], 1), np::take(X, in[1]), np::take(X, in[1], 0, {.mode = "clip"}),
                     np::take(X, in[1], 1, {.mode = "wrap"})}),
      CASE(np_take_along_axis, {np::take_along_axis(X, in[1], 1)}),
      CASE(np_take_along_axis_clip, {np::take_along_axis(X, in[1], 0, {.mode = "clip"})}),
      CASE(np_atleast, {np::atleast_1d(X), np::atleast_2d(X), np::atleast_3d(X)}),
      CASE(np_broadcast, {np::broadcast_to(X, {2, 3, 4})}),
#undef X
#undef CASE
  };
  return all;
}

Array read_array() {
  std::string line, dtype;
  std::getline(std::cin, line);
  std::istringstream words(line);
  words >> dtype;
  Shape shape;
  for (std::int64_t d; words >> d;) shape.push_back(d);
  AvalP aval = make_aval(shape, dtype_from_name(dtype));
  std::string bytes(aval->bytes(), '\0');
  std::cin.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return Array(runtime::make_concrete(aval, {.data = bytes.data()}));
}
void write_arrays(std::string& to, In arrays) {
  to += std::to_string(arrays.size()) + "\n";
  for (const Array& a : arrays) {
    to += std::string(name(a.dtype()));
    for (auto d : a.shape()) to += " " + std::to_string(d);
    to += "\n";
    if (a.value()->kind() == Value::Kind::scalar) {
      std::string bytes(itemsize(a.dtype()), '\0');
      a.item_scalar().write(bytes.data());
      to += bytes;
    } else {
      auto host = runtime::to_host(*runtime::as_concrete(a.value()));
      to.append(reinterpret_cast<const char*>(host.data()), host.bytes().size());
    }
  }
}
// 1, 2, 3, 1, 2, ... of the aval.
Array weights(AvalP aval) {
  std::string bytes(aval->bytes(), '\0');
  for (std::int64_t i = 0; i < aval->size(); ++i)
    Scalar(i % 3 + 1, DType::int32)
        .cast(aval->dtype)
        .write(bytes.data() + i * static_cast<std::int64_t>(itemsize(aval->dtype)));
  return Array(runtime::make_concrete(aval, {.data = bytes.data()}));
}

std::string answer(const std::function<Arrays(In)>& f, const Arrays& in, const Arrays& stacked) {
  std::string out = "ok\n";
  AvalList avals;
  std::vector<bool> active;
  for (const Array& a : in) avals.push_back(a.aval()), active.push_back(is_inexact(a.dtype()));
  ClosedJaxpr j = trace_to_jaxpr(f, avals, "case");
  check_jaxpr(*j);
  std::string text = to_string(j);
  out += std::to_string(text.size()) + "\n" + text;
  write_arrays(out, run_jaxpr(j, in, "case"));
  Arrays eager = f(in);
  write_arrays(out, eager);

  Linearized linear = linearize_flat(f, in, active, "case");
  Arrays cotangents;
  for (const Array& y : linear.outs) cotangents.push_back(is_inexact(y.dtype()) ? weights(y.aval()) : Array());
  for (std::size_t i = 0; i < cotangents.size(); ++i)
    if (!linear.nonzero_out[i]) cotangents[i] = Array();
  Arrays gradients = backward_pass(linear.linear, select_nonnull(cotangents));
  std::size_t next = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!active[i]) continue;
    gradients[next] = instantiate_zeros(gradients[next], in[i].aval());
    if (gradients[next].value()->kind() == Value::Kind::scalar) gradients[next] = lax::reshape(gradients[next], {});
    ++next;
  }
  write_arrays(out, gradients);

  std::vector<int> dims(in.size(), 0);
  BatchOut batched = batch_flat(f, stacked, dims, stacked[0].shape()[0], "", "case");
  for (std::size_t i = 0; i < batched.outs.size(); ++i)
    batched.outs[i] = batch_axis_at_front(batched.outs[i], batched.dims[i], stacked[0].shape()[0]);
  write_arrays(out, batched.outs);
  return out;
}

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string name;
    int count;
    words >> name >> count;
    Arrays in, stacked;
    for (int i = 0; i < count; ++i) in.push_back(read_array());
    for (int i = 0; i < count; ++i) stacked.push_back(read_array());
    std::string reply;
    try {
      reply = answer(cases().at(name), in, stacked);
    } catch (const std::exception& e) {
      reply = std::string("error\n") + std::to_string(std::string(e.what()).size()) + "\n" + e.what();
    }
    std::cout << reply << std::flush;
  }
}

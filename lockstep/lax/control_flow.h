// scan, while_loop, fori_loop, cond, switch_, map on functions of trees. Names and rules are jax.lax's.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "lockstep/api/function.h"
#include "lockstep/api/jit.h"
#include "lockstep/transforms/control_flow.h"

namespace lockstep::lax {

namespace internal {
using namespace ::lockstep::internal;

// A carry as the body's parameter declares it: a number becomes an Array.
template <class F, std::size_t I, class Given>
struct CarryType {
  static constexpr auto pick() {
    if constexpr (FunctionTraits<F>::known)
      return std::type_identity<
          typename DeclaredParameter<std::tuple_element_t<I, typename FunctionTraits<F>::Parameters>>::type>();
    else
      return std::type_identity<typename Held<Given>::type>();
  }
  using type = typename decltype(pick())::type;
};
std::vector<std::string> leaf_names(const std::string& what, std::size_t n);
std::int64_t scan_length(std::span<const Array> xs, std::int64_t given);
// The number of the branch as int32, or Error: not a scalar integer.
Array branch_index(const Array& index);
Array predicate_index(const Array& pred);
void check_carry_structure(const char* operation, bool same);
Array loop_index(const Array& bound);  // strongly typed, int32 (int64 with x64) for numbers
Array increment(const Array& i);
Array less(const Array& a, const Array& b);
}  // namespace internal

struct ScanOptions {
  OptionsTag tag{};
  std::int64_t length = -1;  // needed if there are no xs
  bool reverse = false;
  std::int64_t unroll = 1;
};
// f(carry, x) -> {carry, y}, over the leading axis of xs (a tree of arrays, or none). Returns {final carry, ys
// stacked}. The body is traced once; the carry must keep its types. Differentiable in both modes.
template <class F, class Carry, class Xs = none_t>
auto scan(F f, const Carry& init, const Xs& xs = {}, ScanOptions options = {},
          std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  using C = typename internal::CarryType<F, 0, Carry>::type;
  using X = typename internal::CarryType<F, 1, Xs>::type;
  using R = internal::Result<F, std::tuple<C, X>>;
  static_assert(tree::internal::IsTuple<R>::value && std::tuple_size_v<R> == 2, "scan: the body returns {carry, y}");
  using Y = std::tuple_element_t<1, R>;
  C carry = internal::hold<C>(init);
  X prototype = internal::hold<X>(xs);
  Arrays init_leaves = tree::leaves(carry), x_leaves = tree::leaves(prototype);
  std::int64_t length = internal::scan_length(x_leaves, options.length);
  std::optional<R> skeleton;
  auto out = bind_scan(
      [&](std::span<const Array> a) {
        C c = internal::fill(carry, a.first(init_leaves.size()));
        X x = internal::fill(prototype, a.subspan(init_leaves.size()));
        R r = internal::call_user(f, std::tuple<const C&, const X&>(c, x));
        internal::check_carry_structure("scan", tree::signature(std::get<0>(r)) == tree::signature(carry));
        Arrays flat = tree::leaves(r);
        skeleton = std::move(r);
        return flat;
      },
      init_leaves, x_leaves, length, options.reverse, options.unroll,
      internal::leaf_names("carry", init_leaves.size()));
  return std::pair<C, Y>{internal::fill(carry, out.carry), internal::fill(std::get<1>(*skeleton), out.ys)};
}

// body(carry) -> carry, as long as cond(carry) -> bool scalar holds. Forward-mode differentiable.
template <class Cond, class Body, class Carry>
auto while_loop(Cond cond, Body body, const Carry& init, std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  using C = typename internal::CarryType<Body, 0, Carry>::type;
  C carry = internal::hold<C>(init);
  Arrays leaves = tree::leaves(carry);
  Arrays out = bind_while(
      [&](std::span<const Array> a) {
        return Arrays{internal::call_user(cond, std::tuple<C>(internal::fill(carry, a)))};
      },
      [&](std::span<const Array> a) {
        C r = internal::call_user(body, std::tuple<C>(internal::fill(carry, a)));
        internal::check_carry_structure("while_loop", tree::signature(r) == tree::signature(carry));
        return tree::leaves(r);
      },
      leaves, internal::leaf_names("carry", leaves.size()));
  return internal::fill(carry, out);
}

// body(i, carry) -> carry for i in [lower, upper). Bounds that are C++ integers make a scan, differentiable in both
// modes; traced bounds a while loop.
template <class Body, class Carry>
auto fori_loop(const Array& lower, const Array& upper, Body body, const Carry& init,
               std::source_location where = std::source_location::current());

// true_fun(operands...) where pred holds, else false_fun(operands...). Both are traced; only one runs.
template <class T, class F, class... Operands>
auto cond(const Operand& pred, T true_fun, F false_fun, const Operands&... operands) {
  LocationScope scope(pred.where);
  using Tuple = internal::HeldArgs<T, Operands...>;
  using R = internal::Result<T, Tuple>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(operands)...);
    std::optional<R> first, second;
    Arrays outs = bind_cond(internal::predicate_index(pred.array),
                            {internal::flat_function<F, Tuple, R>(false_fun, held, second),
                             internal::flat_function<T, Tuple, R>(true_fun, held, first)},
                            tree::leaves(held), "cond");
    if (tree::signature(*first) != tree::signature(*second))
      throw_error(ErrorCode::tree, "cond", "the branches return different structures");
    return internal::fill(*first, outs);
  }
  (std::index_sequence_for<Operands...>());
}

// branches[index](operands...); the index is clamped to the branches. `switch` is a keyword.
template <class F, class... Operands>
auto switch_(const Operand& index, const std::vector<F>& branches, const Operands&... operands) {
  LocationScope scope(index.where);
  using Tuple = internal::HeldArgs<F, Operands...>;
  using R = internal::Result<F, Tuple>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(operands)...);
    if (branches.empty()) throw_error(ErrorCode::invalid_argument, "switch_", "there are no branches");
    std::vector<std::optional<R>> skeletons(branches.size());
    std::vector<FlatFunction> flat;
    for (std::size_t k = 0; k < branches.size(); ++k)
      flat.push_back(internal::flat_function<F, Tuple, R>(branches[k], held, skeletons[k]));
    Arrays outs = bind_cond(internal::branch_index(index.array), flat, tree::leaves(held), "switch_");
    return internal::fill(*skeletons[0], outs);
  }
  (std::index_sequence_for<Operands...>());
}
// Branches of different types, as a tuple.
template <class... F, class... Operands>
auto switch_(const Operand& index, const std::tuple<F...>& branches, const Operands&... operands) {
  using First = std::tuple_element_t<0, std::tuple<F...>>;
  using Tuple = internal::HeldArgs<First, Operands...>;
  using R = internal::Result<First, Tuple>;
  return [&]<class... P>(std::type_identity<std::tuple<P...>>) {
    std::vector<std::function<R(P...)>> list;
    std::apply([&](const auto&... f) { (list.emplace_back(f), ...); }, branches);
    return switch_(index, list, operands...);
  }(std::type_identity<Tuple>());
}

// f on every slice of the leading axis, one after the other: vmap in less memory.
template <class F, class Xs>
auto map(F f, const Xs& xs, std::source_location where = std::source_location::current()) {
  return scan([f](none_t, const Xs& x) { return std::pair{none, f(x)}; }, none, xs, {}, where).second;
}

template <class Body, class Carry>
auto fori_loop(const Array& lower, const Array& upper, Body body, const Carry& init, std::source_location where) {
  LocationScope scope(where);
  using C = typename internal::CarryType<Body, 1, Carry>::type;
  C carry = internal::hold<C>(init);
  bool fixed = lower.value()->kind() == Value::Kind::scalar && upper.value()->kind() == Value::Kind::scalar;
  if (fixed) {
    std::int64_t begin = lower.item_scalar().as_int(), end = upper.item_scalar().as_int();
    std::int64_t n = end > begin ? end - begin : 0;
    auto out = scan(
        [&](std::tuple<Array, C> state, none_t) {
          auto& [i, c] = state;
          C next = body(i, c);
          return std::pair{std::tuple<Array, C>{internal::increment(i), next}, none};
        },
        std::tuple<Array, C>{internal::loop_index(lower), carry}, none, {.length = n}, where);
    return std::get<1>(out.first);
  }
  auto out = while_loop(
      [](std::tuple<Array, Array, C> state) { return internal::less(std::get<0>(state), std::get<1>(state)); },
      [&](std::tuple<Array, Array, C> state) {
        auto& [i, end, c] = state;
        C next = body(i, c);
        return std::tuple<Array, Array, C>{internal::increment(i), end, next};
      },
      std::tuple<Array, Array, C>{internal::loop_index(lower), internal::loop_index(upper), carry}, where);
  return std::get<2>(out);
}

}  // namespace lockstep::lax

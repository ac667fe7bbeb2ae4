// What a user's function takes and returns, and turning it into a function of flat arrays.
//
// The parameter's type says what is traced: trees of Array are, a number passed for a parameter declared Array (or
// auto) is lifted to a weakly typed scalar; static types (int, double, enum, string) are part of the signature.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>

#include "lockstep/api/tree.h"

namespace lockstep::internal {

template <class T>
struct Signature {
  static constexpr bool known = false;
};
template <class R, class... A>
struct Signature<R (*)(A...)> {
  static constexpr bool known = true;
  using Parameters = std::tuple<A...>;
};
template <class R, class... A>
struct Signature<R (*)(A...) noexcept> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const noexcept> : Signature<R (*)(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R (*)(A...)> {
  static_assert(sizeof(C) == 0,
                "a function that changes its own state (a mutable lambda) can't be transformed: it would run "
                "once, when traced. Pass the state in and return it");
};

template <class F, class = void>
struct FunctionTraits : Signature<F> {};
template <class F>
struct FunctionTraits<F, std::void_t<decltype(&F::operator())>> : Signature<decltype(&F::operator())> {};
// A function object that says itself what it takes (Jitted<F> and the like).
template <class F>
requires requires { typename F::TracedFunction; }
struct FunctionTraits<F, void> : FunctionTraits<typename F::TracedFunction> {};

// How an argument of type A is held when nothing is declared (auto, overloaded or defaulted parameters).
template <class A>
struct Held {
  using type = std::conditional_t<std::is_arithmetic_v<A>, Array, A>;
};
template <>
struct Held<Operand> {
  using type = Array;
};
template <>
struct Held<const char*> {
  using type = std::string;
};
template <std::size_t N>
struct Held<char[N]> {
  using type = std::string;
};

template <class P>
struct DeclaredParameter {
  static_assert(
      !(std::is_lvalue_reference_v<P> && !std::is_const_v<std::remove_reference_t<P>>),
      "a parameter of type T& can't be traced: results are returned, not written to arguments. Take it by value "
      "or const&, and return the new value");
  using Plain = std::remove_cvref_t<P>;
  using type = std::conditional_t<std::is_same_v<Plain, Operand>, Array, Plain>;
};

template <class F, class... A>
struct HeldTuple {
  template <std::size_t I>
  using Given = typename Held<std::remove_cvref_t<std::tuple_element_t<I, std::tuple<A...>>>>::type;
  template <std::size_t I>
  static constexpr auto one() {
    if constexpr (FunctionTraits<F>::known) {
      using Declared = typename FunctionTraits<F>::Parameters;
      if constexpr (std::tuple_size_v<Declared> == sizeof...(A))
        return std::type_identity<typename DeclaredParameter<std::tuple_element_t<I, Declared>>::type>();
      else
        return std::type_identity<Given<I>>();
    } else {
      return std::type_identity<Given<I>>();
    }
  }
  template <std::size_t... I>
  static auto all(std::index_sequence<I...>) -> std::tuple<typename decltype(one<I>())::type...>;
  using type = decltype(all(std::index_sequence_for<A...>()));
};
// The tuple of types in which the arguments of a call are held.
template <class F, class... Args>
using HeldArgs = typename HeldTuple<F, Args...>::type;

template <class F, class Tuple>
struct ResultOf;
template <class F, class... P>
struct ResultOf<F, std::tuple<P...>> {
  static_assert(
      std::is_invocable_v<const F&, P...>,
      "the function can't be called with these arguments (a generic or overloaded function needs arguments of "
      "the types it takes)");
  using type = std::remove_cvref_t<std::invoke_result_t<const F&, P...>>;
  static_assert(!std::is_void_v<type>, "the function returns nothing; return the arrays that it computes");
};
template <class F, class Tuple>
using Result = typename ResultOf<F, Tuple>::type;

// Runs the user's function on a held tuple, as user code.
template <class F, class Tuple>
auto call_user(const F& f, const Tuple& args) {
  UserCode scope;
  return std::apply(f, args);
}

// f over flat leaves: `prototype` gives structure and static values; `result` receives the structure of what f
// returned.
template <class F, class Tuple, class R>
auto flat_function(const F& f, const Tuple& prototype, std::optional<R>& result) {
  return [&f, &prototype, &result](std::span<const Array> leaves) {
    Tuple args = prototype;
    std::size_t i = 0;
    tree::for_each_leaf(args, [&](Array& a) { a = leaves[i++]; });
    R out = call_user(f, args);
    Arrays flat = tree::leaves(out);
    for (auto& a : flat)
      if (!a.has_value())
        throw_error(ErrorCode::invalid_argument, "result", "the function returned an array that was never assigned");
    tree::for_each_leaf(out, [](Array& a) { a = Array(); });
    result = std::move(out);
    return flat;
  };
}
template <class R>
R fill(const R& skeleton, std::span<const Array> leaves) {
  R out = skeleton;
  std::size_t i = 0;
  tree::for_each_leaf(out, [&](Array& a) { a = leaves[i++]; });
  return out;
}

// "argument 0 .w1": the name of every leaf of a held tuple.
template <class Tuple>
std::vector<std::string> argument_names(const Tuple& args) {
  std::vector<std::string> names;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (tree::for_each_leaf_with_path(
         std::get<I>(args),
         [&](const std::string& path, const Array&) { names.push_back("argument " + std::to_string(I) + path); }),
     ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Tuple>>());
  return names;
}
template <class F>
std::string function_name() {
  return "";
}

}  // namespace lockstep::internal

// make_jaxpr and eval_shape: what a function is, without running it.
#pragma once

#include <iosfwd>
#include <string>

#include "lockstep/api/function.h"
#include "lockstep/api/jit.h"

namespace lockstep {

// Shape and dtype of an array that need not exist. jax.ShapeDtypeStruct.
struct ShapeDtypeStruct {
  Shape shape;
  DType dtype = DType::float32;
  bool operator==(const ShapeDtypeStruct&) const = default;
};
inline std::string to_string(const ShapeDtypeStruct& s) { return std::string(name(s.dtype)) + to_string(s.shape); }
std::ostream& operator<<(std::ostream& out, const ClosedJaxpr& j);

namespace internal {
Array placeholder(const ShapeDtypeStruct& s);
template <class P, class A>
decltype(auto) hold_abstract(const A& a) {
  if constexpr (std::is_same_v<A, ShapeDtypeStruct>)
    return placeholder(a);
  else
    return hold<P>(a);
}
template <class A>
struct AbstractAs {
  using type = A;
};
template <>
struct AbstractAs<ShapeDtypeStruct> {
  using type = Array;
};
template <class F, class... Args>
JitTrace trace_abstract(const F& f, const Args&... args) {
  using Tuple = HeldArgs<F, typename AbstractAs<Args>::type...>;
  using R = Result<F, Tuple>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Tuple held(hold_abstract<std::tuple_element_t<I, Tuple>>(args)...);
    AvalList avals;
    for (auto& a : tree::leaves(held)) avals.push_back(a.aval());
    return trace_user<R>(f, held, avals, "");
  }
  (std::index_sequence_for<Args...>());
}
// What f would return, with arrays that have avals only: for tracing further, never for running.
template <class R, class F, class... Args>
R abstract(const F& f, const Args&... args) {
  auto trace = trace_abstract(f, args...);
  Arrays leaves;
  for (AvalP a : trace.jaxpr->out_avals()) leaves.push_back(placeholder({a->shape, a->dtype}));
  return fill(*static_cast<const R*>(trace.skeleton.get()), leaves);
}
}  // namespace internal

// The jaxpr of f at these arguments (arrays, numbers, trees, or ShapeDtypeStructs for single arrays).
template <class F>
auto make_jaxpr(F f) {
  return [f = std::move(f)](const auto&... args) { return internal::trace_abstract(f, args...).jaxpr; };
}

// The shapes and dtypes that f would return: one for each array of the result, with its path. Nothing is computed.
template <class F, class... Args>
auto eval_shape(const F& f, const Args&... args) {
  using Tuple = internal::HeldArgs<F, typename internal::AbstractAs<Args>::type...>;
  using R = internal::Result<F, Tuple>;
  auto trace = internal::trace_abstract(f, args...);
  AvalList avals = trace.jaxpr->out_avals();
  if constexpr (std::is_same_v<R, Array>) {
    return ShapeDtypeStruct{avals[0]->shape, avals[0]->dtype};
  } else {
    tree::Tree<ShapeDtypeStruct> out;
    for (AvalP a : avals) out.leaves.push_back({a->shape, a->dtype});
    tree::for_each_leaf_with_path(*static_cast<const R*>(trace.skeleton.get()),
                                  [&](const std::string& path, const Array&) { out.paths.push_back(path); });
    return out;
  }
}

}  // namespace lockstep

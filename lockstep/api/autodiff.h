// grad, value_and_grad, vjp, jvp, linearize on functions of trees. Names and rules are JAX's; differences: the
// arguments to differentiate are template arguments (grad<0, 2>(f)), and has_aux is deduced: f may return a tuple whose
// first element is the value to differentiate, and value_and_grad gives {what f returned, gradients}.
#pragma once

#include <source_location>
#include <tuple>
#include <utility>

#include "lockstep/api/function.h"
#include "lockstep/api/jit.h"
#include "lockstep/core/basic_ops.h"
#include "lockstep/transforms/autodiff.h"

namespace lockstep {
namespace internal {

// Throws unless the result of a function whose gradient is wanted is one real scalar.
void check_scalar_loss(const std::string& operation, const Array& value);
// Throws unless a leaf can be differentiated (inexact dtype).
void check_differentiable(const std::string& operation, const Array& leaf, const std::string& name);
// Throws unless tangents fit their primals in shape and dtype.
void check_tangents(std::span<const Array> primals, std::span<const Array> tangents);
// The gradients' leaves, zeros instantiated: the cotangent of `linearized.outs[0]` is one.
Arrays backward_from_one(const Linearized& linearized, std::span<const Array> active);

template <class R>
const Array& loss_of(const R& result) {
  if constexpr (std::is_same_v<R, Array>) {
    return result;
  } else {
    static_assert(
        tree::internal::IsTuple<R>::value,
        "a function whose gradient is wanted returns the value (one Array), or a tuple or pair of the value and "
        "auxiliary results");
    static_assert(std::is_same_v<std::tuple_element_t<0, R>, Array>,
                  "the first element of the returned tuple is the value to differentiate: it must be an Array");
    return std::get<0>(result);
  }
}

}  // namespace internal

template <class F, std::size_t... Argnums>
class ValueAndGrad {
 public:
  using TracedFunction = F;
  ValueAndGrad(F f, std::source_location where) : f_(std::move(f)), where_(where) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    static_assert(((Argnums < sizeof...(Args)) && ...), "grad: the function has fewer arguments than argnums asks for");
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      LocationScope scope(where_);
      Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      Arrays active;
      auto collect = [&](const auto& arg, std::size_t n) {
        tree::for_each_leaf_with_path(arg, [&](const std::string& path, const Array& a) {
          internal::check_differentiable("grad", a, "argument " + std::to_string(n) + path);
          active.push_back(a);
        });
      };
      (collect(std::get<Argnums>(held), Argnums), ...);
      std::optional<R> result;
      auto linearized = linearize_flat(
          [&](std::span<const Array> leaves) {
            Tuple with = held;
            std::size_t i = 0;
            (tree::for_each_leaf(std::get<Argnums>(with), [&](Array& a) { a = leaves[i++]; }), ...);
            R out = internal::call_user(f_, with);
            internal::check_scalar_loss("grad", internal::loss_of(out));
            Arrays flat = tree::leaves(out);
            result = std::move(out);
            return flat;
          },
          active, std::vector<bool>(active.size(), true), "grad");
      Arrays grads = internal::backward_from_one(linearized, active);
      R value = internal::fill(*result, linearized.outs);
      std::size_t i = 0;
      auto gradient = [&](auto arg) {
        tree::for_each_leaf(arg, [&](Array& a) { a = grads[i++]; });
        return arg;
      };
      if constexpr (sizeof...(Argnums) == 1) {
        return std::pair{std::move(value), gradient(std::get<Argnums>(held))...};
      } else {
        std::tuple all{gradient(std::get<Argnums>(held))...};
        return std::pair{std::move(value), std::move(all)};
      }
    }
    (std::index_sequence_for<Args...>());
  }

 private:
  F f_;
  std::source_location where_;
};

template <class F, std::size_t... Argnums>
class Grad {
 public:
  using TracedFunction = F;
  Grad(F f, std::source_location where) : both_(std::move(f), where) {}
  // The gradients; {gradients, auxiliary results} if f returns some.
  template <class... Args>
  auto operator()(Args&&... args) const {
    auto [value, grads] = both_(std::forward<Args>(args)...);
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Array>) {
      return grads;
    } else if constexpr (std::tuple_size_v<std::remove_cvref_t<decltype(value)>> == 2) {
      return std::pair{std::move(grads), std::get<1>(value)};
    } else {
      return std::apply(
          [&](const auto&, const auto&... aux) {
            return std::pair{std::move(grads), std::tuple{aux...}};
          },
          value);
    }
  }

 private:
  ValueAndGrad<F, Argnums...> both_;
};

namespace internal {
template <class F, std::size_t... A>
struct GradFor {
  using Both = ValueAndGrad<F, A...>;
  using Only = Grad<F, A...>;
};
template <class F>
struct GradFor<F> {
  using Both = ValueAndGrad<F, 0>;
  using Only = Grad<F, 0>;
};
}  // namespace internal

// {what f returned, gradients}: the gradient of one argument, or a tuple of them for several argnums (default: the
// first). Errors: non-scalar or integer results, integer arguments.
template <std::size_t... Argnums, class F>
auto value_and_grad(F f, std::source_location where = std::source_location::current()) {
  return typename internal::GradFor<F, Argnums...>::Both(std::move(f), where);
}
template <std::size_t... Argnums, class F>
auto grad(F f, std::source_location where = std::source_location::current()) {
  return typename internal::GradFor<F, Argnums...>::Only(std::move(f), where);
}

// The result of f at `args` and its pullback: from a cotangent with the structure of the result to a tuple of
// cotangents, one per argument. Leaves of integer dtype have cotangents of zeros of their own dtype.
template <class F, class... Args>
auto vjp(const F& f, const Args&... args) {
  using Tuple = internal::HeldArgs<F, Args...>;
  using R = internal::Result<F, Tuple>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(args)...);
    Arrays leaves = tree::leaves(held);
    std::vector<bool> active;
    for (auto& a : leaves) active.push_back(is_inexact(a.dtype()));
    std::optional<R> skeleton;
    auto linearized = std::make_shared<Linearized>(
        linearize_flat(internal::flat_function<F, Tuple, R>(f, held, skeleton), leaves, active, "vjp"));
    R value = internal::fill(*skeleton, linearized->outs);
    auto pullback = [linearized, held, active](const R& cotangent) -> Tuple {
      Arrays cts = tree::leaves(cotangent), nonzero_cts;
      for (std::size_t i = 0; i < cts.size(); ++i)
        if (linearized->nonzero_out[i]) nonzero_cts.push_back(convert(cts[i], linearized->outs[i].dtype()));
      Arrays got = backward_pass(linearized->linear, nonzero_cts);
      Tuple out = held;
      std::size_t i = 0, next = 0;
      tree::for_each_leaf(
          out, [&](Array& a) { a = active[i++] ? instantiate_zeros(got[next++], a.aval()) : zeros(a.aval()); });
      return out;
    };
    return std::pair{std::move(value), std::move(pullback)};
  }
  (std::index_sequence_for<Args...>());
}

// {f at primals, directional derivative}. `tangents` has the structure of `primals` (tuples of arguments).
template <class F, class... P, class... T>
auto jvp(const F& f, const std::tuple<P...>& primals, const std::tuple<T...>& tangents) {
  using Tuple = internal::HeldArgs<F, P...>;
  using R = internal::Result<F, Tuple>;
  static_assert(sizeof...(P) == sizeof...(T), "jvp: one tangent per primal");
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(std::get<I>(primals))...);
    Tuple directions(internal::hold<std::tuple_element_t<I, Tuple>>(std::get<I>(tangents))...);
    Arrays leaves = tree::leaves(held), ts = tree::leaves(directions);
    internal::check_tangents(leaves, ts);
    std::optional<R> skeleton;
    auto out = jvp_flat(internal::flat_function<F, Tuple, R>(f, held, skeleton), leaves, ts, "jvp");
    for (std::size_t i = 0; i < out.tangents.size(); ++i)
      out.tangents[i] = instantiate_zeros(out.tangents[i], out.primals[i].aval());
    return std::pair{internal::fill(*skeleton, out.primals), internal::fill(*skeleton, out.tangents)};
  }
  (std::index_sequence_for<P...>());
}

// {f at `args`, the linear map from tangents (same structure as the arguments) to the tangent of the result}.
template <class F, class... Args>
auto linearize(const F& f, const Args&... args) {
  using Tuple = internal::HeldArgs<F, Args...>;
  using R = internal::Result<F, Tuple>;
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(args)...);
    Arrays leaves = tree::leaves(held);
    std::vector<bool> active;
    for (auto& a : leaves) active.push_back(is_inexact(a.dtype()));
    std::optional<R> skeleton;
    auto linearized = std::make_shared<Linearized>(
        linearize_flat(internal::flat_function<F, Tuple, R>(f, held, skeleton), leaves, active, "linearize"));
    R value = internal::fill(*skeleton, linearized->outs);
    auto map = [linearized, active, value]<class... T>(const T&... tangents) -> R {
      static_assert(sizeof...(T) == sizeof...(Args), "linearize: one tangent per argument");
      Tuple directions(internal::hold<std::tuple_element_t<I, Tuple>>(tangents)...);
      Arrays ts = tree::leaves(directions), wanted;
      for (std::size_t i = 0; i < ts.size(); ++i)
        if (active[i])
          wanted.push_back(convert(ts[i], linearized->linear->vars[linearized->linear->invars[wanted.size()]]->dtype));
      Arrays got = eval_jaxpr(linearized->linear, wanted), all;
      std::size_t next = 0;
      for (std::size_t i = 0; i < linearized->outs.size(); ++i)
        all.push_back(linearized->nonzero_out[i] ? got[next++] : zeros(linearized->outs[i].aval()));
      return internal::fill(value, all);
    };
    return std::pair{value, std::move(map)};
  }
  (std::index_sequence_for<Args...>());
}

}  // namespace lockstep

// jit: trace once per signature, compile, run. jax.jit.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lockstep/api/function.h"
#include "lockstep/api/jit_core.h"
#include "lockstep/api/shardings.h"
#include "lockstep/api/stages.h"
#include "lockstep/support/config.h"
#include "lockstep/trace/trace.h"

namespace lockstep {

struct JitOptions {
  OptionsTag tag{};
  // Arguments whose buffers may be reused for results. They can't be used again after the call: pass them by std::move.
  std::vector<int> donate_argnums{};
  // One per argument, or one for all; prefixes of trees are allowed. Without: arguments as they are, results as the
  // compiler likes.
  ShardingTree in_shardings{}, out_shardings{};
  bool keep_unused = false;
  std::string name{};  // in jaxprs, profiles and messages
};

namespace internal {

// An argument as the parameter's type P: the argument itself if it has that type, else converted.
template <class P, class A>
decltype(auto) hold(A&& a) {
  if constexpr (std::is_same_v<std::remove_cvref_t<A>, P>)
    return static_cast<const P&>(a);
  else {
    static_assert(std::is_constructible_v<P, A&&>, "an argument does not convert to the parameter's type");
    return P(std::forward<A>(a));
  }
}

template <class Held>
JitCall make_call(const Held& held) {
  JitCall call;
  std::apply(
      [&](const auto&... args) {
        std::size_t n = 0;
        [[maybe_unused]] auto one = [&](const auto& arg) {
          tree::for_each_leaf(arg, [&](const Array& a) {
            if (!a.has_value())
              throw_error(ErrorCode::invalid_argument, "jit", "argument {} holds an array that was never assigned", n);
            call.leaves.push_back(a.value());
          });
          tree::append_signature(arg, call.structure);
          ++n;
        };
        (one(args), ...);
      },
      held);
  return call;
}

// Traces f for the structure of `args`, with inputs of these avals.
template <class R, class F, class Tuple>
JitTrace trace_user(const F& f, const Tuple& args, std::span<const AvalP> avals, const std::string& name) {
  std::optional<R> skeleton;
  JitTrace out;
  out.names = argument_names(args);
  out.jaxpr = trace_to_jaxpr(flat_function<F, Tuple, R>(f, args, skeleton), avals, name, out.names);
  std::apply([&](const auto&... a) { (out.in_groups.push_back(tree::num_leaves(a)), ...); }, args);
  if constexpr (tree::internal::IsTuple<R>::value)
    std::apply([&](const auto&... r) { (out.out_groups.push_back(tree::num_leaves(r)), ...); }, *skeleton);
  else
    out.out_groups.push_back(tree::num_leaves(*skeleton));
  out.skeleton = std::make_shared<const R>(std::move(*skeleton));
  return out;
}

}  // namespace internal

template <class F>
class Jitted {
 public:
  using TracedFunction = F;

  Jitted(F f, JitOptions options, std::source_location where) : f_(std::move(f)), options_(std::move(options)) {
    internal::JitSettings settings;
    settings.name = options_.name.empty() ? "fn" : options_.name;
    settings.donate_argnums = options_.donate_argnums;
    settings.keep_unused = options_.keep_unused;
    settings.where = intern_location(where);
    settings.in_shardings = options_.in_shardings;
    settings.out_shardings = options_.out_shardings;
    core_ = std::make_shared<internal::JitCore>(std::move(settings));
  }

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    return [&]<std::size_t... I>(std::index_sequence<I...>)->R {
      std::tuple<decltype(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args)))...> held(
          internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      if (config::disable_jit()) [[unlikely]]
        return internal::call_user(f_, Tuple(held));
      internal::JitCall call = internal::make_call(held);
      Arrays outs;
      const void* skeleton = core_->call(
          call,
          [&](std::span<const AvalP> avals) {
            return internal::trace_user<R>(f_, Tuple(held), avals, core_->settings().name);
          },
          [&] { return donated_leaves(held); }, outs);
      return internal::fill(*static_cast<const R*>(skeleton), outs);
    }
    (std::index_sequence_for<Args...>());
  }

  // The stages apart: traced and lowered now, compiled by .compile().
  template <class... Args>
  auto lower(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      internal::JitCall call = internal::make_call(held);
      auto trace = core_->trace(call, [&](std::span<const AvalP> avals) {
        return internal::trace_user<R>(f_, held, avals, core_->settings().name);
      });
      return Lowered<R>(internal::CompiledCore(trace, core_, call, donated_leaves(held)));
    }
    (std::index_sequence_for<Args...>());
  }

  // Why this call would compile, or that it would not. Nothing is run.
  template <class... Args>
  std::string explain(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      return core_->explain(internal::make_call(held), internal::argument_names(held));
    }
    (std::index_sequence_for<Args...>());
  }
  // The collectives of the signature compiled last, per launch and device.
  std::vector<CollectiveReport> collectives() const { return core_->collectives(); }
  std::size_t cache_size() const { return core_->cache_size(); }  // compiled signatures
  void clear_cache() const { core_->clear_cache(); }
  const F& function() const { return f_; }

 private:
  template <class Held>
  std::vector<bool> donated_leaves(const Held& held) const {
    std::vector<bool> mask;
    int n = 0;
    std::apply(
        [&](const auto&... args) {
          [[maybe_unused]] auto one = [&](const auto& arg) {
            bool donate = false;
            for (int d : options_.donate_argnums)
              donate = donate || d == n || d + static_cast<int>(sizeof...(args)) == n;
            tree::for_each_leaf(arg, [&](const Array&) { mask.push_back(donate); });
            ++n;
          };
          (one(args), ...);
        },
        held);
    return mask;
  }

  F f_;
  JitOptions options_;
  std::shared_ptr<internal::JitCore> core_;
};

template <class F>
auto jit(F f, JitOptions options = {}, std::source_location where = std::source_location::current()) {
  return Jitted<F>(std::move(f), std::move(options), where);
}

}  // namespace lockstep

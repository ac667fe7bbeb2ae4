// custom_jvp, custom_vjp and checkpoint on functions of trees.
#pragma once

#include <memory>
#include <source_location>
#include <tuple>
#include <utility>

#include "lockstep/api/function.h"
#include "lockstep/api/jit.h"
#include "lockstep/core/basic_ops.h"
#include "lockstep/transforms/call.h"

namespace lockstep {

namespace internal {
// Throws unless a rule's tangents fit its results.
void check_rule_result(const std::string& operation, const JvpOut& out);
}  // namespace internal

// A function with a derivative of one's own. rule(primals, tangents) gets two tuples with the structure of the
// arguments (tangents of integers are zeros) and returns {result, tangent of the result}. jax.custom_jvp.
template <class F, class Rule>
class CustomJvp {
 public:
  using TracedFunction = F;
  CustomJvp(F f, Rule rule, std::string name) : f_(std::move(f)), rule_(std::move(rule)), name_(std::move(name)) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    return [&]<std::size_t... I>(std::index_sequence<I...>)->R {
      auto held = std::make_shared<Tuple>(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      std::optional<R> skeleton;
      auto rule = std::make_shared<FlatJvpRule>(
          [held, rule = rule_](std::span<const Array> primals, std::span<const Array> tangents) {
            Tuple p = internal::fill(*held, primals), t = *held;
            std::size_t i = 0;
            tree::for_each_leaf(t, [&](Array& a) {
              a = tangents[i].has_value() ? tangents[i] : zeros(primals[i].aval());
              ++i;
            });
            std::pair<R, R> out = rule(p, t);
            JvpOut flat{tree::leaves(out.first), tree::leaves(out.second)};
            internal::check_rule_result("custom_jvp", flat);
            return flat;
          });
      Arrays outs =
          bind_custom_jvp(internal::flat_function<F, Tuple, R>(f_, *held, skeleton), rule, tree::leaves(*held), name_);
      return internal::fill(*skeleton, outs);
    }
    (std::index_sequence_for<Args...>());
  }

 private:
  F f_;
  Rule rule_;
  std::string name_;
};

struct CustomRuleOptions {
  OptionsTag tag{};
  std::string name = "fn";
};
template <class F, class Rule>
auto custom_jvp(F f, Rule rule, CustomRuleOptions options = {}) {
  return CustomJvp<F, Rule>(std::move(f), std::move(rule), options.name);
}

// A function with a reverse derivative of one's own. fwd(args...) returns {result, residuals} (residuals: any tree);
// bwd(residuals, cotangent) returns a tuple of cotangents, one per argument (or the one cotangent itself, if there is
// one argument). jax.custom_vjp.
template <class F, class Fwd, class Bwd>
class CustomVjp {
 public:
  using TracedFunction = F;
  CustomVjp(F f, Fwd fwd, Bwd bwd, std::string name)
      : f_(std::move(f)), fwd_(std::move(fwd)), bwd_(std::move(bwd)), name_(std::move(name)) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    using FwdResult = std::remove_cvref_t<decltype(std::apply(fwd_, std::declval<const Tuple&>()))>;
    using Residuals = std::remove_cvref_t<std::tuple_element_t<1, FwdResult>>;
    static_assert(std::is_same_v<std::remove_cvref_t<std::tuple_element_t<0, FwdResult>>, R>,
                  "custom_vjp: fwd returns {result, residuals}, and the result has the type that the function returns");
    return [&]<std::size_t... I>(std::index_sequence<I...>)->R {
      auto held = std::make_shared<Tuple>(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      std::optional<R> skeleton;
      auto residuals = std::make_shared<std::optional<Residuals>>();
      auto result = std::make_shared<std::optional<R>>();
      auto rule = std::make_shared<FlatVjpRule>();
      rule->fwd = [held, residuals, result, fwd = fwd_](std::span<const Array> primals) {
        Tuple p = internal::fill(*held, primals);
        auto out = std::apply(fwd, p);
        *result = std::get<0>(out);
        *residuals = std::get<1>(out);
        return std::pair{tree::leaves(std::get<0>(out)), tree::leaves(std::get<1>(out))};
      };
      rule->bwd = [residuals, result, bwd = bwd_](std::span<const Array> res, std::span<const Array> cts) {
        R ct = **result;
        std::size_t i = 0;
        tree::for_each_leaf(ct, [&](Array& a) {
          a = cts[i].has_value() ? cts[i] : zeros(make_aval({}, DType::bool_));
          ++i;
        });
        auto got = bwd(internal::fill(**residuals, res), ct);
        return tree::leaves(got);
      };
      Arrays outs =
          bind_custom_vjp(internal::flat_function<F, Tuple, R>(f_, *held, skeleton), rule, tree::leaves(*held), name_);
      return internal::fill(*skeleton, outs);
    }
    (std::index_sequence_for<Args...>());
  }

 private:
  F f_;
  Fwd fwd_;
  Bwd bwd_;
  std::string name_;
};
template <class F, class Fwd, class Bwd>
auto custom_vjp(F f, Fwd fwd, Bwd bwd, CustomRuleOptions options = {}) {
  return CustomVjp<F, Fwd, Bwd>(std::move(f), std::move(fwd), std::move(bwd), options.name);
}

struct CheckpointOptions {
  OptionsTag tag{};
  // Keeps the compiler from undoing the recomputation; can be off inside scan, where it can't.
  bool prevent_cse = true;
};
// f, but under reverse mode only its arguments are kept and it is run again on the way back. jax.checkpoint.
template <class F>
class Checkpointed {
 public:
  using TracedFunction = F;
  Checkpointed(F f, CheckpointOptions options) : f_(std::move(f)), options_(options) {}
  template <class... Args>
  auto operator()(Args&&... args) const {
    using Tuple = internal::HeldArgs<F, Args...>;
    using R = internal::Result<F, Tuple>;
    return [&]<std::size_t... I>(std::index_sequence<I...>)->R {
      Tuple held(internal::hold<std::tuple_element_t<I, Tuple>>(std::forward<Args>(args))...);
      std::optional<R> skeleton;
      Arrays outs = bind_checkpoint(internal::flat_function<F, Tuple, R>(f_, held, skeleton), tree::leaves(held),
                                    options_.prevent_cse, "checkpoint");
      return internal::fill(*skeleton, outs);
    }
    (std::index_sequence_for<Args...>());
  }

 private:
  F f_;
  CheckpointOptions options_;
};
template <class F>
auto checkpoint(F f, CheckpointOptions options = {}) {
  return Checkpointed<F>(std::move(f), options);
}

}  // namespace lockstep

// Applies functions of lax to arrays that come on stdin. A request: a line "WHAT FUNCTION COUNT", then COUNT operands:
// a line "DTYPE WEAK DIM..." and the bytes of each. WHAT is "value" (answered with the results in the same form, after
// a line with their number), "jaxpr" or "vjp" (the text of the function, or of its vjp, traced: a line with its length,
// then the text). Failures are answered with "error", a length and the message.
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>

#include "lockstep/api/eval.h"
#include "lockstep/core/basic_ops.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/incomplete.h"
#include "lockstep/ops/random_ops.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/special.h"
#include "lockstep/runtime/concrete.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/autodiff.h"

namespace lockstep {
namespace {

using Function = std::function<Arrays(std::span<const Array>)>;

Function of(Array (*f)(const Operand&)) {
  return [f](std::span<const Array> in) { return Arrays{f(in[0])}; };
}
Function of(Array (*f)(const Operand&, const Operand&)) {
  return [f](std::span<const Array> in) { return Arrays{f(in[0], in[1])}; };
}
template <class F>
Function with(F f) {
  return [f](std::span<const Array> in) { return Arrays{f(in)}; };
}

const std::map<std::string, Function>& functions() {
  using In = std::span<const Array>;
#define ENTRY(name) \
  { #name, of(lax::name) }
  static const std::map<std::string, Function> all = {
      ENTRY(neg),
      ENTRY(sign),
      ENTRY(floor),
      ENTRY(ceil),
      ENTRY(is_finite),
      ENTRY(exp),
      ENTRY(exp2),
      ENTRY(log),
      ENTRY(expm1),
      ENTRY(log1p),
      ENTRY(tanh),
      ENTRY(logistic),
      ENTRY(sin),
      ENTRY(cos),
      ENTRY(tan),
      ENTRY(asin),
      ENTRY(acos),
      ENTRY(atan),
      ENTRY(sinh),
      ENTRY(cosh),
      ENTRY(asinh),
      ENTRY(acosh),
      ENTRY(atanh),
      ENTRY(real),
      ENTRY(imag),
      ENTRY(conj),
      ENTRY(abs),
      ENTRY(sqrt),
      ENTRY(rsqrt),
      ENTRY(cbrt),
      ENTRY(square),
      ENTRY(reciprocal),
      ENTRY(bitwise_not),
      ENTRY(population_count),
      ENTRY(clz),
      ENTRY(add),
      ENTRY(sub),
      ENTRY(mul),
      ENTRY(mulhi),
      ENTRY(div),
      ENTRY(rem),
      ENTRY(max),
      ENTRY(min),
      ENTRY(pow),
      ENTRY(atan2),
      ENTRY(nextafter),
      ENTRY(complex),
      ENTRY(bitwise_and),
      ENTRY(bitwise_or),
      ENTRY(bitwise_xor),
      ENTRY(shift_left),
      ENTRY(shift_right_arithmetic),
      ENTRY(shift_right_logical),
      ENTRY(eq),
      ENTRY(ne),
      ENTRY(ge),
      ENTRY(gt),
      ENTRY(le),
      ENTRY(lt),
      ENTRY(erf),
      ENTRY(erfc),
      ENTRY(erf_inv),
      ENTRY(lgamma),
      ENTRY(digamma),
      ENTRY(polygamma),
      ENTRY(zeta),
      ENTRY(bessel_i0e),
      ENTRY(bessel_i1e),
      ENTRY(igamma),
      ENTRY(igammac),
      ENTRY(igamma_grad_a),
      ENTRY(random_gamma_grad),
      ENTRY(stop_gradient),
      ENTRY(zeros_like),
      ENTRY(ones_like),
      {"round", with([](In x) { return lax::round(x[0]); })},
      {"round_even", with([](In x) { return lax::round(x[0], lax::RoundingMethod::to_nearest_even); })},
      {"cube", with([](In x) { return lax::integer_pow(x[0], 3); })},
      {"inverse_square", with([](In x) { return lax::integer_pow(x[0], -2); })},
      {"select", with([](In x) { return lax::select(x[0], x[1], x[2]); })},
      {"clamp", with([](In x) { return lax::clamp(x[0], x[1], x[2]); })},
      {"clamp_unit", with([](In x) { return lax::clamp(0.0, x[0], 1.0); })},
      {"to_float32", with([](In x) { return lax::convert_element_type(x[0], DType::float32); })},
      {"to_bfloat16", with([](In x) { return lax::convert_element_type(x[0], DType::bfloat16); })},
      {"to_int32", with([](In x) { return lax::convert_element_type(x[0], DType::int32); })},
      {"to_bool", with([](In x) { return lax::convert_element_type(x[0], DType::bool_); })},
      {"to_complex64", with([](In x) { return lax::convert_element_type(x[0], DType::complex64); })},
      {"bits_int32", with([](In x) { return lax::bitcast_convert_type(x[0], DType::int32); })},
      {"bits_uint8", with([](In x) { return lax::bitcast_convert_type(x[0], DType::uint8); })},
      {"reduce_precision", with([](In x) { return lax::reduce_precision(x[0], 5, 10); })},
      {"double_it", with([](In x) { return lax::mul(x[0], 2.0); })},
      {"from_one", with([](In x) { return lax::sub(1.0, x[0]); })},
      {"twice_over", with([](In x) { return lax::div(2.0, x[0]); })},
      {"squared", with([](In x) { return lax::pow(x[0], 2); })},
      {"to_the_5_halves", with([](In x) { return lax::pow(x[0], 2.5); })},
      {"relu", with([](In x) { return lax::max(x[0], 0.0); })},
      {"betainc", with([](In x) { return lax::betainc(x[0], x[1], x[2]); })},
      {"optimization_barrier", [](In x) { return lax::optimization_barrier(x); }},
      {"seed", with([](In x) { return random_seed(x[0]); })},
      {"key_data", with([](In x) { return random_unwrap(x[0]); })},
      {"wrap_key_data", with([](In x) { return random_wrap(x[0]); })},
      {"split_3", with([](In x) { return random_split(x[0], {3}); })},
      {"fold_in", with([](In x) { return random_fold_in(x[0], x[1]); })},
      {"bits_8", with([](In x) {
         return random_bits(x[0], 8, {3, 5});
       })},
      {"bits_16", with([](In x) { return random_bits(x[0], 16, {7}); })},
      {"bits_32", with([](In x) {
         return random_bits(x[0], 32, {2, 1, 3});
       })},
      {"bits_64", with([](In x) { return random_bits(x[0], 64, {4}); })},
  };
#undef ENTRY
  return all;
}

// The primal results, and the cotangents of the inexact operands from cotangents that are further inputs.
ClosedJaxpr vjp_of(const Function& f, std::span<const AvalP> in) {
  std::vector<bool> active;
  for (AvalP a : in) active.push_back(is_inexact(a->dtype));
  AvalList all(in.begin(), in.end()), outs = trace_to_jaxpr(f, in, "f")->out_avals();
  for (AvalP a : outs) all.push_back(strong(a));
  return trace_to_jaxpr(
      [&](std::span<const Array> args) {
        Linearized lin = linearize_flat(f, args.first(in.size()), active, "vjp");
        Arrays cotangents, results;
        for (std::size_t i = 0; i < lin.nonzero_out.size(); ++i)
          if (lin.nonzero_out[i]) cotangents.push_back(args[in.size() + i]);
        Arrays gradients = backward_pass(lin.linear, cotangents);
        AvalList expected = lin.linear->in_avals();
        for (std::size_t i = 0; i < gradients.size(); ++i)
          results.push_back(instantiate_zeros(gradients[i], expected[i]));
        return results;
      },
      all, "vjp");
}

void answer(const std::string& text) { std::cout << text.size() << '\n' << text << std::flush; }

void serve(const std::string& what, const Function& f, const Arrays& in) {
  AvalList avals;
  for (auto& a : in) avals.push_back(a.aval());
  if (what == "jaxpr") return answer(to_string(trace_to_jaxpr(f, avals, "f")));
  if (what == "vjp") return answer(to_string(vjp_of(f, avals)));
  auto traced = trace_to_jaxpr(f, avals, "f");
  Arrays out = run_jaxpr(traced, in, "f");
  std::cout << out.size() << '\n';
  for (const Array& a : out) {
    std::cout << name(a.dtype()) << ' ' << a.weak_type();
    for (auto d : a.shape()) std::cout << ' ' << d;
    auto view = runtime::to_host(*runtime::as_concrete(a.value()));
    std::cout << '\n';
    std::cout.write(reinterpret_cast<const char*>(view.data()), static_cast<std::streamsize>(view.bytes().size()));
  }
  std::cout << std::flush;
}

}  // namespace
}  // namespace lockstep

int main() {
  using namespace lockstep;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream request(line);
    std::string what, function;
    int count = 0;
    request >> what >> function >> count;
    Arrays in;
    for (int i = 0; i < count; ++i) {
      std::getline(std::cin, line);
      std::istringstream words(line);
      std::string dtype;
      bool weak = false;
      words >> dtype >> weak;
      Shape shape;
      for (std::int64_t d; words >> d;) shape.push_back(d);
      AvalP aval = make_aval(shape, dtype_from_name(dtype), weak);
      std::string bytes(aval->bytes(), '\0');
      std::cin.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
      in.emplace_back(runtime::make_concrete(aval, {.data = bytes.data()}));
    }
    try {
      serve(what, functions().at(function), in);
    } catch (const std::exception& e) {
      std::cout << "error " << std::string(e.what()).size() << '\n' << e.what() << std::flush;
    }
  }
}

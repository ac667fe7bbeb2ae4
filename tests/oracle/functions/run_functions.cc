// Runs named functions on arrays that come on stdin and answers on stdout, for comparison with JAX.
//
// A request is a line "MODE CASE N", then N arrays: a line "DTYPE WEAK DIM..." and the bytes each. Modes:
//   run     the results, as one program
//   vjp     the cotangents of the inexact arguments, for cotangents() of the inexact results
//   vmap    the results, all arguments mapped over their leading axis
//   eager   the results, operation by operation
//   jaxpr   the function's text
//   lower   its StableHLO
//   names   "SECTION CASE" for all cases, a line each
// An answer is a line "ok LENGTH" or "error LENGTH" and as many bytes: text, or arrays in the same form after a line
// with their number. A line "many K" and K requests of modes run, vjp and vmap make one program, which costs about as
// much to compile as one function alone; its answers come one after the other.
#include <iostream>
#include <sstream>

#include "lockstep/api/eval.h"
#include "lockstep/core/basic_ops.h"
#include "lockstep/lower/context.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/transforms/autodiff.h"
#include "lockstep/transforms/batching.h"
#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {

std::map<std::string, NamedCase>& cases() {
  static auto* all = new std::map<std::string, NamedCase>;
  return *all;
}
RegisterCases::RegisterCases(const char* section, std::initializer_list<Case> list) {
  for (auto& c : list) {
    auto run = [run = c.run](std::span<const Array> a) { return run(Arrays(a.begin(), a.end())); };
    bool added = cases().try_emplace(c.name, NamedCase{section, run}).second;
    LS_CHECK(added, "there are two cases {}", c.name);
  }
}

namespace {

using In = std::span<const Array>;

struct Request {
  std::string mode, name;
  Arrays args;
};
struct Answer {
  std::string text;
  bool ok = true;
};

Array read_array() {
  std::string line, dtype;
  std::getline(std::cin, line);
  std::istringstream words(line);
  bool weak;
  words >> dtype >> weak;
  Shape shape;
  for (std::int64_t d; words >> d;) shape.push_back(d);
  AvalP aval = make_aval(shape, dtype_from_name(dtype), weak);
  std::string bytes(aval->bytes(), '\0');
  std::cin.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return Array(runtime::make_concrete(aval, {.data = bytes.data()}));
}
Request read_request(const std::string& line) {
  Request request;
  std::istringstream words(line);
  std::size_t n = 0;
  words >> request.mode >> request.name >> n;
  for (std::size_t i = 0; i < n; ++i) request.args.push_back(read_array());
  return request;
}
std::string write_arrays(In arrays) {
  std::ostringstream out;
  out << arrays.size() << '\n';
  for (const Array& a : arrays) {
    Array concrete = a.value()->kind() == Value::Kind::scalar
                         ? Array(runtime::scalar_array(static_cast<ScalarValue&>(*a.value()).scalar, a.weak_type()))
                         : a;
    out << name(a.dtype()) << ' ' << a.weak_type();
    for (auto d : a.shape()) out << ' ' << d;
    auto view = runtime::to_host(static_cast<runtime::ConcreteArray&>(*concrete.value()));
    out << '\n' << std::string_view(reinterpret_cast<const char*>(view.data()), view.bytes().size());
  }
  return out.str();
}

// -0.75, -0.25, 0.25, 0.75, 1.25, -0.75, ... (complex: times 1 - 0.5i), as oracle.py makes them.
Array cotangent(AvalP aval) {
  std::string bytes(aval->bytes(), '\0');
  for (std::int64_t i = 0; i < aval->size(); ++i) {
    double x = static_cast<double>(i % 5) * 0.5 - 0.75;
    Scalar number =
        is_complex(aval->dtype) ? Scalar(std::complex<double>(x, -0.5 * x), aval->dtype) : Scalar(x, aval->dtype);
    number.write(bytes.data() + i * static_cast<std::int64_t>(itemsize(aval->dtype)));
  }
  return Array(runtime::make_concrete(aval, {.data = bytes.data()}));
}
Arrays vjp(const FlatFunction& f, In in) {
  std::vector<bool> active;
  for (const Array& a : in) active.push_back(is_inexact(a.dtype()));
  Linearized linear = linearize_flat(f, in, active, "vjp");
  Arrays cotangents;
  for (std::size_t i = 0; i < linear.outs.size(); ++i)
    if (linear.nonzero_out[i]) {
      AvalP aval = linear.outs[i].aval();
      cotangents.push_back(is_inexact(aval->dtype) ? cotangent(aval) : Array());
    }
  Arrays gradients = backward_pass(linear.linear, cotangents);
  std::size_t next = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (active[i]) gradients[next] = instantiate_zeros(gradients[next], in[i].aval()), ++next;
  return gradients;
}
Arrays vmap(const FlatFunction& f, In in) {
  std::int64_t size = in[0].shape(0);
  BatchOut out = batch_flat(f, in, std::vector<int>(in.size(), 0), size, "", "vmap");
  for (std::size_t i = 0; i < out.outs.size(); ++i) out.outs[i] = batch_axis_at_front(out.outs[i], out.dims[i], size);
  return out.outs;
}

const FlatFunction& function_of(const std::string& name) {
  auto found = cases().find(name);
  if (found == cases().end()) throw_error(ErrorCode::invalid_argument, "oracle", "there is no case {}", name);
  return found->second.run;
}
ClosedJaxpr trace(const Request& request) {
  const FlatFunction& f = function_of(request.name);
  AvalList avals;
  for (const Array& a : request.args) avals.push_back(a.aval());
  FlatFunction transformed = f;
  if (request.mode == "vjp") transformed = [&f](In in) { return vjp(f, in); };
  if (request.mode == "vmap") transformed = [&f](In in) { return vmap(f, in); };
  ClosedJaxpr j = trace_to_jaxpr(transformed, avals, request.name);
  check_jaxpr(*j);
  return j;
}
Answer answer(const Request& request) {
  try {
    if (request.mode == "names") {
      std::string names;
      for (auto& [name, c] : cases()) names += fmt::format("{} {}\n", c.section, name);
      return {names};
    }
    if (request.mode == "eager") return {write_arrays(function_of(request.name)(request.args))};
    ClosedJaxpr j = trace(request);
    if (request.mode == "jaxpr") return {to_string(j)};
    if (request.mode == "lower") return {lower_to_stablehlo(hoist_consts(j).first, {})};
    return {write_arrays(run_jaxpr(j, request.args, request.name))};
  } catch (const Error& e) {
    return {e.what(), false};
  }
}

std::vector<Answer> answer_many(const std::vector<Request>& requests) {
  std::vector<Answer> answers(requests.size());
  std::vector<ClosedJaxpr> jaxprs(requests.size());
  AvalList avals;
  Arrays args;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    try {
      jaxprs[i] = trace(requests[i]);
      for (const Array& a : requests[i].args) args.push_back(a), avals.push_back(a.aval());
    } catch (const Error& e) {
      answers[i] = {e.what(), false};
    }
  }
  std::vector<std::size_t> counts(requests.size());
  Arrays outs;
  try {
    ClosedJaxpr all = trace_to_jaxpr(
        [&](In in) {
          Arrays results;
          std::size_t next = 0;
          for (std::size_t i = 0; i < requests.size(); ++i) {
            if (!answers[i].ok) continue;
            Arrays own = eval_jaxpr(jaxprs[i], in.subspan(next, requests[i].args.size()));
            next += requests[i].args.size();
            counts[i] = own.size();
            results.insert(results.end(), own.begin(), own.end());
          }
          return results;
        },
        avals, "many");
    outs = run_jaxpr(all, args, "many");
  } catch (const Error&) {  // whose fault it is shows one by one
    for (std::size_t i = 0; i < requests.size(); ++i)
      if (answers[i].ok) answers[i] = answer(requests[i]);
    return answers;
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!answers[i].ok) continue;
    answers[i].text = write_arrays(std::span(outs).subspan(next, counts[i]));
    next += counts[i];
  }
  return answers;
}

void write(const Answer& a) { std::cout << (a.ok ? "ok " : "error ") << a.text.size() << '\n' << a.text << std::flush; }

}  // namespace
}  // namespace lockstep::oracle

int main() {
  using namespace lockstep::oracle;
  std::string line;
  while (std::getline(std::cin, line)) {
    if (!line.starts_with("many ")) {
      write(answer(read_request(line)));
      continue;
    }
    std::vector<Request> requests;
    for (int n = std::stoi(line.substr(5)); n > 0; --n) {
      std::getline(std::cin, line);
      requests.push_back(read_request(line));
    }
    for (const Answer& a : answer_many(requests)) write(a);
  }
}

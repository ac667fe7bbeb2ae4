// Runs named functions on arrays that come on stdin and answers on stdout, for comparison with JAX.
//
// A request is a line "MODE CASE N", then N arrays: a line "DTYPE WEAK DIM..." and the bytes each. Modes: run (as one
// program), eager, jaxpr, lower. An answer is a line "ok LENGTH" or "error LENGTH" and as many bytes: text, or arrays
// in the same form after a line with their number.
#include <iostream>
#include <sstream>

#include "lockstep/api/eval.h"
#include "lockstep/lower/context.h"
#include "lockstep/runtime/transfer.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "tests/oracle/functions/cases.h"

namespace lockstep::oracle {

std::map<std::string, FlatFunction>& cases() {
  static auto* all = new std::map<std::string, FlatFunction>;
  return *all;
}

namespace {

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
std::string write_arrays(const Arrays& arrays) {
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
std::string answer(const std::string& mode, const std::string& name, const Arrays& args) {
  auto found = cases().find(name);
  if (found == cases().end()) throw_error(ErrorCode::invalid_argument, "oracle", "there is no case {}", name);
  if (mode == "eager") return write_arrays(found->second(args));
  AvalList avals;
  for (const Array& a : args) avals.push_back(a.aval());
  ClosedJaxpr j = trace_to_jaxpr(found->second, avals, name);
  if (mode == "jaxpr") return to_string(j);
  if (mode == "lower") return lower_to_stablehlo(hoist_consts(j).first, {});
  return write_arrays(run_jaxpr(j, args, name));
}

}  // namespace
}  // namespace lockstep::oracle

int main() {
  using namespace lockstep;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::istringstream words(line);
    std::string mode, name, text, status = "ok";
    std::size_t n;
    words >> mode >> name >> n;
    Arrays args;
    for (std::size_t i = 0; i < n; ++i) args.push_back(oracle::read_array());
    try {
      text = oracle::answer(mode, name, args);
    } catch (const Error& e) {
      status = "error";
      text = e.what();
    }
    std::cout << status << ' ' << text.size() << '\n' << text << std::flush;
  }
}

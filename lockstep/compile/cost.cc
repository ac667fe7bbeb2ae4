#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <unordered_map>

#include "lockstep/compile/hlo_cost.pb.h"
#include "lockstep/compile/optimized.h"
#include "lockstep/compile/shapes.h"
#include "lockstep/compile/trip_count.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

using hlo_cost::Computation;
using hlo_cost::Instruction;

bool is_one_of(const std::set<std::string, std::less<>>& names, std::string_view name) {
  return names.find(name) != names.end();
}

bool is_transcendental(std::string_view opcode) {
  static const auto* names = new std::set<std::string, std::less<>>{"acos",
                                                                    "acosh",
                                                                    "asin",
                                                                    "asinh",
                                                                    "atan2",
                                                                    "atanh",
                                                                    "cbrt",
                                                                    "cosine",
                                                                    "cosh",
                                                                    "erf",
                                                                    "exponential",
                                                                    "log",
                                                                    "exponential-minus-one",
                                                                    "rsqrt",
                                                                    "log-plus-one",
                                                                    "power",
                                                                    "logistic",
                                                                    "sine",
                                                                    "sinh",
                                                                    "sqrt",
                                                                    "tan",
                                                                    "tanh"};
  return is_one_of(*names, opcode);
}

bool is_arithmetic(std::string_view opcode) {
  static const auto* names = new std::set<std::string, std::less<>>{"abs",
                                                                    "add",
                                                                    "and",
                                                                    "ceil",
                                                                    "clamp",
                                                                    "compare",
                                                                    "complex",
                                                                    "convert",
                                                                    "count-leading-zeros",
                                                                    "divide",
                                                                    "floor",
                                                                    "imag",
                                                                    "is-finite",
                                                                    "maximum",
                                                                    "minimum",
                                                                    "multiply",
                                                                    "negate",
                                                                    "not",
                                                                    "or",
                                                                    "popcnt",
                                                                    "real",
                                                                    "reduce-precision",
                                                                    "remainder",
                                                                    "round-nearest-afz",
                                                                    "round-nearest-even",
                                                                    "select",
                                                                    "shift-left",
                                                                    "shift-right-arithmetic",
                                                                    "shift-right-logical",
                                                                    "sign",
                                                                    "stochastic-convert",
                                                                    "subtract",
                                                                    "xor"};
  return is_one_of(*names, opcode);
}

// Names for what is somewhere already.
bool touches_no_memory(std::string_view opcode) {
  static const auto* names = new std::set<std::string, std::less<>>{
      "add-dependency", "after-all", "bitcast",     "constant", "domain",      "get-tuple-element", "opt-barrier",
      "parameter",      "while",     "conditional", "call",     "async-start", "async-update",      "async-done"};
  return is_one_of(*names, opcode);
}

// What the compiler takes from its first operand lies together.
bool takes_a_part(std::string_view opcode) {
  return opcode == "slice" || opcode == "dynamic-slice" || opcode == "gather";
}

double elements_of(const hlo::Shape& shape) {
  double total = 0;
  for (const hlo::Shape* leaf : leaves(shape)) {
    double n = 1;
    for (std::int64_t d : leaf->dimensions()) n *= static_cast<double>(d);
    total += n;
  }
  return total;
}

double bytes_of(const hlo::Shape& shape) {
  double total = 0;
  for (const hlo::Shape* leaf : leaves(shape)) total += elements_of(*leaf) * element_bytes(leaf->element_type());
  return total;
}

class Counter {
 public:
  explicit Counter(const hlo_cost::Module& module) : module_(module) {
    for (const Computation& c : module.computations()) {
      computations_[c.id()] = &c;
      for (const Instruction& i : c.instructions()) instructions_[i.id()] = &i;
    }
  }

  struct Cost {
    double flops = 0, transcendentals = 0, bytes = 0;
    void add(const Cost& other, double times = 1) {
      flops += other.flops * times;
      transcendentals += other.transcendentals * times;
      bytes += other.bytes * times;
    }
  };

  Cost of(std::int64_t computation, bool in_memory = true) {
    Cost total;
    auto found = computations_.find(computation);
    if (found == computations_.end()) return total;
    for (const Instruction& i : found->second->instructions()) {
      if (i.name().starts_with("lockstep_weight")) continue;  // rewrite.cc's own
      total.add(arithmetic(i, in_memory));
      if (in_memory) total.bytes += memory(i);
    }
    return total;
  }

 private:
  const hlo::Shape& operand(const Instruction& i, int n) const { return source(i, n).shape(); }
  const Instruction& source(const Instruction& i, int n) const { return *instructions_.at(i.operand_ids(n)); }
  // Of one application of the computation that a reduction, scatter or sort calls.
  Cost inner(const Instruction& i) {
    return i.called_computation_ids_size() > 0 ? of(i.called_computation_ids(0), false) : Cost();
  }

  Cost arithmetic(const Instruction& i, bool in_memory) {
    const std::string& op = i.opcode();
    Cost cost;
    double results = elements_of(i.shape());
    if (is_transcendental(op)) {
      cost.transcendentals = results;
    } else if (is_arithmetic(op)) {
      cost.flops = results;
    } else if (op == "dot") {
      double contracted = 1;
      for (std::int64_t d : i.dot_dimension_numbers().lhs_contracting_dimensions())
        contracted *= static_cast<double>(operand(i, 0).dimensions(static_cast<int>(d)));
      cost.flops = 2 * results * contracted;
    } else if (op == "convolution") {
      cost.flops = 2 * convolution(i);
    } else if (op == "fft") {
      double factors = 1;
      for (std::int64_t n : i.fft_length()) factors *= std::bit_width(static_cast<std::uint64_t>(n)) - 1;
      cost.flops = 8 * factors * std::max(results, elements_of(operand(i, 0)));
    } else if (op == "reduce" || op == "reduce-scatter" || op == "all-reduce") {
      int inputs = std::max(1, op == "reduce" ? i.operand_ids_size() / 2 : i.operand_ids_size());
      double folded = elements_of(operand(i, 0));
      if (op == "reduce") folded -= results / inputs;
      cost.add(inner(i), std::max(0.0, folded));
    } else if (op == "reduce-window") {
      double window = 1;
      for (const auto& d : i.window().dimensions()) window *= static_cast<double>(d.size());
      cost.add(inner(i), std::max(0.0, window - 1) * elements_of(*leaves(i.shape())[0]));
    } else if (op == "scatter") {
      cost.add(inner(i), elements_of(operand(i, i.operand_ids_size() - 1)));
    } else if (op == "map") {
      cost.add(inner(i), results);
    } else if (op == "sort") {
      double n = elements_of(operand(i, 0));
      cost.flops = n * std::ceil(std::log2(std::max(n, 1.0)));
    } else if (op == "fusion" || op == "call" || op.starts_with("async")) {
      for (std::int64_t called : i.called_computation_ids()) cost.add(of(called, in_memory && op != "fusion"));
    } else if (op == "while" && i.called_computation_ids_size() == 2) {
      // Which of the two is the body: the condition gives a truth value.
      auto trips = static_cast<double>(known_trip_count(i.backend_config()).value_or(1));
      for (std::int64_t called : i.called_computation_ids()) {
        const Computation& c = *computations_.at(called);
        bool condition = leaves(instructions_.at(c.root_id())->shape()).size() == 1 &&
                         instructions_.at(c.root_id())->shape().element_type() == kPred;
        cost.add(of(called, in_memory), trips + (condition ? 1 : 0));
      }
    } else if (op == "conditional") {
      for (std::int64_t called : i.called_computation_ids()) {
        Cost branch = of(called, in_memory);
        cost.flops = std::max(cost.flops, branch.flops);
        cost.transcendentals = std::max(cost.transcendentals, branch.transcendentals);
        cost.bytes = std::max(cost.bytes, branch.bytes);
      }
    }
    return cost;
  }

  // Multiplications with an element of the input, not of its padding or of holes between its elements.
  double convolution(const Instruction& i) const {
    const auto& numbers = i.convolution_dimension_numbers();
    const hlo::Shape &input = operand(i, 0), &kernel = operand(i, 1), &result = i.shape();
    auto size = [](const hlo::Shape& shape, std::int64_t d) { return shape.dimensions(static_cast<int>(d)); };
    double count = static_cast<double>(size(kernel, numbers.kernel_input_feature_dimension())) *
                   static_cast<double>(size(kernel, numbers.kernel_output_feature_dimension())) *
                   static_cast<double>(size(input, numbers.input_batch_dimension())) /
                   static_cast<double>(std::max<std::int64_t>(1, i.batch_group_count()));
    for (int d = 0; d < i.window().dimensions_size(); ++d) {
      const auto& w = i.window().dimensions(d);
      std::int64_t base = std::max<std::int64_t>(1, w.base_dilation()), step = std::max<std::int64_t>(1, w.stride()),
                   spread = std::max<std::int64_t>(1, w.window_dilation());
      std::int64_t in = size(input, numbers.input_spatial_dimensions(d)), reach = in == 0 ? 0 : (in - 1) * base + 1;
      std::int64_t out = size(result, numbers.output_spatial_dimensions(d)), meetings = 0;
      for (std::int64_t o = 0; o < out; ++o)
        for (std::int64_t k = 0; k < w.size(); ++k) {
          std::int64_t at = o * step - w.padding_low() + k * spread;
          meetings += at >= 0 && at < reach && at % base == 0;
        }
      count *= static_cast<double>(meetings);
    }
    return count;
  }

  // Bytes read and written by an instruction outside of fusions.
  double memory(const Instruction& i) {
    const std::string& op = i.opcode();
    if (op == "tuple") return 8.0 * i.operand_ids_size();  // the table of its elements' addresses
    if (touches_no_memory(op)) return 0;
    double total = 0;
    const Computation* fused = nullptr;
    if (op == "fusion" && i.called_computation_ids_size() > 0) {
      auto found = computations_.find(i.called_computation_ids(0));
      if (found != computations_.end()) fused = found->second;
    }
    for (int n = 0; n < i.operand_ids_size(); ++n) {
      double whole = bytes_of(operand(i, n));
      if (takes_a_part(op) && n == 0)
        total += bytes_of(i.shape());
      else if (op == "dynamic-update-slice" && n == 0)
        total += 0;  // written in place
      else if (fused != nullptr)
        total += std::min(whole, read_inside(*fused, n, whole));
      else
        total += whole;
    }
    if (op == "dynamic-update-slice") return total + bytes_of(operand(i, 1));
    if (fused != nullptr) {
      const Instruction& root = *instructions_.at(fused->root_id());
      if (root.opcode() == "dynamic-update-slice") return total + bytes_of(operand(root, 1));
    }
    return total + bytes_of(i.shape());
  }

  // What a fusion reads of its n-th parameter.
  double read_inside(const Computation& fused, int n, double whole) const {
    std::int64_t parameter = -1;
    for (const Instruction& i : fused.instructions())
      if (i.opcode() == "parameter" && i.parameter_number() == n) parameter = i.id();
    double total = 0;
    for (const Instruction& i : fused.instructions())
      for (int k = 0; k < i.operand_ids_size(); ++k) {
        if (i.operand_ids(k) != parameter) continue;
        if (k == 0 && takes_a_part(i.opcode()))
          total += bytes_of(i.shape());
        else if (k != 0 || i.opcode() != "dynamic-update-slice" || i.id() != fused.root_id())
          return whole;
      }
    return total;
  }

  const hlo_cost::Module& module_;
  std::unordered_map<std::int64_t, const Computation*> computations_;
  std::unordered_map<std::int64_t, const Instruction*> instructions_;
};

}  // namespace

std::map<std::string, double> count_cost(std::string_view bytes) {
  hlo_cost::Module module;
  if (!module.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw_error(ErrorCode::plugin, "cost_analysis", "the compiler's module cannot be parsed ({} bytes)", bytes.size());
  auto cost = Counter(module).of(module.entry_computation_id());
  return {{"flops", cost.flops}, {"transcendentals", cost.transcendentals}, {"bytes accessed", cost.bytes}};
}

}  // namespace lockstep::compile

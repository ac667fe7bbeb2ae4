#include "lockstep/compile/rewrite.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <tuple>
#include <unordered_map>

#include "lockstep/compile/groups.h"
#include "lockstep/compile/hlo.pb.h"
#include "lockstep/compile/shapes.h"
#include "lockstep/compile/trip_count.h"
#include "lockstep/compile/wire.h"
#include "lockstep/runtime/collective_handler.h"
#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

using collectives::CollectiveOp;
using collectives::CollectiveSpec;
using collectives::Reduction;

constexpr std::int32_t kTypedFfi = 4;

std::string attribute(std::span<const std::int64_t> values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string attribute(std::string_view text) {
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c < 0x20 || c >= 0x7f || c == '"' || c == '\\')
      out += fmt::format("\\{:02X}", c);
    else
      out += static_cast<char>(c);
  }
  return out + '"';
}

bool is_asynchronous(std::string_view opcode) {
  for (std::string_view name : {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute",
                                "collective-broadcast", "ragged-all-to-all"})
    if (opcode.starts_with(name) && (opcode.ends_with("-start") || opcode.ends_with("-done"))) return true;
  return opcode == "send" || opcode == "send-done" || opcode == "recv" || opcode == "recv-done";
}

class Rewriter {
 public:
  Rewriter(std::string_view bytes, std::int64_t partitions, const RewriteOptions& options) : options_(options) {
    program_.partitions = partitions;
    if (!module_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      throw_error(ErrorCode::compile, "partition", "the compiler's module cannot be parsed ({} bytes)", bytes.size());
  }

  PartitionedProgram run() {
    index();
    read_signature();
    for (auto& computation : *module_.mutable_computations())
      for (auto& instruction : *computation.mutable_instructions()) visit(computation, instruction);
    for (auto& computation : *module_.mutable_computations())
      for (auto& instruction : *computation.mutable_instructions())
        if (instruction.has_metadata())
          instruction.mutable_metadata()->set_op_name(split(instruction.metadata().op_name()).first);
    if (options_.background && !program_.collectives.empty()) add_weight();
    module_.clear_id();  // counts the compiles of a process
    module_.clear_schedule();
    module_.clear_device_assignment();
    program_.module = serialize_proto(module_);
    return std::move(program_);
  }

 private:
  struct Caller {
    const hlo::Computation* computation;
    const hlo::Instruction* instruction;
  };

  [[noreturn]] static void refuse(const hlo::Instruction& instruction, const std::string& why) {
    std::string op_name = split(instruction.metadata().op_name()).first;
    throw_error(ErrorCode::compile, "partition", "{}{} cannot run over several processes: {}", instruction.name(),
                op_name.empty() ? "" : " (" + op_name + ")", why);
  }

  void index() {
    for (const auto& computation : module_.computations()) {
      computations_[computation.id()] = &computation;
      for (const auto& instruction : computation.instructions()) {
        instructions_[instruction.id()] = &instruction;
        for (std::int64_t callee : instruction.called_computation_ids())
          callers_[callee].push_back({&computation, &instruction});
      }
    }
  }

  // "mul#17": "mul" and 17.
  static std::pair<std::string, std::optional<std::size_t>> split(const std::string& op_name) {
    std::size_t hash = op_name.rfind('#'), number = 0;
    if (hash == std::string::npos) return {op_name, std::nullopt};
    const char* end = op_name.data() + op_name.size();
    auto [stop, error] = std::from_chars(op_name.data() + hash + 1, end, number);
    if (error != std::errc() || stop != end) return {op_name, std::nullopt};
    return {op_name.substr(0, hash), number};
  }

  // A collective that XLA has merged of several has no name of its own; the parts that are taken of its results have
  // those of the ones that it was made of.
  std::string op_name_of(const hlo::Computation& computation, const hlo::Instruction& instruction) const {
    if (!instruction.metadata().op_name().empty()) return instruction.metadata().op_name();
    for (const auto& user : computation.instructions())
      if (user.opcode() == "get-tuple-element" && user.operand_ids(0) == instruction.id() &&
          !user.metadata().op_name().empty())
        return user.metadata().op_name();
    for (std::int64_t id : instruction.operand_ids())
      if (auto& name = instructions_.at(id)->metadata().op_name(); !name.empty()) return name;
    return "";
  }

  void read_signature() {
    auto add = [](std::vector<pjrt::TensorType>& to, const hlo::Shape& leaf, std::string what) {
      what += fmt::format(" {}", to.size());
      if (!is_row_major(leaf))
        throw_error(ErrorCode::compile, "partition", "{} has the layout {}; only row-major ones are supported", what,
                    to_string(leaf));
      to.push_back(tensor_type(leaf, what));
    };
    for (const auto& p : module_.host_program_shape().parameters()) add(program_.parameters, p, "parameter");
    for (const hlo::Shape* leaf : leaves(module_.host_program_shape().result())) add(program_.results, *leaf, "result");
    constexpr int must_alias = 2;
    for (const auto& entry : module_.input_output_alias().entries())
      program_.aliases.push_back({entry.output_shape_index_size() == 0 ? 0 : entry.output_shape_index(0),
                                  entry.parameter_number(), entry.kind() == must_alias});
  }

  void visit(const hlo::Computation& computation, hlo::Instruction& instruction) {
    const std::string& opcode = instruction.opcode();
    if (is_asynchronous(opcode)) refuse(instruction, "its asynchronous form is not supported");
    if (opcode == "partition-id") return rewrite_partition_id(instruction);
    if (opcode == "replica-id") return rewrite_replica_id(instruction);
    if (opcode == "custom-call") {
      auto rename = options_.rename_targets.find(instruction.custom_call_target());
      if (rename != options_.rename_targets.end()) instruction.set_custom_call_target(rename->second);
      return;
    }
    if (auto op = collectives::parse_collective_op(opcode)) rewrite_collective(computation, instruction, *op);
  }

  void rewrite_partition_id(hlo::Instruction& instruction) {
    instruction.set_opcode("custom-call");
    instruction.set_custom_call_target(runtime::kPartitionIdTarget);
    instruction.set_custom_call_api_version(kTypedFfi);
    program_.uses_partition_id = true;
  }

  static void rewrite_replica_id(hlo::Instruction& instruction) {
    instruction.set_opcode("constant");
    *instruction.mutable_literal()->mutable_shape() = instruction.shape();
    instruction.mutable_literal()->add_u32s(0);
  }

  // Fills in_loop and calls, and makes sure that a call is known by its launch, id and how-manieth call it is.
  void follow_callers(const hlo::Computation& computation, const hlo::Instruction& instruction, Collective& out) {
    out.calls = 1;
    std::int64_t id = computation.id();
    while (id != module_.entry_computation_id()) {
      auto& callers = callers_[id];
      if (callers.empty()) return;  // never run
      if (callers.size() > 1)
        refuse(instruction, fmt::format("the computation {} around it is called from {} places",
                                        computations_.at(id)->name(), callers.size()));
      const hlo::Instruction& caller = *callers[0].instruction;
      if (caller.opcode() == "async-start") refuse(instruction, "its asynchronous form is not supported");
      if (caller.opcode() == "while") {
        out.in_loop = true;
        auto trips = known_trip_count(caller.backend_config());
        bool is_condition = caller.called_computation_ids(0) != id;
        if (trips && out.calls)
          *out.calls *= *trips + (is_condition ? 1 : 0);
        else
          out.calls.reset();
      }
      id = callers[0].computation->id();
    }
  }

  Reduction reduction_of(const hlo::Instruction& instruction) {
    const hlo::Computation& body = *computations_.at(instruction.called_computation_ids(0));
    const hlo::Instruction& root = *instructions_.at(body.root_id());
    auto is_parameter = [&](std::int64_t id) { return instructions_.at(id)->opcode() == "parameter"; };
    bool simple = body.instructions_size() == 3 && root.operand_ids_size() == 2 &&
                  root.operand_ids(0) != root.operand_ids(1) && is_parameter(root.operand_ids(0)) &&
                  is_parameter(root.operand_ids(1));
    auto reduction = simple ? collectives::parse_reduction(root.opcode()) : std::nullopt;
    if (!reduction)
      refuse(instruction,
             fmt::format("its reduction {} is not one of add, multiply, minimum, maximum, and, or, xor", body.name()));
    return *reduction;
  }

  // Operands and results must agree in layout, as the exchange moves memory as it lies.
  void check_layouts(const hlo::Instruction& instruction, CollectiveOp op,
                     const std::vector<const hlo::Shape*>& results) {
    auto operand = [&](int i) -> const hlo::Shape& { return instructions_.at(instruction.operand_ids(i))->shape(); };
    if (op == CollectiveOp::ragged_all_to_all) {
      for (const hlo::Shape* shape : {&operand(0), &operand(1), results[0]}) {
        const auto& order = shape->layout().minor_to_major();
        if (order.empty() || order[order.size() - 1] != 0)
          refuse(instruction, fmt::format("dimension 0 of {} is not the major one", to_string(*shape)));
      }
      return;
    }
    if (static_cast<std::size_t>(instruction.operand_ids_size()) != results.size())
      refuse(instruction,
             fmt::format("it has {} operands and {} results", instruction.operand_ids_size(), results.size()));
    for (std::size_t i = 0; i < results.size(); ++i)
      if (!same_layout(operand(static_cast<int>(i)), *results[i]))
        refuse(instruction, fmt::format("the layouts of operand {} and result {} differ",
                                        to_string(operand(static_cast<int>(i))), to_string(*results[i])));
  }

  void rewrite_collective(const hlo::Computation& computation, hlo::Instruction& instruction, CollectiveOp op) {
    Collective found;
    CollectiveSpec& spec = found.spec;
    spec.op = op;
    spec.id = static_cast<std::int64_t>(program_.collectives.size());
    std::tie(found.op_name, found.equation) = split(op_name_of(computation, instruction));
    spec.name = found.op_name.empty() ? instruction.name() : instruction.name() + " (" + found.op_name + ")";
    auto results = leaves(instruction.shape());
    if (op == CollectiveOp::all_to_all && instruction.dimensions_size() > 0)
      refuse(instruction, "its array form is not supported");
    check_layouts(instruction, op, results);
    follow_callers(computation, instruction, found);
    if (op == CollectiveOp::all_reduce || op == CollectiveOp::reduce_scatter)
      spec.reduction = reduction_of(instruction);
    if (op == CollectiveOp::collective_permute) {
      spec.pairs = decode_pairs(instruction, program_.partitions);
    } else {
      Groups groups = decode_groups(instruction, program_.partitions);
      spec.groups = std::move(groups.members);
      spec.group_size = groups.size;
    }
    if (op == CollectiveOp::all_gather || op == CollectiveOp::reduce_scatter)
      for (const hlo::Shape* leaf : results) spec.outer.push_back(physical_outer(*leaf, instruction.dimensions(0)));
    for (std::int64_t id : instruction.operand_ids()) {
      found.inputs.push_back(tensor_type(instructions_.at(id)->shape(), "an operand of " + instruction.name()));
      found.bytes += byte_size(found.inputs.back());
    }

    const char* kind = spec.reduction == Reduction::none ? "" : collectives::to_string(spec.reduction);
    instruction.set_backend_config(
        fmt::format("{{op = \"{}\", kind = \"{}\", id = {} : i64, inputs = {} : i64, group_size = {} : i64, groups = "
                    "{}, outer = {}, "
                    "pairs = {}, name = {}}}",
                    instruction.opcode(), kind, spec.id, instruction.operand_ids_size(), spec.group_size,
                    attribute(spec.groups), attribute(spec.outer), attribute(spec.pairs), attribute(spec.name)));
    instruction.set_opcode("custom-call");
    instruction.set_custom_call_target(runtime::kCollectiveTarget);
    instruction.set_custom_call_api_version(kTypedFfi);
    instruction.set_custom_call_has_side_effect(true);
    instruction.clear_channel_id();
    instruction.clear_use_global_device_ids();
    instruction.clear_called_computation_ids();
    instruction.clear_replica_group_list();
    instruction.clear_replica_groups();
    instruction.clear_source_target_pairs();
    instruction.clear_dimensions();
    instruction.clear_constrain_layout();
    program_.collectives.push_back(std::move(found));
  }

  // XLA runs programs of less than 1,000 flops, by its own count, inside the launching call. 1,024 negations before the
  // first collective, preferably one outside of loops, make it run the program in the background.
  void add_weight() {
    constexpr std::int64_t count = 1024;
    auto [computation, at] = first_collective();
    std::int64_t id = 0;
    for (const auto& instruction : computation->instructions()) id = std::max(id, instruction.id());
    auto fresh = [&] {
      while (instructions_.count(++id) > 0) continue;
      return id;
    };
    hlo::Instruction iota, negate;
    iota.set_name("lockstep_weight_iota");
    iota.set_opcode("iota");
    iota.set_id(fresh());
    *iota.mutable_shape() = row_major(kF32, {count});
    iota.add_dimensions(0);
    negate.set_name("lockstep_weight");
    negate.set_opcode("negate");
    negate.set_id(fresh());
    *negate.mutable_shape() = iota.shape();
    negate.add_operand_ids(iota.id());
    computation->mutable_instructions(at)->add_operand_ids(negate.id());
    auto* list = computation->mutable_instructions();
    for (const auto* added : {&iota, &negate}) {
      *list->Add() = *added;
      for (int i = list->size() - 1; i > at; --i) list->SwapElements(i, i - 1);
      ++at;
    }
  }

  std::pair<hlo::Computation*, int> first_collective() {
    std::pair<hlo::Computation*, int> found{nullptr, 0};
    for (auto& computation : *module_.mutable_computations())
      for (int i = 0; i < computation.instructions_size(); ++i) {
        if (computation.instructions(i).custom_call_target() != runtime::kCollectiveTarget) continue;
        if (computation.id() == module_.entry_computation_id()) return {&computation, i};
        if (found.first == nullptr) found = {&computation, i};
      }
    LS_CHECK(found.first != nullptr);
    return found;
  }

  const RewriteOptions& options_;
  hlo::Module module_;
  PartitionedProgram program_;
  std::unordered_map<std::int64_t, const hlo::Computation*> computations_;
  std::unordered_map<std::int64_t, const hlo::Instruction*> instructions_;
  std::unordered_map<std::int64_t, std::vector<Caller>> callers_;
};

}  // namespace

PartitionedProgram rewrite(std::string_view module, std::int64_t partitions, const RewriteOptions& options) {
  return Rewriter(module, partitions, options).run();
}

}  // namespace lockstep::compile

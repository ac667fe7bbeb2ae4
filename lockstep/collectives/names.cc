#include <array>
#include <utility>

#include "lockstep/collectives/engine.h"

namespace lockstep::collectives {
namespace {

struct OpName {
  CollectiveOp op;
  const char* name;
  std::string_view opcode;
};
constexpr std::array<OpName, 7> kOps{{
    {CollectiveOp::all_reduce, "all_reduce", "all-reduce"},
    {CollectiveOp::all_gather, "all_gather", "all-gather"},
    {CollectiveOp::reduce_scatter, "reduce_scatter", "reduce-scatter"},
    {CollectiveOp::all_to_all, "all_to_all", "all-to-all"},
    {CollectiveOp::collective_permute, "collective_permute", "collective-permute"},
    {CollectiveOp::collective_broadcast, "collective_broadcast", "collective-broadcast"},
    {CollectiveOp::ragged_all_to_all, "ragged_all_to_all", "ragged-all-to-all"},
}};
constexpr std::array<std::pair<Reduction, const char*>, 8> kReductions{{
    {Reduction::none, "none"},
    {Reduction::add, "add"},
    {Reduction::multiply, "multiply"},
    {Reduction::maximum, "maximum"},
    {Reduction::minimum, "minimum"},
    {Reduction::and_, "and"},
    {Reduction::or_, "or"},
    {Reduction::xor_, "xor"},
}};

}  // namespace

const char* to_string(CollectiveOp op) { return kOps[static_cast<std::size_t>(op)].name; }
const char* to_string(Reduction reduction) { return kReductions[static_cast<std::size_t>(reduction)].second; }

std::optional<CollectiveOp> parse_collective_op(std::string_view opcode) {
  for (const OpName& entry : kOps) {
    if (entry.opcode == opcode) return entry.op;
  }
  return {};
}

std::optional<Reduction> parse_reduction(std::string_view opcode) {
  for (const auto& [reduction, name] : kReductions) {
    if (reduction != Reduction::none && name == opcode) return reduction;
  }
  return {};
}

}  // namespace lockstep::collectives

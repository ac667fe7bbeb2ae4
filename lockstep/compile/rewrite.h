// A partitioned module, made to run one partition per launch in any process: its collectives become custom calls that
// the runtime carries between partitions, and it learns its partition number when it is launched.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/pjrt/executable.h"

namespace lockstep::compile {

// A collective instruction, for reports and fingerprints.
struct Collective {
  collectives::CollectiveSpec spec;
  std::vector<pjrt::TensorType> inputs;
  std::int64_t bytes = 0;  // of the inputs of one call in one partition
  std::string op_name;     // from the program's locations: "mul"; of the first, where XLA has merged several
  // From locations of the form "mul#17" (ModuleOptions::locations): 17. The rewritten module does not have it.
  std::optional<std::size_t> equation;
  bool in_loop = false;
  // How often one launch runs it at most; empty if a loop around it does not tell its trip count.
  std::optional<std::int64_t> calls;
};

struct Alias {
  std::int64_t result, parameter;
  bool must;
};

struct PartitionedProgram {
  std::string module;  // a serialised HloModuleProto; the same bytes in every process and in every compile
  std::int64_t partitions = 1;
  // The per-partition signature; all row-major.
  std::vector<pjrt::TensorType> parameters, results;
  std::vector<Alias> aliases;  // donated parameters and the results that take their memory
  std::vector<Collective> collectives;
  bool uses_partition_id = false;
};

struct RewriteOptions {
  // Programs that XLA takes for cheap run inside the call that launches them, collectives included. True makes any
  // program with collectives run in the background, so that one thread can launch it on several local devices.
  bool background = false;
  // Custom-call targets to rename: XLA keeps the shardings of host calls only under names of its own.
  std::map<std::string, std::string> rename_targets;
};

// `module` is a serialised HloModuleProto after partitioning, of one replica. Errors of code `compile` name the
// instruction: reductions other than by one of add, multiply, minimum, maximum, and, or, xor; asynchronous forms and
// send/recv; the array form of all-to-all; layouts that differ between operand and result; collectives in a
// computation with several callers, in which calls could not be told apart.
PartitionedProgram rewrite(std::string_view module, std::int64_t partitions, const RewriteOptions& options = {});

}  // namespace lockstep::compile

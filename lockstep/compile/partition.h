// Partition here: XLA's own partitioner makes one device's part of a program for many devices, without running it.
#pragma once

#include <string_view>

#include "lockstep/compile/options.h"
#include "lockstep/compile/rewrite.h"
#include "lockstep/pjrt/client.h"

namespace lockstep::compile {

// How to get at the partitioned module: through the XlaTransform hook, which ends the compile before code generation;
// or, with plugins that lack it, from the optimised program of a whole compile, which costs that compile. Collectives
// that the compiler partitions but cannot run itself (on CPU: reductions by and, or, xor of integers;
// collective-broadcast; ragged-all-to-all) are then taken from what XLA dumps into a scratch directory before it gives
// up ($TMPDIR, gone afterwards). Or not at all: the plugin runs the program on all its devices by itself, which on CPU
// are those of one process.
enum class Route { hook, whole_compile, native };
// The hook where there is one, a whole compile where there is not, native if the plugin lacks what collectives of ours
// need. LOCKSTEP_PARTITION_ROUTE=hook, whole_compile or native decides otherwise; Error(plugin) if the plugin lacks
// what that needs, Error(invalid_argument) for another value.
Route best_route(const pjrt::Plugin& plugin);

// `partitioner` is a client of at least options.num_partitions devices, virtual ones on CPU; nothing runs on it, and
// several threads may use it at once. `program` is StableHLO text with Shardy shardings, `options` those of its compile
// (portable is ignored). Equal inputs give equal results in every process. Errors of code `compile` hold the compiler's
// message, or name the instruction that cannot be carried (rewrite.h).
PartitionedProgram partition(const pjrt::Client& partitioner, std::string_view program, const CompileOptions& options,
                             const RewriteOptions& rewriting, Route route);
PartitionedProgram partition(const pjrt::Client& partitioner, std::string_view program, const CompileOptions& options,
                             const RewriteOptions& rewriting = {});

}  // namespace lockstep::compile

// Private to the room: what can be said of a program that a plugin's compiler has made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/compile/report.h"
#include "lockstep/pjrt/executable.h"

namespace lockstep::compile {

// A serialised HloModuleProto. Error(plugin) where the plugin gives its programs in another form.
std::string optimized_hlo(const pjrt::LoadedExecutable& executable);

// The collectives in a module for several partitions, as far as lockstep knows their forms: none if it does not.
std::vector<CollectiveReport> native_collectives(std::string_view module, std::int64_t partitions);

// "flops", "transcendentals" and "bytes accessed" of one run of a module, counted as XLA's HloCostAnalysis does where
// a plugin does not tell:
//   - a multiplication with an addition, in matrix products and convolutions, is two flops; any other operation on
//     numbers one per element; exp, log, tanh, ... are no flops, but one transcendental per element each;
//   - every operation outside of fusions reads its operands from memory and writes its result to it; slices and
//     gathers touch only the part that they take;
//   - of a conditional's branches the dearer one counts.
// Unlike XLA's count, a loop counts as often as it runs if the compiler has noted that (once otherwise), and nothing
// is said about calls of foreign code, collectives among them, beyond their bytes.
std::map<std::string, double> count_cost(std::string_view module);

// The plugin's own analysis, or else ours; empty if neither can be had.
std::map<std::string, double> cost_of(const pjrt::LoadedExecutable& executable);

}  // namespace lockstep::compile

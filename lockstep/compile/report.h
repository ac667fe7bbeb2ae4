// What a compiled program does, for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

// One collective instruction of a program over a mesh.
struct CollectiveReport {
  std::string op;                     // "all_reduce"
  std::string name;                   // the instruction, and the line that it comes from if known
  std::int64_t bytes = 0;             // of one device's operands, per call
  std::optional<std::int64_t> calls;  // per launch; empty if a loop's length is not known
};

}  // namespace lockstep

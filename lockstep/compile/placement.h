// Private to the room: what is lowered for a request, before it is known how it will run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/compile/program.h"

namespace lockstep::compile {

struct Lowered {
  std::string name;
  std::string text;           // canonical StableHLO
  std::vector<bool> kept;     // per input of the request: whether the executable takes it
  std::vector<bool> donated;  // per input; empty: none
  std::string weak_types;     // of the results: not in the text, but part of what a program gives
  const void* mesh = nullptr;
  std::string key() const { return weak_types + text; }
};
Lowered lower_program(const ProgramRequest& request);

}  // namespace lockstep::compile

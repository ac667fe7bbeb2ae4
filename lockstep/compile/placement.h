// Private to the room: what is lowered for a request, before it is known how it will run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/compile/program.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep::compile {

struct Lowered {
  std::string name;
  std::string text;  // canonical StableHLO
  // Over a mesh: the same with the equations that operations come from, as ModuleOptions::locations has it, and their
  // lines: what is compiled, so that collectives can be named by lines. Lines are no part of the program.
  std::string located_text;
  std::vector<LocationId> locations;
  std::vector<bool> kept;     // per input of the request: whether the executable takes it
  std::vector<bool> donated;  // per input; empty: none
  std::string weak_types;     // of the results: not in the text, but part of what a program gives
  Mesh mesh;                  // empty: the default device
  // Over a mesh: per input, as the executable takes it; per result, null where it is left to the compiler.
  std::vector<const Sharding*> in, out;
  LocationId where = 0;
  std::string key() const;
};
Lowered lower_program(const ProgramRequest& request);

std::shared_ptr<Program> compile_over_mesh(Lowered lowered, AvalList in_avals, AvalList out_avals);

}  // namespace lockstep::compile

// Prints jaxprs as JAX does: variables a, b, ..., z, ba, ... in the order in which they are met; parameters in
// brackets, sorted by name; a shared jaxpr of a jit equation is named and printed once.
#pragma once

#include <string>
#include <unordered_map>

#include "lockstep/core/jaxpr.h"

namespace lockstep {

class Printer {
 public:
  std::string text;

  void print(const ClosedJaxpr& j, int indent);
  void print(const Jaxpr& j, int indent);
  void print_eqn(const Jaxpr& j, const Eqn& e, int indent);
  std::string name_of(const Jaxpr& j, Atom a);
  int indent() const { return indent_; }

 private:
  std::string fresh_name();
  std::unordered_map<const Jaxpr*, std::unordered_map<VarId, std::string>> names_;
  std::unordered_map<const Jaxpr*, std::vector<bool>> used_;
  int next_ = 0;
  int indent_ = 0;
  int base_ = 0;          // the column where equations begin
  int param_column_ = 0;  // where a parameter's line begins
};

}  // namespace lockstep

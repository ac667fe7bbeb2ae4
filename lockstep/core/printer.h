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

  // A whole program: jaxprs that occur in it more than once, or have more than ten equations, come first, by name.
  void print_program(const Jaxpr& j);

  void print(const ClosedJaxpr& j, int indent);
  void print(const Jaxpr& j, int indent);
  void print_eqn(const Jaxpr& j, const Eqn& e, int indent);
  std::string name_of(const Jaxpr& j, Atom a);
  int indent() const { return indent_; }

 private:
  std::string fresh_name();
  void print_body(const Jaxpr& j, int indent);
  void find_shared(const Jaxpr& j);
  // The variables of the jaxpr that a jit equation holds get the names of the equation's, where they have none yet.
  void share_names(const Jaxpr& outer, const Eqn& e);
  std::string name_param(const Eqn& e);
  std::unordered_map<const Jaxpr*, std::unordered_map<VarId, std::string>> names_;
  std::unordered_map<const Jaxpr*, std::vector<bool>> used_;
  std::vector<std::pair<std::string, const Jaxpr*>> shared_;
  bool only_names_ = false;  // nested jaxprs are left out
  int next_ = 0;
  int indent_ = 0;
  int base_ = 0;          // the column where equations begin
  int param_column_ = 0;  // where a parameter's line begins
};

}  // namespace lockstep

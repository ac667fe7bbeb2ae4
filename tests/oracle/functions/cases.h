// Functions that are compared with JAX's, by name. Each file of cases registers its own.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "lockstep/trace/trace.h"

namespace lockstep::oracle {

std::map<std::string, FlatFunction>& cases();

struct Case {
  const char* name;
  std::function<Arrays(const Arrays& a)> run;
};
struct RegisterCases {
  RegisterCases(std::initializer_list<Case> list) {
    for (auto& c : list)
      cases()[c.name] = [run = c.run](std::span<const Array> a) { return run(Arrays(a.begin(), a.end())); };
  }
};

}  // namespace lockstep::oracle

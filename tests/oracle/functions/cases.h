// Functions that are compared with JAX's, by name. Each file of cases registers its own.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <string>

#include "lockstep/trace/trace.h"

namespace lockstep::oracle {

struct NamedCase {
  std::string section;
  FlatFunction run;
};
std::map<std::string, NamedCase>& cases();

struct Case {
  const char* name;
  std::function<Arrays(const Arrays& a)> run;
};
// The section is the test that runs the cases, all of them: numpy for numpy_test.py.
struct RegisterCases {
  RegisterCases(const char* section, std::initializer_list<Case> list);
};

// CASE("sum_0", np::sum(a[0], 0)): a case of the arguments `a` with one result or several.
#define CASE(name, ...)                                       \
  {                                                           \
    name, [](const Arrays& a) { return Arrays{__VA_ARGS__}; } \
  }

}  // namespace lockstep::oracle

// What a process shows on encrypted connections, and whom it believes.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

// All of it checked when it was loaded (distributed/tls.h).
struct Tls {
  std::string certificate, key, ca;  // PEM texts
  std::string name;                  // that every certificate of the gang has to carry
};

// Whether a certificate with these DNS names (or, if it has none, this common name) carries `name`; "*.a.b" stands for
// one label before .a.b.
bool carries_name(const std::vector<std::string>& dns_names, const std::string& common_name, const std::string& name);

// Takes as long for texts that differ in the first byte as for those that differ in the last.
bool equal_in_constant_time(const std::string& a, const std::string& b);

}  // namespace lockstep

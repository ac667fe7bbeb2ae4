#include "lockstep/support/tls.h"

#include <strings.h>

#include <algorithm>
#include <cstddef>

namespace lockstep {
namespace {

bool matches(const std::string& pattern, const std::string& name) {
  if (!pattern.starts_with("*.")) return ::strcasecmp(pattern.c_str(), name.c_str()) == 0;
  std::size_t dot = name.find('.');
  return dot != std::string::npos && dot > 0 && ::strcasecmp(pattern.c_str() + 1, name.c_str() + dot) == 0;
}

}  // namespace

bool carries_name(const std::vector<std::string>& dns_names, const std::string& common_name, const std::string& name) {
  if (dns_names.empty()) return matches(common_name, name);
  return std::any_of(dns_names.begin(), dns_names.end(), [&](const std::string& n) { return matches(n, name); });
}

bool equal_in_constant_time(const std::string& a, const std::string& b) {
  unsigned difference = a.size() != b.size();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

}  // namespace lockstep

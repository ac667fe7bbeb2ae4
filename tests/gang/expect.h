// What the programs of these tests hold to be true.
#pragma once

#include <stdexcept>
#include <string>

inline void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

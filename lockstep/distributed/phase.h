// What this process is doing, in words, so that errors on other processes can say it: "compiling jit(step)",
// "loading data", "all-reduce 3 of launch 17". Outside of any phase it is in "host code".
//
// A phase is entered and left on one thread; if several threads are in phases, the one entered last is reported.
// Entering costs a lock and a string, so it is meant for things that take longer than microseconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace lockstep::distributed {

class PhaseScope {
 public:
  // The user's line (support/location.h) is added where one is known.
  explicit PhaseScope(std::string text);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  std::uint64_t id_;
};

struct PhaseNow {
  std::string text;
  std::chrono::milliseconds age;  // how long it has been in it
};
PhaseNow current_phase();

}  // namespace lockstep::distributed

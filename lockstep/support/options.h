// For structs of options: a first member that cannot be written by position, so that a braced list in a call is never
// taken for options: in sum(x, {0, 1}) it means axes.
#pragma once

namespace lockstep {

class OnlyByName {
 public:
  static constexpr OnlyByName yes() { return OnlyByName(0); }

 private:
  explicit constexpr OnlyByName(int) {}
};

}  // namespace lockstep

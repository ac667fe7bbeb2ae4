// First in every struct of options, so that no option can be written by position: a braced list in a call is never
// taken for options, and in sum(x, {0, 1}) it means axes.
#pragma once

namespace lockstep {

struct OptionsTag {
  explicit OptionsTag() = default;
};

}  // namespace lockstep

// What a process answers to a peer who asks who has arrived at a collective.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::collectives {

struct Answer {
  std::vector<std::int64_t> arrived;  // partitions
  std::string doing;                  // what the process does instead

  // "3,4;waiting in all_reduce psum.1"
  std::string text() const;
  // Of a text that is none of text()'s, what can be made sense of.
  static Answer parse(const std::string& text);
};

}  // namespace lockstep::collectives

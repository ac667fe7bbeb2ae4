#include "lockstep/collectives/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace lockstep::collectives {

std::string Answer::text() const { return fmt::format("{};{}", fmt::join(arrived, ","), doing); }

Answer Answer::parse(const std::string& text) {
  std::size_t semicolon = text.find(';');
  Answer answer;
  if (semicolon == std::string::npos) {
    answer.doing = text;
    return answer;
  }
  answer.doing = text.substr(semicolon + 1);
  for (std::size_t at = 0; at < semicolon;) {
    std::size_t end = std::min(text.find(',', at), semicolon);
    std::int64_t partition = 0;
    auto parsed = std::from_chars(text.data() + at, text.data() + end, partition);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + end) answer.arrived.push_back(partition);
    at = end + 1;
  }
  return answer;
}

}  // namespace lockstep::collectives

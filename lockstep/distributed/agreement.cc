#include "lockstep/distributed/agreement.h"

#include <algorithm>

#include "lockstep/support/error.h"

namespace lockstep::distributed {
namespace {

constexpr std::size_t longest_shown = 300;

std::string plural(const std::vector<int>& processes) {
  return (processes.size() == 1 ? "process " : "processes ") + process_ranges(processes);
}

std::string_view next_line(std::string_view& text) {
  std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string shown(std::string_view line, bool past_end) {
  if (past_end) return "(the text ends here)";
  return line.size() <= longest_shown ? std::string(line) : std::string(line.substr(0, longest_shown)) + " ...";
}

std::string first_difference(const std::vector<VoteResult::Group>& groups, const std::vector<std::string>& texts) {
  if (texts[0].empty() || texts[1].empty()) return "";
  std::string_view a = texts[0], b = texts[1];
  for (int number = 1; !a.empty() || !b.empty(); ++number) {
    bool a_ends = a.empty(), b_ends = b.empty();
    std::string_view line_a = next_line(a), line_b = next_line(b);
    if (a_ends == b_ends && line_a == line_b) continue;
    return fmt::format("\n  first difference, line {}:\n    {}: {}\n    {}: {}", number, plural(groups[0].processes),
                       shown(line_a, a_ends), plural(groups[1].processes), shown(line_b, b_ends));
  }
  return "\n  the texts of what they want to do are equal, the fingerprints are not";
}

}  // namespace

std::vector<std::string> agree(Client& client, const Proposal& proposal, Milliseconds timeout) {
  VoteResult result;
  try {
    result = client.vote({.key = proposal.key,
                          .fingerprint = proposal.fingerprint,
                          .call_site = lockstep::to_string(current_location()),
                          .note = proposal.note,
                          .participants = proposal.participants},
                         timeout);
  } catch (const Error& e) {
    throw Error(e.code(), proposal.operation, e.message());
  }
  if (result.groups.size() <= 1) return std::move(result.notes);
  bool representative = result.groups[0].processes.front() == client.process_id() ||
                        result.groups[1].processes.front() == client.process_id();
  std::string text = representative && proposal.text ? proposal.text() : "";
  std::vector<std::string> texts(2);
  try {
    texts = client.exchange_texts(proposal.key, text);
    texts.resize(2);
  } catch (const Error&) {
    // Whoever had the other text is gone; the difference is reported without it.
  }
  std::string message = fmt::format("the processes are about to do different things as '{}'", proposal.key);
  for (auto& group : result.groups) {
    bool here = std::count(group.processes.begin(), group.processes.end(), client.process_id()) > 0;
    message += fmt::format("\n  {}{}: {}", plural(group.processes), here ? " (this one)" : "",
                           group.call_site.empty() ? "at an unknown line" : "at " + group.call_site);
  }
  throw_error(ErrorCode::diverged, proposal.operation, "{}{}", message, first_difference(result.groups, texts));
}

void agree(Client& client, const std::string& key, const std::string& fingerprint, const std::string& description,
           Milliseconds timeout) {
  agree(client, {.key = key, .fingerprint = fingerprint, .text = [&] { return description; }}, timeout);
}

}  // namespace lockstep::distributed

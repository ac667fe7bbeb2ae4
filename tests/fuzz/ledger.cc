// Texts that peers send of themselves: their launches, and who has arrived at a collective.
#include <vector>

#include "lockstep/collectives/answer.h"
#include "lockstep/collectives/launch_ledger.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using namespace collectives;  // NOLINT

void histories(Choices& choices) {
  std::vector<std::pair<std::string, std::string>> texts;
  for (int n = 2 + choices.below(3); n > 0; --n) texts.emplace_back("process " + std::to_string(n), "");
  for (auto& [name, text] : texts) text = choices.bytes(255);
  std::size_t bytes = 0;
  for (auto& [name, text] : texts) bytes += text.size();
  check(explain(texts).size() < 200 * texts.size() + 4 * bytes, "an explanation of the length of its texts");
}

// What a ledger says of itself, and whatever peers say about it.
void launches(Choices& choices) {
  LaunchLedger mine, theirs;
  std::uint64_t next = 0;
  bool same = true;
  for (int i = 0; i < 400 && !choices.empty(); ++i) {
    switch (choices.below(6)) {
      case 0:
      case 1: {
        LaunchedProgram program{.id = static_cast<std::uint64_t>(choices.below(4)),
                                .name = std::make_shared<const std::string>(choices.bytes(9))};
        mine.begin(program);
        bool other = choices.one_in(8);
        if (other) program.id += 1 + static_cast<std::uint64_t>(choices.below(3));
        same = same && !other;
        theirs.begin(program);
        ++next;
        break;
      }
      case 2:
        mine.intend({.id = static_cast<std::uint64_t>(choices.below(4))});
        break;
      case 3:
        mine.end_intent(static_cast<std::uint64_t>(choices.below(4)));
        break;
      case 4: {
        int peer = choices.below(4);
        std::uint64_t launch = choices.one_in(2) ? choices.bits() : next + static_cast<std::uint64_t>(choices.below(3));
        mine.check(peer, launch, {choices.bits(), choices.bits()});
        break;
      }
      default: {
        std::uint64_t launch = static_cast<std::uint64_t>(choices.byte());
        if (same && launch < next) check(mine.check(1, launch, theirs.stamp(launch)), "equal launches are equal");
      }
    }
  }
  std::string text = explain({{"a", mine.text()}, {"b", theirs.text()}});
  if (same && text.starts_with("launch ")) check(mine.text() != theirs.text(), "what is equal does not differ");
}

void answers(Choices& choices) {
  Input rest = choices.rest();
  Answer answer = Answer::parse(std::string(rest.begin(), rest.end()));
  Answer again = Answer::parse(answer.text());
  check(answer.arrived == again.arrived && answer.doing == again.doing, "the same answer after printing");
}

}  // namespace

void ledger(Input input) {
  Choices choices(input);
  switch (choices.below(3)) {
    case 0:
      return histories(choices);
    case 1:
      return launches(choices);
    default:
      return answers(choices);
  }
}

}  // namespace lockstep::fuzz

// What every process remembers of its launches, so that a process that launches something else, or in another order,
// or leaves one out, is found out without a round trip: frames say what their sender has launched so far.
//
// A launch's stamp is a digest of all programs launched before it on the communicator, and the launch's own program.
// Frames of a launch carry the sender's stamp (transport.h); the receiver compares it with his own, now or, if he has
// not come so far, when he does. Not thread-safe: the owner's lock protects it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/support/location.h"

namespace lockstep::collectives {

struct LaunchedProgram {
  std::uint64_t id = 0;                     // a hash of the program, the same in every process; 0: not compared
  std::shared_ptr<const std::string> name;  // for messages: "jit(step)"
  LocationId where = 0;                     // the line that launches it
};

struct LaunchStamp {
  std::uint64_t history = 0, program = 0;  // 0: unknown, which equals everything
};

class LaunchLedger {
 public:
  // The next launch, numbered from 0. Returns a peer that has said something else about it, if there is one.
  std::optional<int> begin(LaunchedProgram program);
  // A program that is about to become the next launch but waits for something else first: peers that launch another
  // meanwhile are found out. Returns as begin().
  std::optional<int> intend(LaunchedProgram program);
  void end_intent(std::uint64_t program);

  LaunchStamp stamp(std::uint64_t launch) const;
  // What a peer says of a launch. False: it is not what happened here.
  bool check(int peer, std::uint64_t launch, LaunchStamp stamp);

  // The latest launches and those intended, a line each, for explain().
  std::string text() const;

 private:
  struct Record {
    LaunchStamp stamp;
    LaunchedProgram program;
  };
  struct Claim {
    std::uint64_t launch;
    int peer;
    LaunchStamp stamp;
  };
  bool intended(std::uint64_t program) const;

  std::uint64_t next_ = 0, digest_ = 1;  // of everything before `next_`; never 0
  std::deque<Record> records_;           // the latest ones, up to next_ - 1
  std::vector<Claim> claims_;            // of launches that have not begun here; few, so in no order
  std::vector<LaunchedProgram> intents_;
};

// Who differs from whom, in the first launch in which the histories (texts by process name) differ: "launch 17 differs:
// process 0 launches jit(f) (a.cc:3); process 1 launches jit(g) (b.cc:5)".
std::string explain(const std::vector<std::pair<std::string, std::string>>& histories);

}  // namespace lockstep::collectives

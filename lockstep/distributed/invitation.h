// For processes that have a way to talk to each other before they become a gang, as those of an MPI program have
// (lockstep/mpi.h): process 0 makes an invitation and hands its text to the others by that way. And what they tell each
// other there when something goes wrong, so that all end with the same error.
#pragma once

#include <string>
#include <vector>

#include "lockstep/support/error.h"

namespace lockstep::distributed {

struct Invitation {
  std::string address;       // of process 0: HOST:PORT, or several, separated by commas
  std::string bind_address;  // where it listens
  std::string token;

  std::string text() const;
  // Error(invalid_argument) if the text is not one of text()'s.
  static Invitation parse(const std::string& text);
};

// For process 0: a free port and a new token. `host` is the name or address by which the others reach this machine; if
// it is empty, they are told the loopback address if all are on one machine, else all addresses of this machine: first
// that by which it reaches other networks, last its name.
Invitation make_invitation(bool one_machine, const std::string& host);

// 32 hexadecimal digits from the system's source of random numbers. Error(io).
std::string new_token();

// How one process came out of a step that all made.
struct Outcome {
  bool failed = false;
  ErrorCode code = ErrorCode::distributed;
  std::string message;
};
// The one error of all for the outcomes by process: what each of those that failed says, equal texts together. At least
// one has failed.
Error combined_error(const std::string& operation, const std::vector<Outcome>& outcomes);

}  // namespace lockstep::distributed

// Before processes do something together that would hang or corrupt data if one of them did something else, they
// agree on it: each publishes a fingerprint under a key, and learns whether all are equal. One round trip.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/distributed/client.h"

namespace lockstep::distributed {

struct Proposal {
  std::string operation = "agree";  // what the error starts with: "jit"
  std::string key;                  // the same on all participants: "mesh 0, launch 17"
  std::string fingerprint;          // any bytes
  // The text the fingerprint stands for, in lines (program, mesh, shapes). Asked for only after a difference.
  std::function<std::string()> text;
  std::string note;               // handed to all participants
  std::vector<int> participants;  // empty: all processes
};

// Returns the participants' notes, by process id. The call site is the user's current line (support/location.h).
//
// Error(diverged) on every participant if fingerprints differ: which processes differ, the call site of each group,
// the first line in which their texts differ. Error(timeout) if a participant does not come: which, and what it is
// doing instead. Error(peer) if one has died or left. A key is used once.
std::vector<std::string> agree(Client& client, const Proposal& proposal, Milliseconds timeout);
void agree(Client& client, const std::string& key, const std::string& fingerprint, const std::string& description,
           Milliseconds timeout);

}  // namespace lockstep::distributed

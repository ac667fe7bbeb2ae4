// What can end a gang, and the exit codes that say so.
#pragma once

#include <string>
#include <vector>

#include "lockstep/support/error.h"

namespace lockstep::distributed {

enum class FailureKind {
  peer_crashed,      // its connection closed without shutdown(): an exception, a crash, a kill, an early exit
  peer_unreachable,  // no heartbeat: frozen, stopped, or cut off by the network
  peer_preempted,    // its machine is being taken away
  coordinator_lost,  // process 0 or the way to it
  diverged,          // processes want to run different programs
  stalled,           // an operation passed its deadline
};
const char* to_string(FailureKind kind);

// The status a process ends with because its gang failed (docs/operations.md).
inline constexpr int exit_peer_crashed = 81;
inline constexpr int exit_peer_unreachable = 82;
inline constexpr int exit_peer_preempted = 83;
inline constexpr int exit_coordinator_lost = 84;
inline constexpr int exit_diverged = 85;
inline constexpr int exit_stalled = 86;
int exit_code(FailureKind kind);
// What one of these codes means ("a peer crashed"); nullptr for any other status.
const char* describe_exit_code(int status);

struct Failure {
  FailureKind kind;
  std::vector<int> processes;  // those to blame
  std::string message;         // who, how, and the last words they left
};

// The error that `operation` ends with because the gang has failed.
Error to_error(const Failure& failure, const std::string& operation);

}  // namespace lockstep::distributed

#include "lockstep/distributed/failure.h"

namespace lockstep::distributed {

const char* to_string(FailureKind kind) {
  switch (kind) {
    case FailureKind::peer_crashed:
      return "peer crashed";
    case FailureKind::peer_unreachable:
      return "peer unreachable";
    case FailureKind::peer_preempted:
      return "peer preempted";
    case FailureKind::coordinator_lost:
      return "coordinator lost";
    case FailureKind::diverged:
      return "diverged";
    case FailureKind::stalled:
      return "stalled";
  }
  return "failed";
}

int exit_code(FailureKind kind) { return exit_peer_crashed + static_cast<int>(kind); }

const char* describe_exit_code(int status) {
  if (status < exit_peer_crashed || status > exit_stalled) return nullptr;
  return to_string(static_cast<FailureKind>(status - exit_peer_crashed));
}

Error to_error(const Failure& failure, const std::string& operation) {
  ErrorCode code = failure.kind == FailureKind::diverged  ? ErrorCode::diverged
                   : failure.kind == FailureKind::stalled ? ErrorCode::timeout
                                                          : ErrorCode::peer;
  return Error(code, operation, failure.message);
}

}  // namespace lockstep::distributed

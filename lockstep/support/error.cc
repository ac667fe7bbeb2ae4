#include "lockstep/support/error.h"

#include <cstdio>
#include <cstdlib>

namespace lockstep {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return "invalid_argument";
    case ErrorCode::shape:
      return "shape";
    case ErrorCode::dtype:
      return "dtype";
    case ErrorCode::axis:
      return "axis";
    case ErrorCode::tree:
      return "tree";
    case ErrorCode::concretization:
      return "concretization";
    case ErrorCode::escaped_tracer:
      return "escaped_tracer";
    case ErrorCode::missing_rule:
      return "missing_rule";
    case ErrorCode::sharding:
      return "sharding";
    case ErrorCode::donated:
      return "donated";
    case ErrorCode::plugin:
      return "plugin";
    case ErrorCode::compile:
      return "compile";
    case ErrorCode::execution:
      return "execution";
    case ErrorCode::out_of_memory:
      return "out_of_memory";
    case ErrorCode::distributed:
      return "distributed";
    case ErrorCode::peer:
      return "peer";
    case ErrorCode::diverged:
      return "diverged";
    case ErrorCode::timeout:
      return "timeout";
    case ErrorCode::cancelled:
      return "cancelled";
    case ErrorCode::io:
      return "io";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string operation, std::string message, LocationId where)
    : code_(code), where_(where), operation_(std::move(operation)), message_(std::move(message)) {
  what_ = operation_ + ": " + message_;
  if (where_ != 0) what_ += "\n  at " + lockstep::to_string(where_);
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "lockstep: internal error: %s:%d: check failed: %s%s%s\n%s", file, line, condition,
               message.empty() ? "" : ": ", message.c_str(),
               "This is a bug in lockstep, not in your program; please report it with the lines above.\n");
  if (LocationId where = current_location()) std::fprintf(stderr, "It happened for %s.\n", to_string(where).c_str());
  std::abort();
}

}  // namespace lockstep

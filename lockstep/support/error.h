// The two kinds of error. `Error` is the user's: it names the operation first, then what was wrong with which shapes,
// then the user's line, then what would be right. A failed LS_CHECK is ours: a broken invariant, which aborts with a
// report. PJRT, gRPC and system errors are turned into `Error` where they enter.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <source_location>
#include <string>

#include "lockstep/support/location.h"

namespace lockstep {

enum class ErrorCode {
  invalid_argument,  // anything that has no code of its own
  shape,             // shapes that do not fit each other or the operation
  dtype,             // element types that do not fit
  axis,              // an axis or axis name out of range, repeated or unbound
  tree,              // structures that do not match
  concretization,    // a traced value was asked for its value
  escaped_tracer,    // a tracer was used after its trace had ended
  missing_rule,      // a primitive lacks the rule that a transformation needs
  sharding,          // a spec that does not fit the mesh or the shape
  donated,           // a donated buffer was used again
  plugin,            // a PJRT plugin could not be found, loaded or used
  compile,           // the compiler refused a program
  execution,         // a compiled program failed while it ran
  out_of_memory,
  distributed,  // the control plane: initialisation, coordination
  peer,         // another process died, left or stalled
  diverged,     // another process runs a different program
  timeout,
  cancelled,
  io,  // files and directories
};
const char* to_string(ErrorCode code);

class Error : public std::exception {
 public:
  // `operation` is what the user called ("matmul", "grad", "initialize"); `message` says what was wrong, with shapes,
  // and what would be right. The user's line is the current location unless given.
  Error(ErrorCode code, std::string operation, std::string message, LocationId where = current_location());

  const char* what() const noexcept override { return what_.c_str(); }
  ErrorCode code() const noexcept { return code_; }
  const std::string& operation() const noexcept { return operation_; }
  const std::string& message() const noexcept { return message_; }
  std::source_location where() const { return location_of(where_); }
  LocationId location() const noexcept { return where_; }

 private:
  ErrorCode code_;
  LocationId where_;
  std::string operation_, message_, what_;
};

// throw_error(ErrorCode::shape, "dot_general", "contracting sizes differ: {} and {}", a, b)
template <class... Args>
[[noreturn]] void throw_error(ErrorCode code, std::string operation, fmt::format_string<Args...> format,
                              Args&&... args) {
  throw Error(code, std::move(operation), fmt::format(format, std::forward<Args>(args)...));
}

inline std::string check_message() { return {}; }
template <class... Args>
std::string check_message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& message);

}  // namespace lockstep

#define LS_CHECK(condition, ...)                                                                        \
  do {                                                                                                  \
    if (!(condition)) [[unlikely]]                                                                      \
      ::lockstep::check_failed(#condition, __FILE__, __LINE__, ::lockstep::check_message(__VA_ARGS__)); \
  } while (0)

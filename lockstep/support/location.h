// Where in the user's program something was asked for.
//
// Every public function takes a defaulted std::source_location and opens a LocationScope with it. Only the outermost
// scope counts, so a public function that calls others still reports the user's line and never one of the library's.
// While a user's function runs inside the library (tracing), UserCode lifts the scope, so that lines in it are seen.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace lockstep {

using LocationId = std::uint32_t;  // 0: unknown

class LocationScope {
 public:
  explicit LocationScope(const std::source_location& where);
  ~LocationScope();
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;

 private:
  bool outermost_;
};

class UserCode {
 public:
  UserCode();
  ~UserCode();
  UserCode(const UserCode&) = delete;
  UserCode& operator=(const UserCode&) = delete;

 private:
  LocationId saved_id_;
  bool saved_active_;
};

// The outermost open scope's location on this thread; 0 if none is open.
LocationId current_location();
// Sets the location directly, for interpreters that replay equations: rules then report the line of the equation.
class LocationOverride {
 public:
  explicit LocationOverride(LocationId id);
  ~LocationOverride();
  LocationOverride(const LocationOverride&) = delete;
  LocationOverride& operator=(const LocationOverride&) = delete;

 private:
  LocationId saved_id_;
  bool saved_active_;
};

LocationId intern_location(const std::source_location& where);
std::source_location location_of(LocationId id);
std::string to_string(LocationId id);  // "train.cc:42", "" if unknown

}  // namespace lockstep

// Private to the room: the one way in which PJRT functions are called.
//
//   LS_PJRT(PJRT_Client_Compile) compile;   // arguments zeroed, struct_size set
//   compile->client = client;
//   compile(api, ErrorCode::compile);       // throws lockstep::Error whose operation is "PJRT_Client_Compile"
//   use(compile->executable);
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "lockstep/pjrt/handoff.h"
#include "lockstep/support/error.h"
#include "pjrt_c_api.h"

namespace lockstep::pjrt {

// The message and code of `error`, which is destroyed. Codes that do not say what went wrong become `otherwise`.
Error take_error(const PJRT_Api* api, PJRT_Error* error, const char* operation, ErrorCode otherwise);
PJRT_Error_Code code_of(const PJRT_Api* api, const PJRT_Error* error);
[[noreturn]] void throw_missing_function(const PJRT_Api* api, const char* function);
void log_in_destructor(const Error& error) noexcept;
// To be called where something thrown by a plugin was caught: C functions should not throw, but some do.
[[noreturn]] void throw_plugin_exception(const char* function);

template <std::size_t N>
struct Literal {
  char text[N];
  consteval Literal(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};

template <class T>
struct Signature;
template <class R, class A>
struct Signature<R (*PJRT_Api::*)(A*)> {
  using Result = R;
  using Args = A;
};

template <auto Slot, std::size_t StructSize, Literal Name>
class Call {
 public:
  using Args = typename Signature<decltype(Slot)>::Args;
  using Result = typename Signature<decltype(Slot)>::Result;

  Call() {
    std::memset(&args_, 0, sizeof args_);
    args_.struct_size = StructSize;
  }
  Args* operator->() { return &args_; }

  // Whether the plugin has the function: its whole pointer lies inside the table, and is set.
  static bool available(const PJRT_Api* api) {
    auto end = reinterpret_cast<const char*>(&(api->*Slot) + 1) - reinterpret_cast<const char*>(api);
    return static_cast<std::size_t>(end) <= api->struct_size && api->*Slot != nullptr;
  }
  // An error's operation is the function's name unless another is given.
  void operator()(const PJRT_Api* api, ErrorCode otherwise = ErrorCode::plugin, const char* operation = Name.text) {
    if constexpr (std::is_void_v<Result>) {
      raw(api);
    } else {
      if (PJRT_Error* error = raw(api)) [[unlikely]]
        throw take_error(api, error, operation, otherwise);
    }
  }
  // False if the plugin does not implement the function; other errors are thrown.
  bool if_implemented(const PJRT_Api* api) {
    PJRT_Error* error = raw(api);
    if (error == nullptr) return true;
    bool unimplemented = code_of(api, error) == PJRT_Error_Code_UNIMPLEMENTED;
    Error ours = take_error(api, error, Name.text, ErrorCode::plugin);
    if (!unimplemented) throw ours;
    return false;
  }
  // For destructors: an error is logged.
  void no_throw(const PJRT_Api* api) noexcept {
    try {
      (*this)(api);
    } catch (const Error& error) {
      log_in_destructor(error);
    }
  }

 private:
  Result raw(const PJRT_Api* api) {
    if (!available(api)) [[unlikely]]
      throw_missing_function(api, Name.text);
    into_plugin();
    try {
      if constexpr (std::is_void_v<Result>) {
        (api->*Slot)(&args_);
        out_of_plugin();
      } else {
        Result result = (api->*Slot)(&args_);
        out_of_plugin();
        return result;
      }
    } catch (...) {
      throw_plugin_exception(Name.text);
    }
  }

  Args args_;
};

#define LS_PJRT(function) \
  ::lockstep::pjrt::Call<&PJRT_Api::function, static_cast<std::size_t>(function##_Args_STRUCT_SIZE), #function>

}  // namespace lockstep::pjrt

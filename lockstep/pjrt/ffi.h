// XLA's foreign function interface: C++ functions that compiled programs call as custom calls of the typed API.
//
//   void handler(FfiCall& call) { auto later = call.defer(); start_work(..., [later] { later.done(); }); }
//   register_handler<handler>(plugin, "my_target");
//
// A handler runs on a thread of the plugin and must not block: it finishes at once, or defers. Exceptions it throws
// (not after deferring) become the program's error, text whole. Arguments, results and attributes stay valid until the
// call is finished.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/core/dtype.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/support/error.h"

struct PJRT_ExecuteContext;
struct XLA_FFI_Api;
struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;
struct XLA_FFI_Future;

namespace lockstep::pjrt {

struct FfiBuffer {
  void* data;
  DType dtype;
  std::span<const std::int64_t> dims;
  std::size_t bytes;
};

// Finishes a deferred call. Exactly one of `done` and `fail` must be called, once, from any thread. The calling thread
// then runs the program on, up to its next deferred call: never call from a thread that others depend on.
class FfiCompletion {
 public:
  void done() const;
  // Becomes the program's error; its code survives for timeout, cancelled, peer and out_of_memory.
  void fail(const Error& error) const;

 private:
  friend class FfiCall;
  FfiCompletion(const XLA_FFI_Api* api, XLA_FFI_Future* future) : api_(api), future_(future) {}

  const XLA_FFI_Api* api_;
  XLA_FFI_Future* future_;
};

class FfiCall {
 public:
  explicit FfiCall(XLA_FFI_CallFrame* frame) : frame_(frame) {}

  std::size_t argument_count() const;
  std::size_t result_count() const;
  FfiBuffer argument(std::size_t i) const;
  FfiBuffer result(std::size_t i) const;

  // Attributes of the call, by name; Errors of code `execution` if one is missing or of another type.
  std::int64_t integer(std::string_view name) const;
  std::string_view text(std::string_view name) const;
  std::span<const std::int64_t> integers(std::string_view name) const;

  // What the launch's ExecuteContext holds for the type; an Error if it holds nothing. The launch must have a context.
  void* user_data(std::int64_t type) const;

  FfiCompletion defer();

 private:
  XLA_FFI_CallFrame* frame_;
};

// Whether the plugin has the extension in a form that lockstep knows: PJRT C API 0.106 or newer.
bool has_ffi(const Plugin& plugin);

using FfiHandler = void (*)(FfiCall& call);

namespace internal {
XLA_FFI_Error* run_handler(XLA_FFI_CallFrame* frame, FfiHandler handler);
template <FfiHandler Handler>
XLA_FFI_Error* entry(XLA_FFI_CallFrame* frame) {
  return run_handler(frame, Handler);
}
void register_handler(const Plugin& plugin, const std::string& target, const std::string& platform,
                      XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*));
}  // namespace internal

// Registers for all clients of the plugin, for good; again with the same handler does nothing. `platform` is "Host" for
// CPU, "CUDA" for CUDA. Must precede the compile or load of programs that call `target`.
template <FfiHandler Handler>
void register_handler(const Plugin& plugin, const std::string& target, const std::string& platform = "Host") {
  internal::register_handler(plugin, target, platform, &internal::entry<Handler>);
}

// A type of user data; the same id for the same name.
std::int64_t register_user_data_type(const Plugin& plugin, const std::string& name);

// Carries pointers from a launch to the handlers it runs. The context, and what the pointers point to, must live until
// the launch has ended, which may be long after the call that launched it.
class ExecuteContext {
 public:
  explicit ExecuteContext(const Plugin& plugin);
  ExecuteContext(ExecuteContext&& other) noexcept;
  ExecuteContext& operator=(ExecuteContext&& other) noexcept;
  ~ExecuteContext();

  void add(std::int64_t type, void* data);
  PJRT_ExecuteContext* raw() const { return context_; }

 private:
  const Plugin* plugin_;
  PJRT_ExecuteContext* context_ = nullptr;
};

}  // namespace lockstep::pjrt

#include "lockstep/pjrt/api.h"

#include <string>
#include <string_view>

#include "lockstep/support/log.h"

namespace lockstep::pjrt {
namespace {

ErrorCode translate(PJRT_Error_Code code, std::string_view message, ErrorCode otherwise) {
  if (message.find("deleted or donated") != message.npos) return ErrorCode::donated;
  switch (code) {
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return ErrorCode::out_of_memory;
    case PJRT_Error_Code_CANCELLED:
      return ErrorCode::cancelled;
    case PJRT_Error_Code_DEADLINE_EXCEEDED:
      return ErrorCode::timeout;
    case PJRT_Error_Code_UNAVAILABLE:
      return ErrorCode::peer;
    default:
      return otherwise;
  }
}

}  // namespace

PJRT_Error_Code code_of(const PJRT_Api* api, const PJRT_Error* error) {
  LS_PJRT(PJRT_Error_GetCode) code;
  code->error = error;
  code(api);
  return code->code;
}

Error take_error(const PJRT_Api* api, PJRT_Error* error, const char* operation, ErrorCode otherwise) {
  LS_PJRT(PJRT_Error_Message) message;
  message->error = error;
  message(api);
  std::string text(message->message, message->message_size);
  PJRT_Error_Code code = code_of(api, error);
  LS_PJRT(PJRT_Error_Destroy) destroy;
  destroy->error = error;
  destroy(api);
  ErrorCode ours = translate(code, text, otherwise);
  return Error(ours, operation, std::move(text));
}

void throw_missing_function(const PJRT_Api* api, const char* function) {
  throw_error(ErrorCode::plugin, function,
              "the plugin does not have this function: its PJRT C API is {}.{} with a table of {} bytes; use a newer "
              "plugin",
              api->pjrt_api_version.major_version, api->pjrt_api_version.minor_version, api->struct_size);
}

void throw_plugin_exception(const char* function) {
  try {
    throw;
  } catch (const std::exception& error) {
    throw_error(ErrorCode::plugin, function, "the plugin threw an exception: {}", error.what());
  } catch (...) {
    throw_error(ErrorCode::plugin, function, "the plugin threw an exception of an unknown type");
  }
}

void log_in_destructor(const Error& error) noexcept {
  try {
    log::warning("{}", error.what());
  } catch (...) {
  }
}

}  // namespace lockstep::pjrt

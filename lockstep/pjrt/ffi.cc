#include "lockstep/pjrt/ffi.h"

#include <map>
#include <mutex>
#include <utility>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/extensions.h"
#include "xla/ffi/api/c_api.h"

namespace lockstep::pjrt {
namespace {

template <class Args>
Args make_args(std::size_t struct_size) {
  Args args;
  std::memset(&args, 0, sizeof args);
  args.struct_size = struct_size;
  return args;
}

DType dtype_of(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_PRED:
      return DType::bool_;
    case XLA_FFI_DataType_S8:
      return DType::int8;
    case XLA_FFI_DataType_S16:
      return DType::int16;
    case XLA_FFI_DataType_S32:
      return DType::int32;
    case XLA_FFI_DataType_S64:
      return DType::int64;
    case XLA_FFI_DataType_U8:
      return DType::uint8;
    case XLA_FFI_DataType_U16:
      return DType::uint16;
    case XLA_FFI_DataType_U32:
      return DType::uint32;
    case XLA_FFI_DataType_U64:
      return DType::uint64;
    case XLA_FFI_DataType_F16:
      return DType::float16;
    case XLA_FFI_DataType_BF16:
      return DType::bfloat16;
    case XLA_FFI_DataType_F32:
      return DType::float32;
    case XLA_FFI_DataType_F64:
      return DType::float64;
    case XLA_FFI_DataType_C64:
      return DType::complex64;
    case XLA_FFI_DataType_C128:
      return DType::complex128;
    default:
      throw_error(ErrorCode::dtype, "ffi", "XLA element type {} is not supported in custom calls",
                  static_cast<int>(type));
  }
}

FfiBuffer view(const void* buffer) {
  auto& b = *static_cast<const XLA_FFI_Buffer*>(buffer);
  FfiBuffer out{b.data, dtype_of(b.dtype), {b.dims, static_cast<std::size_t>(b.rank)}, 0};
  out.bytes = itemsize(out.dtype);
  for (std::int64_t d : out.dims) out.bytes *= static_cast<std::size_t>(d);
  return out;
}

const void* attribute(const XLA_FFI_Attrs& attrs, std::string_view name, XLA_FFI_AttrType type, const char* kind) {
  for (std::int64_t i = 0; i < attrs.size; ++i)
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) == name) {
      if (attrs.types[i] == type) return attrs.attrs[i];
      throw_error(ErrorCode::execution, "ffi", "the attribute '{}' of a custom call is not {}", name, kind);
    }
  throw_error(ErrorCode::execution, "ffi", "a custom call lacks the attribute '{}'", name);
}

XLA_FFI_Error_Code code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
      return XLA_FFI_Error_Code_DEADLINE_EXCEEDED;
    case ErrorCode::cancelled:
      return XLA_FFI_Error_Code_CANCELLED;
    case ErrorCode::peer:
      return XLA_FFI_Error_Code_UNAVAILABLE;
    case ErrorCode::out_of_memory:
      return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    default:
      return XLA_FFI_Error_Code_INTERNAL;
  }
}

XLA_FFI_Error* make_error(const XLA_FFI_Api* api, XLA_FFI_Error_Code code, const char* text) {
  auto args = make_args<XLA_FFI_Error_Create_Args>(XLA_FFI_Error_Create_Args_STRUCT_SIZE);
  args.message = text;
  args.errc = code;
  return api->XLA_FFI_Error_Create(&args);
}

// Throws the error as ours.
void check(const XLA_FFI_Api* api, XLA_FFI_Error* error, const char* operation) {
  if (error == nullptr) return;
  auto message = make_args<XLA_FFI_Error_GetMessage_Args>(XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE);
  message.error = error;
  api->XLA_FFI_Error_GetMessage(&message);
  std::string text = message.message;
  auto destroy = make_args<XLA_FFI_Error_Destroy_Args>(XLA_FFI_Error_Destroy_Args_STRUCT_SIZE);
  destroy.error = error;
  api->XLA_FFI_Error_Destroy(&destroy);
  throw Error(ErrorCode::execution, operation, text);
}

const FfiExtension* find(const Plugin& plugin) {
  auto* found = static_cast<const FfiExtension*>(plugin.extension(kFfiExtension, sizeof(FfiExtension)));
  bool known =
      found != nullptr && found->register_handler != nullptr && plugin.minor_version() >= kFirstFfiMinorVersion;
  return known ? found : nullptr;
}

const FfiExtension& extension(const Plugin& plugin) {
  auto* found = find(plugin);
  if (found == nullptr)
    throw_error(ErrorCode::plugin, "ffi", "the plugin {} (PJRT C API {}.{}) has no FFI extension that lockstep knows",
                plugin.path(), plugin.major_version(), plugin.minor_version());
  return *found;
}

struct Registry {
  std::mutex mutex;
  std::map<std::pair<const Plugin*, std::string>, XLA_FFI_Error* (*)(XLA_FFI_CallFrame*)> handlers;
  std::map<std::pair<const Plugin*, std::string>, std::int64_t> types;
};
Registry& registry() {
  static auto* r = new Registry;
  return *r;
}

}  // namespace

bool has_ffi(const Plugin& plugin) { return find(plugin) != nullptr; }

void FfiCompletion::done() const {
  auto args = make_args<XLA_FFI_Future_SetAvailable_Args>(XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE);
  args.future = future_;
  into_plugin();
  check(api_, api_->XLA_FFI_Future_SetAvailable(&args), "XLA_FFI_Future_SetAvailable");
}

void FfiCompletion::fail(const Error& error) const {
  auto args = make_args<XLA_FFI_Future_SetError_Args>(XLA_FFI_Future_SetError_Args_STRUCT_SIZE);
  args.future = future_;
  args.error = make_error(api_, code_for(error.code()), error.what());
  into_plugin();
  check(api_, api_->XLA_FFI_Future_SetError(&args), "XLA_FFI_Future_SetError");
}

std::size_t FfiCall::argument_count() const { return static_cast<std::size_t>(frame_->args.size); }
std::size_t FfiCall::result_count() const { return static_cast<std::size_t>(frame_->rets.size); }
FfiBuffer FfiCall::argument(std::size_t i) const { return view(frame_->args.args[i]); }
FfiBuffer FfiCall::result(std::size_t i) const { return view(frame_->rets.rets[i]); }

std::int64_t FfiCall::integer(std::string_view name) const {
  auto& scalar =
      *static_cast<const XLA_FFI_Scalar*>(attribute(frame_->attrs, name, XLA_FFI_AttrType_SCALAR, "an integer"));
  if (scalar.dtype != XLA_FFI_DataType_S64)
    throw_error(ErrorCode::execution, "ffi", "the attribute '{}' of a custom call is not a 64-bit integer", name);
  return *static_cast<const std::int64_t*>(scalar.value);
}

std::string_view FfiCall::text(std::string_view name) const {
  auto& span =
      *static_cast<const XLA_FFI_ByteSpan*>(attribute(frame_->attrs, name, XLA_FFI_AttrType_STRING, "a string"));
  return {span.ptr, span.len};
}

std::span<const std::int64_t> FfiCall::integers(std::string_view name) const {
  auto& array =
      *static_cast<const XLA_FFI_Array*>(attribute(frame_->attrs, name, XLA_FFI_AttrType_ARRAY, "a list of integers"));
  if (array.dtype != XLA_FFI_DataType_S64)
    throw_error(ErrorCode::execution, "ffi", "the attribute '{}' of a custom call does not hold 64-bit integers", name);
  return {static_cast<const std::int64_t*>(array.data), array.size};
}

void* FfiCall::user_data(std::int64_t type) const {
  XLA_FFI_TypeId id{type};
  auto args = make_args<XLA_FFI_ExecutionContext_Get_Args>(XLA_FFI_ExecutionContext_Get_Args_STRUCT_SIZE);
  args.ctx = frame_->ctx;
  args.type_id = &id;
  check(frame_->api, frame_->api->XLA_FFI_ExecutionContext_Get(&args), "XLA_FFI_ExecutionContext_Get");
  return args.data;
}

FfiCompletion FfiCall::defer() {
  auto args = make_args<XLA_FFI_Future_Create_Args>(XLA_FFI_Future_Create_Args_STRUCT_SIZE);
  check(frame_->api, frame_->api->XLA_FFI_Future_Create(&args), "XLA_FFI_Future_Create");
  frame_->future = args.future;
  return FfiCompletion(frame_->api, args.future);
}

XLA_FFI_Error* internal::run_handler(XLA_FFI_CallFrame* frame, FfiHandler handler) {
  // XLA asks once, without arguments, which version the handler speaks.
  for (auto* e = frame->extension_start; e != nullptr; e = e->next)
    if (e->type == XLA_FFI_Extension_Metadata) {
      auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(e)->metadata;
      metadata->api_version.major_version = XLA_FFI_API_MAJOR;
      metadata->api_version.minor_version = XLA_FFI_API_MINOR;
      metadata->traits = 0;
      return nullptr;
    }
  FfiCall call(frame);
  out_of_plugin();
  try {
    handler(call);
    into_plugin();
    return nullptr;
  } catch (const Error& error) {
    return make_error(frame->api, code_for(error.code()), error.what());
  } catch (const std::exception& error) {
    return make_error(frame->api, XLA_FFI_Error_Code_INTERNAL, error.what());
  }
}

void internal::register_handler(const Plugin& plugin, const std::string& target, const std::string& platform,
                                XLA_FFI_Error* (*handler)(XLA_FFI_CallFrame*)) {
  std::lock_guard lock(registry().mutex);
  auto& known = registry().handlers[{&plugin, platform + "/" + target}];
  if (known == handler) return;
  if (known != nullptr)
    throw_error(ErrorCode::invalid_argument, "register_handler", "{} already has another handler", target);
  FfiRegisterHandlerArgs args{};
  args.struct_size = offsetof(FfiRegisterHandlerArgs, traits) + sizeof args.traits;
  args.target_name = target.data();
  args.target_name_size = target.size();
  args.handler = reinterpret_cast<void*>(handler);
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  if (PJRT_Error* error = extension(plugin).register_handler(&args))
    throw take_error(plugin.api(), error, "PJRT_FFI_Register_Handler", ErrorCode::plugin);
  known = handler;
}

std::int64_t register_user_data_type(const Plugin& plugin, const std::string& name) {
  std::lock_guard lock(registry().mutex);
  auto& id = registry().types[{&plugin, name}];
  if (id != 0) return id;
  static FfiTypeInfo info{};
  FfiTypeRegisterArgs args{sizeof args, nullptr, name.data(), name.size(), 0, &info};
  if (PJRT_Error* error = extension(plugin).type_register(&args))
    throw take_error(plugin.api(), error, "PJRT_FFI_Type_Register", ErrorCode::plugin);
  return id = args.type_id;
}

ExecuteContext::ExecuteContext(const Plugin& plugin) : plugin_(&plugin) {
  LS_PJRT(PJRT_ExecuteContext_Create) create;
  create(plugin.api());
  context_ = create->context;
}
ExecuteContext::ExecuteContext(ExecuteContext&& other) noexcept
    : plugin_(other.plugin_), context_(std::exchange(other.context_, nullptr)) {}
ExecuteContext& ExecuteContext::operator=(ExecuteContext&& other) noexcept {
  std::swap(plugin_, other.plugin_);
  std::swap(context_, other.context_);
  return *this;
}
ExecuteContext::~ExecuteContext() {
  if (context_ == nullptr) return;
  LS_PJRT(PJRT_ExecuteContext_Destroy) destroy;
  destroy->context = context_;
  destroy.no_throw(plugin_->api());
}

void ExecuteContext::add(std::int64_t type, void* data) {
  FfiUserDataAddArgs args{sizeof args, nullptr, context_, type, data};
  if (PJRT_Error* error = extension(*plugin_).user_data_add(&args))
    throw take_error(plugin_->api(), error, "PJRT_FFI_UserData_Add", ErrorCode::plugin);
}

}  // namespace lockstep::pjrt

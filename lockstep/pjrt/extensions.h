// Private to the room: argument structs of extensions that the C API header at hand does not declare. Layouts are
// those of PJRT C API 0.106 to 0.115; every extension is looked up with its size before use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pjrt_c_api.h"

namespace lockstep::pjrt {

inline constexpr int kFfiExtension = 5;
inline constexpr int kTransformExtension = 24;

// FFI. The registration struct was another one in old versions.
inline constexpr int kFirstFfiMinorVersion = 106;

struct FfiRegisterHandlerArgs {
  std::size_t struct_size;
  const char* target_name;
  std::size_t target_name_size;
  void* handler;
  const char* platform_name;
  std::size_t platform_name_size;
  std::uint32_t traits;
};
struct FfiTypeInfo {
  void (*deleter)(void*);
  void* serialize;
  void* deserialize;
};
struct FfiTypeRegisterArgs {
  std::size_t struct_size;
  PJRT_Extension_Base* extension_start;
  const char* type_name;
  std::size_t type_name_size;
  std::int64_t type_id;
  FfiTypeInfo* type_info;
};
struct FfiUserDataAddArgs {
  std::size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_ExecuteContext* context;
  std::int64_t type_id;
  void* data;
};
struct FfiExtension {
  PJRT_Extension_Base base;
  PJRT_Error* (*type_register)(FfiTypeRegisterArgs*);
  PJRT_Error* (*user_data_add)(FfiUserDataAddArgs*);
  PJRT_Error* (*register_handler)(FfiRegisterHandlerArgs*);
};
static_assert(sizeof(FfiExtension) == 48 && sizeof(FfiUserDataAddArgs) == 40 && sizeof(FfiTypeRegisterArgs) == 48);

// XlaTransform.
struct TransformString {
  const char* data;
  std::size_t size;
};
struct TransformArgs {
  std::size_t struct_size;
  std::int64_t api_version;
  void* cleanup_data;
  void (*cleanup)(void*);
  bool has_error;
  std::uint32_t error_code;
  TransformString error;
  TransformString module;
  TransformString transformed_module;
  bool changed;
};
struct TransformCallbacks {
  std::int64_t version;
  void (*destroy)(TransformCallbacks*);
  void (*transform)(TransformCallbacks*, TransformArgs*);
};
struct TransformRegisterArgs {
  std::size_t struct_size;
  const char* name;
  std::size_t name_size;
  std::uint32_t stage;
  TransformCallbacks* callbacks;
};
struct TransformExtension {
  PJRT_Extension_Base base;
  PJRT_Error* (*register_transform)(TransformRegisterArgs*);
  void* clear_transform;
};
static_assert(sizeof(TransformExtension) == 40 && sizeof(TransformArgs) == 96 && sizeof(TransformRegisterArgs) == 40);

}  // namespace lockstep::pjrt

// PJRT plugins that misbehave, each in its own way, and two that behave. One library per STUB_KIND:
//   throws_at_load, throws   an exception leaves GetPjrtApi, or PJRT_Client_Create
//   crashes                  PJRT_Client_Create writes to address 0
//   lacks                    the table ends before the functions that ask a client for its devices
//   errors                   PJRT_Client_Create returns an error of two lines
//   no_devices               a client without devices
//   newer                    a table and structs longer than any that lockstep knows, an unknown extension
//   spans                    spans processes: two devices in each, found over the key-value callbacks
// Clients compile nothing: PJRT_Client_Compile fails with what it was asked for.
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "pjrt_c_api.h"

struct PJRT_Error {
  PJRT_Error_Code code;
  std::string text;
};
struct PJRT_DeviceDescription {
  int id, process;
  std::string text;
};
struct PJRT_Device {
  PJRT_DeviceDescription description;
  int local;
};
struct PJRT_Client {
  int process = 0;
  std::vector<PJRT_Device*> all, mine;
};

namespace {

enum Kind { throws_at_load, throws, crashes, lacks, errors, no_devices, newer, spans };
constexpr Kind kind = STUB_KIND;
constexpr const char* platform = "stub";
constexpr int devices_per_process = 2;

PJRT_Error* error(PJRT_Error_Code code, std::string text) { return new PJRT_Error{code, std::move(text)}; }

std::int64_t option(const PJRT_Client_Create_Args* args, const std::string& name, std::int64_t otherwise) {
  for (std::size_t i = 0; i < args->num_options; ++i) {
    const PJRT_NamedValue& v = args->create_options[i];
    if (std::string(v.name, v.name_size) == name && v.type == PJRT_NamedValue_kInt64) return v.int64_value;
  }
  return otherwise;
}

PJRT_Error* callback_error(PJRT_Error_Code code, const char* message, std::size_t size) {
  return error(code, {message, size});
}
PJRT_CallbackError make_error = callback_error;

PJRT_Error* put(const PJRT_Client_Create_Args* args, const std::string& key, const std::string& value) {
  PJRT_KeyValuePutCallback_Args put{};
  put.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  put.key = key.data();
  put.key_size = key.size();
  put.value = value.data();
  put.value_size = value.size();
  put.callback_error = &make_error;
  put.user_arg = args->kv_put_user_arg;
  return args->kv_put_callback(&put);
}

PJRT_Error* get(const PJRT_Client_Create_Args* args, const std::string& key, std::string& value) {
  PJRT_KeyValueGetCallback_Args get{};
  get.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  get.key = key.data();
  get.key_size = key.size();
  get.timeout_in_ms = 20000;
  get.callback_error = &make_error;
  get.user_arg = args->kv_get_user_arg;
  if (PJRT_Error* failed = args->kv_get_callback(&get)) return failed;
  value.assign(get.value, get.value_size);
  get.value_deleter_callback(get.value);
  return nullptr;
}

PJRT_Error* create(PJRT_Client_Create_Args* args) {
  if (kind == throws) throw std::runtime_error("no driver\nof this kind");
  if (kind == crashes) *static_cast<volatile int*>(nullptr) = 1;
  if (kind == errors)
    return error(PJRT_Error_Code_FAILED_PRECONDITION, "no device of this kind;\nis the driver loaded?");
  auto* client = new PJRT_Client;
  auto nodes = option(args, "num_nodes", 1), node = option(args, "node_id", 0);
  client->process = static_cast<int>(node);
  for (std::int64_t n = 0; n < nodes && kind != no_devices; ++n) {
    if (nodes > 1) {
      if (args->kv_get_callback == nullptr || args->kv_put_callback == nullptr)
        return error(PJRT_Error_Code_INVALID_ARGUMENT, "several processes, but no key-value callbacks");
      std::string hello = "process " + std::to_string(node) + " of " + std::to_string(nodes), theirs;
      if (n == 0)
        if (PJRT_Error* failed = put(args, "hello/" + std::to_string(node), hello)) return failed;
      if (PJRT_Error* failed = get(args, "hello/" + std::to_string(n), theirs)) return failed;
      std::string wanted = "process " + std::to_string(n) + " of " + std::to_string(nodes);
      if (theirs != wanted) return error(PJRT_Error_Code_INTERNAL, "'" + theirs + "' is not '" + wanted + "'");
    }
    for (int d = 0; d < devices_per_process; ++d) {
      int id = static_cast<int>(n) * devices_per_process + d;
      auto* device = new PJRT_Device{{id, static_cast<int>(n), "STUB_" + std::to_string(id)}, n == node ? d : -1};
      client->all.push_back(device);
      if (n == node) client->mine.push_back(device);
    }
  }
  args->client = client;
  return nullptr;
}

PJRT_Error* compile(PJRT_Client_Compile_Args* args) {
  // CompileOptionsProto { executable_build_options = 3 { num_partitions = 5 } }, found by its tag after the length.
  std::string options(args->compile_options, args->compile_options_size);
  int partitions = -1;
  if (options.size() > 2 && options[0] == 0x1a)
    for (std::size_t at = 2; at + 1 < options.size() && partitions < 0; at += 2)  // varints of one byte
      if (options[at] == 0x28) partitions = options[at + 1];
  std::string program(args->program->code, args->program->code_size);
  auto mentions = [&](const char* what) { return program.find(what) != program.npos ? " with " : " without "; };
  return error(PJRT_Error_Code_UNIMPLEMENTED,
               "the stub was asked to compile " + std::string(args->program->format, args->program->format_size) +
                   " for " + std::to_string(partitions) + " partitions" + mentions("sdy.mesh") + "a mesh and" +
                   mentions("lockstep_collective") + "collectives of lockstep's");
}

struct NewerApi {
  PJRT_Api known;
  void* unknown[100];
};

const PJRT_Api* table() {
  static NewerApi newer_api;
  PJRT_Api& api = newer_api.known;
  api.struct_size = kind == newer ? sizeof newer_api : std::size_t{PJRT_Api_STRUCT_SIZE};
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = kind == newer ? 999 : PJRT_API_MINOR;
  if (kind == newer) {
    static PJRT_Extension_Base extension;
    extension.struct_size = 4096;
    extension.type = static_cast<PJRT_Extension_Type>(997);
    api.extension_start = &extension;
  }
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete args->error; };
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = args->error->text.data();
    args->message_size = args->error->text.size();
  };
  api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = args->error->code;
    return nullptr;
  };
  api.PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* { return nullptr; };
  api.PJRT_Plugin_Attributes = [](PJRT_Plugin_Attributes_Args* args) -> PJRT_Error* {
    args->attributes = nullptr;
    args->num_attributes = 0;
    return nullptr;
  };
  api.PJRT_Client_Create = create;
  api.PJRT_Client_Destroy = [](PJRT_Client_Destroy_Args* args) -> PJRT_Error* {
    for (PJRT_Device* d : args->client->all) delete d;
    delete args->client;
    return nullptr;
  };
  api.PJRT_Client_PlatformName = [](PJRT_Client_PlatformName_Args* args) -> PJRT_Error* {
    args->platform_name = platform;
    args->platform_name_size = std::strlen(platform);
    return nullptr;
  };
  api.PJRT_Client_PlatformVersion = [](PJRT_Client_PlatformVersion_Args* args) -> PJRT_Error* {
    args->platform_version = "1";
    args->platform_version_size = 1;
    return nullptr;
  };
  api.PJRT_Client_ProcessIndex = [](PJRT_Client_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = args->client->process;
    return nullptr;
  };
  if (kind != lacks) {
    api.PJRT_Client_Devices = [](PJRT_Client_Devices_Args* args) -> PJRT_Error* {
      args->devices = args->client->all.data();
      args->num_devices = args->client->all.size();
      return nullptr;
    };
    api.PJRT_Client_AddressableDevices = [](PJRT_Client_AddressableDevices_Args* args) -> PJRT_Error* {
      args->addressable_devices = args->client->mine.data();
      args->num_addressable_devices = args->client->mine.size();
      return nullptr;
    };
  } else {
    api.struct_size = offsetof(PJRT_Api, PJRT_Client_Devices) + 4;  // half a pointer
  }
  api.PJRT_Device_IsAddressable = [](PJRT_Device_IsAddressable_Args* args) -> PJRT_Error* {
    args->is_addressable = args->device->local >= 0;
    return nullptr;
  };
  api.PJRT_Device_LocalHardwareId = [](PJRT_Device_LocalHardwareId_Args* args) -> PJRT_Error* {
    args->local_hardware_id = args->device->local;
    return nullptr;
  };
  api.PJRT_Device_GetDescription = [](PJRT_Device_GetDescription_Args* args) -> PJRT_Error* {
    args->device_description = &args->device->description;
    return nullptr;
  };
  api.PJRT_DeviceDescription_Id = [](PJRT_DeviceDescription_Id_Args* args) -> PJRT_Error* {
    args->id = args->device_description->id;
    return nullptr;
  };
  api.PJRT_DeviceDescription_ProcessIndex = [](PJRT_DeviceDescription_ProcessIndex_Args* args) -> PJRT_Error* {
    args->process_index = args->device_description->process;
    return nullptr;
  };
  api.PJRT_DeviceDescription_Kind = [](PJRT_DeviceDescription_Kind_Args* args) -> PJRT_Error* {
    args->device_kind = "stub device";
    args->device_kind_size = std::strlen(args->device_kind);
    return nullptr;
  };
  api.PJRT_DeviceDescription_ToString = [](PJRT_DeviceDescription_ToString_Args* args) -> PJRT_Error* {
    args->to_string = args->device_description->text.data();
    args->to_string_size = args->device_description->text.size();
    return nullptr;
  };
  api.PJRT_DeviceDescription_Attributes = [](PJRT_DeviceDescription_Attributes_Args* args) -> PJRT_Error* {
    args->attributes = nullptr;
    args->num_attributes = 0;
    return nullptr;
  };
  api.PJRT_Client_Compile = compile;
  return &api;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  if (kind == throws_at_load) throw std::runtime_error("no license");
  return table();
}

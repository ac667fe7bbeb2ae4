#include "lockstep/pjrt/client.h"

#include <cstdlib>
#include <mutex>

#include "lockstep/pjrt/api.h"
#include "lockstep/pjrt/host_memory.h"
#include "lockstep/pjrt/values.h"

namespace lockstep::pjrt {
namespace {

// The CPU plugin takes the size of its thread pool from the environment only.
class ThreadCount {
 public:
  explicit ThreadCount(std::optional<int> threads) : lock_(mutex()), set_(threads.has_value()) {
    if (!set_) return;
    if (const char* before = std::getenv(kName)) before_ = before;
    setenv(kName, std::to_string(*threads).c_str(), 1);
  }
  ~ThreadCount() {
    if (!set_) return;
    if (before_)
      setenv(kName, before_->c_str(), 1);
    else
      unsetenv(kName);
  }

 private:
  static constexpr const char* kName = "PJRT_NPROC";
  static std::mutex& mutex() {
    static auto* m = new std::mutex;
    return *m;
  }
  std::unique_lock<std::mutex> lock_;
  bool set_;
  std::optional<std::string> before_;
};

char* copy_of(const std::string& text) {
  char* copy = new char[text.size() + 1];
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}
void delete_copy(char* copy) { delete[] copy; }

PJRT_Error_Code code_for(ErrorCode code) {
  switch (code) {
    case ErrorCode::timeout:
      return PJRT_Error_Code_DEADLINE_EXCEEDED;
    case ErrorCode::cancelled:
      return PJRT_Error_Code_CANCELLED;
    case ErrorCode::peer:
      return PJRT_Error_Code_UNAVAILABLE;
    case ErrorCode::invalid_argument:
      return PJRT_Error_Code_INVALID_ARGUMENT;
    default:
      return PJRT_Error_Code_INTERNAL;
  }
}

template <class Args, class F>
PJRT_Error* guarded(Args* args, F&& f) {
  auto fail = [&](PJRT_Error_Code code, std::string_view text) {
    return (*args->callback_error)(code, text.data(), text.size());
  };
  try {
    f();
    return nullptr;
  } catch (const Error& error) {
    return fail(code_for(error.code()), error.what());
  } catch (const std::exception& error) {
    return fail(PJRT_Error_Code_INTERNAL, error.what());
  }
}

PJRT_Error* store_get(PJRT_KeyValueGetCallback_Args* args) {
  return guarded(args, [&] {
    auto& store = *static_cast<KeyValueStore*>(args->user_arg);
    std::string value = store.get({args->key, args->key_size}, std::chrono::milliseconds(args->timeout_in_ms));
    args->value = copy_of(value);
    args->value_size = value.size();
    args->value_deleter_callback = delete_copy;
  });
}

PJRT_Error* store_put(PJRT_KeyValuePutCallback_Args* args) {
  return guarded(args, [&] {
    auto& store = *static_cast<KeyValueStore*>(args->user_arg);
    store.put({args->key, args->key_size}, {args->value, args->value_size});
  });
}

PJRT_Error* store_try_get(PJRT_KeyValueTryGetCallback_Args* args) {
  std::string key(args->key, args->key_size);
  bool missing = false;
  PJRT_Error* error = guarded(args, [&] {
    auto value = static_cast<KeyValueStore*>(args->user_arg)->try_get(key);
    missing = !value.has_value();
    if (missing) return;
    args->value = copy_of(*value);
    args->value_size = value->size();
    args->value_deleter_callback = delete_copy;
  });
  if (!missing) return error;
  std::string text = "no such key: " + key;
  return (*args->callback_error)(PJRT_Error_Code_NOT_FOUND, text.data(), text.size());
}

PJRT_HostBufferSemantics to_c(HostSemantics semantics) {
  switch (semantics) {
    case HostSemantics::copy:
      return PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    case HostSemantics::until_transferred:
      return PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes;
    case HostSemantics::zero_copy:
      return PJRT_HostBufferSemantics_kImmutableZeroCopy;
    case HostSemantics::zero_copy_writable:
      return PJRT_HostBufferSemantics_kMutableZeroCopy;
  }
  LS_CHECK(false);
}

}  // namespace

std::unique_ptr<Client> Client::create(const Plugin& plugin, ClientOptions options) {
  return std::unique_ptr<Client>(new Client(plugin, std::move(options)));
}

Client::Client(const Plugin& plugin, ClientOptions options) : plugin_(plugin), store_(std::move(options.store)) {
  if (options.cpu_device_count) options.extra["cpu_device_count"] = *options.cpu_device_count;
  if (options.asynchronous) options.extra["asynchronous"] = *options.asynchronous;
  if (options.threads && *options.threads < 1)
    throw_error(ErrorCode::invalid_argument, "PJRT_Client_Create", "{} threads were asked for; give 1 or more",
                *options.threads);
  auto values = pjrt::to_c(options.extra);
  LS_PJRT(PJRT_Client_Create) create;
  create->create_options = values.data();
  create->num_options = values.size();
  if (store_.get) {
    create->kv_get_callback = store_get;
    create->kv_put_callback = store_put;
    create->kv_try_get_callback = store_try_get;
    create->kv_get_user_arg = create->kv_put_user_arg = create->kv_try_get_user_arg = &store_;
  }
  {
    ThreadCount count(options.threads);
    create(api());
  }
  client_ = create->client;
  if (client_ == nullptr)
    throw_error(ErrorCode::plugin, "PJRT_Client_Create", "the plugin {} gave neither a client nor an error",
                plugin_.path());
  try {
    describe();
  } catch (...) {
    destroy();
    throw;
  }
}

void Client::describe() {
  LS_PJRT(PJRT_Client_PlatformName) name;
  name->client = client_;
  name(api());
  platform_name_.assign(name->platform_name, name->platform_name_size);
  if (platform_name_ == "cpu") recycle_host_memory(plugin_);
  LS_PJRT(PJRT_Client_PlatformVersion) version;
  version->client = client_;
  version(api());
  platform_version_.assign(version->platform_version, version->platform_version_size);
  LS_PJRT(PJRT_Client_ProcessIndex) process;
  process->client = client_;
  process(api());
  process_index_ = process->process_index;

  LS_PJRT(PJRT_Client_Devices) devices;
  devices->client = client_;
  devices(api());
  for (std::size_t i = 0; i < devices->num_devices; ++i)
    devices_.push_back(&storage_.emplace_back(api(), devices->devices[i]));
  LS_PJRT(PJRT_Client_AddressableDevices) addressable;
  addressable->client = client_;
  addressable(api());
  for (std::size_t i = 0; i < addressable->num_addressable_devices; ++i)
    for (const Device* device : devices_)
      if (device->raw() == addressable->addressable_devices[i]) addressable_.push_back(device);
}

Client::~Client() { destroy(); }

void Client::destroy() noexcept {
  LS_PJRT(PJRT_Client_Destroy) destroy;
  destroy->client = client_;
  destroy.no_throw(api());
}

LoadedExecutable Client::compile(std::string_view program, std::string_view options, ProgramFormat format) const {
  std::string_view name = format == ProgramFormat::mlir ? "mlir" : "hlo";
  PJRT_Program c;
  std::memset(&c, 0, sizeof c);
  c.struct_size = PJRT_Program_STRUCT_SIZE;
  c.code = const_cast<char*>(program.data());
  c.code_size = program.size();
  c.format = name.data();
  c.format_size = name.size();
  LS_PJRT(PJRT_Client_Compile) compile;
  compile->client = client_;
  compile->program = &c;
  compile->compile_options = options.data();
  compile->compile_options_size = options.size();
  compile(api(), ErrorCode::compile);
  return LoadedExecutable(api(), compile->executable);
}

LoadedExecutable Client::deserialize(std::string_view bytes, std::string_view options) const {
  LS_PJRT(PJRT_Executable_DeserializeAndLoad) load;
  load->client = client_;
  load->serialized_executable = bytes.data();
  load->serialized_executable_size = bytes.size();
  load->overridden_serialized_compile_options = options.empty() ? nullptr : options.data();
  load->overridden_serialized_compile_options_size = options.size();
  load(api(), ErrorCode::compile);
  return LoadedExecutable(api(), load->loaded_executable);
}

Buffer Client::buffer_from_host(const HostArray& array, const Device& device) const {
  LS_PJRT(PJRT_Client_BufferFromHostBuffer) make;
  make->client = client_;
  make->data = array.data;
  make->type = pjrt::to_c(array.dtype, "PJRT_Client_BufferFromHostBuffer");
  make->dims = array.dims.data();
  make->num_dims = array.dims.size();
  make->byte_strides = array.byte_strides.empty() ? nullptr : array.byte_strides.data();
  make->num_byte_strides = array.byte_strides.size();
  make->host_buffer_semantics = to_c(array.semantics);
  make->device = device.raw();
  make(api(), ErrorCode::execution);
  Buffer buffer(api(), make->buffer);
  Event done(api(), make->done_with_host_buffer, "PJRT_Client_BufferFromHostBuffer");
  if (array.release) done.on_ready([release = array.release](const Error*) { release(); });
  return buffer;
}

}  // namespace lockstep::pjrt

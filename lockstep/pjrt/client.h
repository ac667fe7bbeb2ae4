// A PJRT client: the devices of one plugin, and what is compiled and stored on them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/pjrt/buffer.h"
#include "lockstep/pjrt/device.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/pjrt/plugin.h"

struct PJRT_Client;

namespace lockstep::pjrt {

// How plugins that span processes (CUDA, TPU) meet their peers. Called from plugin threads; failures are thrown as
// Errors and reach the plugin. Set all three or none.
struct KeyValueStore {
  std::function<std::string(const std::string& key, std::chrono::milliseconds timeout)> get;  // waits for the key
  std::function<void(const std::string& key, const std::string& value)> put;
  std::function<std::optional<std::string>(const std::string& key)> try_get;
};

struct ClientOptions {
  std::optional<std::int64_t> cpu_device_count;
  std::optional<bool> asynchronous;  // CPU: false makes every launch inline
  // CPU: how many threads work within operations, all devices together; never fewer than devices. By default as many
  // as processors this process may run on (its affinity mask counts), or $PJRT_NPROC or $NPROC.
  std::optional<int> threads;
  NamedValues extra;  // the plugin's own options, passed as they are
  KeyValueStore store;
};

enum class HostSemantics {
  copy,                // the memory may change or go when the call returns
  until_transferred,   // it must stay unchanged until `release` is called, which is when the transfer has ended
  zero_copy,           // the buffer may be the memory itself (CPU: if aligned to 64 bytes): unchanged until `release`
  zero_copy_writable,  // the same, and a donating launch may write to the memory
};

struct HostArray {
  const void* data = nullptr;
  DType dtype;
  std::span<const std::int64_t> dims;
  std::span<const std::int64_t> byte_strides;  // row-major if empty
  HostSemantics semantics = HostSemantics::copy;
  // Called once, on any thread, when the memory is no longer read. Must not throw.
  std::function<void()> release;
};

enum class ProgramFormat { mlir, hlo };

class Client {
 public:
  // Errors of code `plugin` hold the plugin's own message; one for unknown options names them.
  static std::unique_ptr<Client> create(const Plugin& plugin, ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Plugin& plugin() const { return plugin_; }
  const PJRT_Api* api() const { return plugin_.api(); }
  const std::string& platform_name() const { return platform_name_; }        // "cpu", "cuda"
  const std::string& platform_version() const { return platform_version_; }  // free text
  int process_index() const { return process_index_; }
  // All devices of the client's processes, and this process's. Pointers live as long as the client.
  std::span<const Device* const> devices() const { return devices_; }
  std::span<const Device* const> addressable_devices() const { return addressable_; }

  // `program` is MLIR text or bytecode, or a serialised HloModuleProto; `options` a serialised CompileOptionsProto
  // (compile/options.h). Refusals are Errors of code `compile` with the compiler's message.
  LoadedExecutable compile(std::string_view program, std::string_view options,
                           ProgramFormat format = ProgramFormat::mlir) const;
  // From LoadedExecutable::serialize(). `options`, if given, override those it was compiled with.
  LoadedExecutable deserialize(std::string_view bytes, std::string_view options = {}) const;

  Buffer buffer_from_host(const HostArray& array, const Device& device) const;

 private:
  Client(const Plugin& plugin, ClientOptions options);
  void describe();
  void destroy() noexcept;

  const Plugin& plugin_;
  KeyValueStore store_;
  PJRT_Client* client_ = nullptr;
  std::string platform_name_, platform_version_;
  int process_index_ = 0;
  std::deque<Device> storage_;
  std::vector<const Device*> devices_, addressable_;
};

}  // namespace lockstep::pjrt

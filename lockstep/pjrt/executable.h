// A compiled program, loaded on a client. The client must outlive it. Launching is safe from several threads.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/core/dtype.h"
#include "lockstep/pjrt/buffer.h"

struct PJRT_Executable;
struct PJRT_ExecuteContext;
struct PJRT_LoadedExecutable;

namespace lockstep::pjrt {

class Device;

struct TensorType {
  DType dtype;
  std::vector<std::int64_t> dims;
  bool operator==(const TensorType&) const = default;
};

struct CompiledMemoryStats {  // bytes
  std::int64_t generated_code = 0, arguments = 0, outputs = 0, aliased = 0, temporaries = 0, peak = 0;
};

struct Launch {
  const Device* device = nullptr;                      // needed for portable executables; else the compiled one
  PJRT_ExecuteContext* context = nullptr;              // for FFI handlers (ffi.h); must outlive the launch
  std::span<const std::int64_t> non_donatable_inputs;  // indices kept although the program aliases them
};

class LoadedExecutable {
 public:
  LoadedExecutable() = default;
  LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* executable);  // takes ownership
  LoadedExecutable(LoadedExecutable&& other) noexcept { swap(other); }
  LoadedExecutable& operator=(LoadedExecutable&& other) noexcept {
    swap(other);
    return *this;
  }
  ~LoadedExecutable();

  explicit operator bool() const { return executable_ != nullptr; }
  PJRT_LoadedExecutable* raw() const { return executable_; }
  std::size_t output_count() const { return output_count_; }

  // The hot path: launches on one device; `outputs` has output_count() slots and receives buffers that the caller
  // owns. Returns when the work is enqueued, or done where the plugin runs it inline. Allocates nothing here.
  // Errors: `donated` for a deleted input, `execution` for what else fails before or in an inline run; later failures
  // arrive at the outputs' ready events. After a failed launch donated inputs may be gone.
  // `done`, if given, becomes ready, or fails, when the whole launch has ended.
  void launch(std::span<PJRT_Buffer* const> inputs, PJRT_Buffer** outputs, const Launch& launch = {},
              Event* done = nullptr) const;
  // The same with owners.
  std::vector<Buffer> execute(std::span<const Buffer* const> inputs, const Launch& launch = {},
                              Event* done = nullptr) const;
  // Launches a program of several partitions on all its devices of this process at once, in the order of partitions:
  // inputs and result slots by device. Of `launch` only non_donatable_inputs counts.
  void launch_all(std::span<const std::vector<PJRT_Buffer*>> inputs, std::span<std::vector<PJRT_Buffer*>> outputs,
                  const Launch& launch = {}) const;
  // The same with owners.
  std::vector<std::vector<Buffer>> execute_all(std::span<const std::vector<const Buffer*>> inputs) const;

  std::string name() const;
  std::vector<TensorType> output_types() const;
  std::vector<int> addressable_device_ids() const;
  // Loadable with Client::deserialize on a client of the same plugin version and processor.
  std::string serialize() const;
  struct Program {
    std::string format;  // "hlo_with_config", "hlo", "mlir"
    std::string bytes;
  };
  Program optimized_program() const;
  // "flops", "bytes accessed", ...; empty where the plugin does not tell (CPU).
  std::optional<std::map<std::string, double>> cost_analysis() const;
  CompiledMemoryStats memory_stats() const;

 private:
  void swap(LoadedExecutable& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(executable_, other.executable_);
    std::swap(description_, other.description_);
    std::swap(output_count_, other.output_count_);
  }

  const PJRT_Api* api_ = nullptr;
  PJRT_LoadedExecutable* executable_ = nullptr;
  PJRT_Executable* description_ = nullptr;
  std::size_t output_count_ = 0;
};

}  // namespace lockstep::pjrt

#include "lockstep/runtime/backend.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "lockstep/distributed/client.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"

namespace lockstep::runtime {
namespace {

constexpr int kCpuDevicesPerProcess = 2048;

std::mutex creation;
std::atomic<Backend*> created = nullptr;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void require_known_platforms() {
  std::string_view names = environment("JAX_PLATFORMS"), left = names;
  while (!left.empty()) {
    std::string_view name = left.substr(0, left.find(','));
    left.remove_prefix(std::min(left.size(), name.size() + 1));
    if (name != "cpu")
      throw_error(ErrorCode::plugin, "backend",
                  "JAX_PLATFORMS={} names the platform '{}', for which no plugin is known; there is 'cpu' ({})", names,
                  name, pjrt::find_cpu_plugin());
  }
}

// What initialize() has to know of what lies above it.
struct InstallHooks {
  InstallHooks() {
    distributed::RuntimeHooks hooks;
    hooks.backend_created = is_backend_created;
    hooks.local_device_count = [](const std::vector<int>& ids) {
      return ids.empty() ? planned_local_device_count() : static_cast<int>(ids.size());
    };
    hooks.plugin = []() -> std::string {
      const pjrt::Plugin& plugin = pjrt::Plugin::load(pjrt::find_cpu_plugin());
      return fmt::format("cpu, PJRT C API {}.{}", plugin.major_version(), plugin.minor_version());
    };
    hooks.settings = [] {
      return std::map<std::string, std::string>{{"jax_enable_x64", config::enable_x64() ? "true" : "false"}};
    };
    distributed::set_runtime_hooks(hooks);
  }
} install_hooks;

}  // namespace

int planned_local_device_count() {
  if (Backend* b = created.load(std::memory_order_acquire)) return static_cast<int>(b->local_devices().size());
  std::string_view text = environment("JAX_NUM_CPU_DEVICES");
  int count = 1;
  if (text.empty() || text == "-1") return count;
  auto [end, error] = std::from_chars(text.begin(), text.end(), count);
  if (error != std::errc() || end != text.end() || count < 1 || count > kCpuDevicesPerProcess)
    throw_error(ErrorCode::invalid_argument, "backend", "JAX_NUM_CPU_DEVICES={} is not a number from 1 to {}", text,
                kCpuDevicesPerProcess);
  return count;
}

Backend::Backend() {
  require_known_platforms();
  process_index_ = distributed::process_index();
  process_count_ = distributed::process_count();
  int count = planned_local_device_count();
  client_ = pjrt::Client::create(pjrt::Plugin::load(pjrt::find_cpu_plugin()), {.cpu_device_count = count});
  host_readable_ = platform() == "cpu";
  for (const pjrt::Device* d : client_->addressable_devices())
    local_.push_back({.id = process_index_ * kCpuDevicesPerProcess + d->local_hardware_id(),
                      .process_index = process_index_,
                      .local_hardware_id = d->local_hardware_id(),
                      .platform = platform(),
                      .kind = d->kind()});
  if (process_count_ == 1) {
    devices_ = local_;
    return;
  }
  // The others' devices, by the numbers that they registered with.
  auto& members = distributed::client().members();
  for (int p = 0; p < process_count_; ++p)
    for (int i = 0; i < members[static_cast<std::size_t>(p)].local_devices; ++i)
      devices_.push_back({.id = p * kCpuDevicesPerProcess + i,
                          .process_index = p,
                          .local_hardware_id = i,
                          .platform = platform(),
                          .kind = local_.front().kind});
}

int Backend::local_index(int device_id) const {
  for (std::size_t i = 0; i < local_.size(); ++i)
    if (local_[i].id == device_id) return static_cast<int>(i);
  return -1;
}

const Device& Backend::device(int device_id) const {
  for (const Device& d : devices_)
    if (d.id == device_id) return d;
  std::string ids;
  for (const Device& d : devices_) ids += (ids.empty() ? "" : ", ") + std::to_string(d.id);
  throw_error(ErrorCode::invalid_argument, "device", "there is no device {}; there are {}", device_id, ids);
}

pjrt::Client& Backend::partitioner(int partitions) {
  std::lock_guard lock(mutex_);
  auto& client = partitioners_[partitions];
  if (!client) client = pjrt::Client::create(client_->plugin(), {.cpu_device_count = partitions});
  return *client;
}

Backend& backend() {
  if (Backend* b = created.load(std::memory_order_acquire)) return *b;
  std::lock_guard lock(creation);
  if (Backend* b = created.load(std::memory_order_acquire)) return *b;
  Backend* b = new Backend;
  created.store(b, std::memory_order_release);
  return *b;
}
bool is_backend_created() { return created.load(std::memory_order_acquire) != nullptr; }

}  // namespace lockstep::runtime

#include "lockstep/runtime/backend.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "lockstep/distributed/client.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/runtime/cpu_features.h"
#include "lockstep/runtime/gang.h"
#include "lockstep/runtime/platforms.h"
#include "lockstep/runtime/transports.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/support/log.h"

namespace lockstep::runtime {
namespace {

std::mutex creation;
std::atomic<Backend*> created = nullptr;
Backend* before = nullptr;  // of the gang that this process was in before

// The first place that works; `reasons` gets a line for each that does not.
std::unique_ptr<pjrt::Client> try_platform(const PlatformChoice& choice, std::string& reasons) {
  for (const pjrt::PluginPlace& place : choice.places) {
    try {
      return make_client(choice.platform, place);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::invalid_argument && error.operation() == "backend") throw;  // the user's setting
      reasons += fmt::format("\n  {} ({}): {}", place.path.empty() ? choice.platform : place.path, place.source,
                             reason_of(error));
    }
  }
  return nullptr;
}

bool cpu_comes_first() { return platform_choices().front().platform == "cpu"; }

// What initialize() has to know of what lies above it.
struct InstallHooks {
  InstallHooks() {
    distributed::RuntimeHooks hooks;
    hooks.backend_created = is_backend_created;
    // Which devices are this process's is a question of what a machine has; CPU devices are each process's own.
    hooks.local_device_count = [](const std::vector<int>& ids) {
      bool all = ids.empty() || cpu_comes_first();
      return all ? planned_local_device_count() : static_cast<int>(ids.size());
    };
    hooks.plugin = plugin_identity;
    hooks.outstanding = outstanding_collectives;
    hooks.left = [] {
      end_gang();
      end_backend();
      config::next_gang();
    };
    hooks.settings = [] {
      std::map<std::string, std::string> out{{"jax_enable_x64", config::enable_x64() ? "true" : "false"}};
      if (const char* route = std::getenv("LOCKSTEP_PARTITION_ROUTE")) out["LOCKSTEP_PARTITION_ROUTE"] = route;
      const char* mixed = std::getenv("LOCKSTEP_MIXED_CPUS");
      bool may_differ = mixed != nullptr && std::string_view(mixed) == "1";
      if (cpu_comes_first())
        out["CPU features (LOCKSTEP_MIXED_CPUS=1 lets them differ)"] = may_differ ? "any" : local_cpu_features();
      out.merge(transport_settings());
      return out;
    };
    distributed::set_runtime_hooks(hooks);
  }
} install_hooks;

}  // namespace

int planned_local_device_count() {
  if (Backend* b = created.load(std::memory_order_acquire)) return static_cast<int>(b->local_devices().size());
  {
    std::lock_guard lock(creation);
    if (before != nullptr) return static_cast<int>(before->local_devices().size());
  }
  return cpu_comes_first() ? cpu_device_count() : 0;
}

Backend::Backend(const Backend* before) {
  process_index_ = distributed::process_index();
  process_count_ = distributed::process_count();
  if (before != nullptr && before->is_cpu_)
    client_ = before->client_;
  else
    make_client();
  host_readable_ = platform() == "cpu";
  if (!is_cpu_) {  // the plugin knows the others' devices, and numbers all of them
    for (const pjrt::Device* d : client_->devices())
      devices_.push_back({.id = d->id(),
                          .process_index = d->process_index(),
                          .local_hardware_id = d->local_hardware_id(),
                          .platform = platform(),
                          .kind = d->kind()});
    for (const pjrt::Device* d : client_->addressable_devices())
      for (const Device& known : devices_)
        if (known.id == d->id()) local_.push_back(known);
    default_sharding_ = &single_device_sharding(local_.front().id);
    return;
  }
  for (const pjrt::Device* d : client_->addressable_devices())
    local_.push_back({.id = process_index_ * kCpuDevicesPerProcess + d->local_hardware_id(),
                      .process_index = process_index_,
                      .local_hardware_id = d->local_hardware_id(),
                      .platform = platform(),
                      .kind = d->kind()});
  default_sharding_ = &single_device_sharding(local_.front().id);
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

void Backend::make_client() {
  std::string names = named_platforms(), reasons;
  std::vector<PlatformChoice> choices = platform_choices();
  for (const PlatformChoice& choice : choices) {
    std::string why;
    client_ = try_platform(choice, why);
    is_cpu_ = choice.platform == "cpu";
    if (client_) {
      if (!reasons.empty()) log::warning("plugins that cannot be used are passed over:{}", reasons);
      return;
    }
    reasons += why;
    if (!names.empty())
      throw_error(ErrorCode::plugin, "backend", "JAX_PLATFORMS={}, but the platform '{}' cannot be used:{}", names,
                  choice.platform, reasons);
    // Processes that fall back each by itself might end on different platforms.
    if (process_count_ > 1 && !is_cpu_)
      throw_error(ErrorCode::plugin, "backend",
                  "the platform '{}' cannot be used, and none is passed over in a gang; set JAX_PLATFORMS=cpu on every "
                  "process to do without it:{}",
                  choice.platform, reasons);
  }
  throw_error(ErrorCode::plugin, "backend", "no plugin can be used:{}", reasons);
}

int Backend::local_index(int device_id) const {
  for (std::size_t i = 0; i < local_.size(); ++i)
    if (local_[i].id == device_id) return static_cast<int>(i);
  return -1;
}

int Backend::plugin_id(int device_id) const {
  return is_cpu_ ? local_device(local_index(device_id)).id() : device(device_id).id;
}

const Device& Backend::device(int device_id) const {
  for (const Device& d : devices_)
    if (d.id == device_id) return d;
  std::string ids;
  for (const Device& d : devices_) ids += (ids.empty() ? "" : ", ") + std::to_string(d.id);
  throw_error(ErrorCode::invalid_argument, "device", "there is no device {}; there are {}", device_id, ids);
}

pjrt::Client& Backend::partitioner(int partitions) {
  LS_CHECK(is_cpu_, "only CPU programs are partitioned by lockstep");
  static auto* mutex = new std::mutex;
  static auto* partitioners = new std::map<int, std::unique_ptr<pjrt::Client>>;
  std::lock_guard lock(*mutex);
  auto& client = (*partitioners)[partitions];
  if (!client) client = pjrt::Client::create(client_->plugin(), {.cpu_device_count = partitions});
  return *client;
}

Backend& backend() {
  if (Backend* b = created.load(std::memory_order_acquire)) return *b;
  std::lock_guard lock(creation);
  if (Backend* b = created.load(std::memory_order_acquire)) return *b;
  Backend* b = new Backend(before);
  created.store(b, std::memory_order_release);
  return *b;
}

void end_backend() {
  std::lock_guard lock(creation);
  if (Backend* b = created.exchange(nullptr)) before = b;
}
bool is_backend_created() { return created.load(std::memory_order_acquire) != nullptr; }

}  // namespace lockstep::runtime

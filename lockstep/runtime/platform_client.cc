#include <charconv>
#include <cstdlib>
#include <string_view>

#include "lockstep/distributed/client.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/runtime/platforms.h"
#include "lockstep/support/error.h"

namespace lockstep::runtime {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What CUDA and ROCm plugins are told, from the variables by which JAX is told.
pjrt::NamedValues gpu_options(const std::string& platform) {
  pjrt::NamedValues out;
  out["platform_name"] = platform;
  auto number = [](const char* name, std::string_view text) {
    double value = 0;
    auto [end, error] = std::from_chars(text.begin(), text.end(), value);
    if (error != std::errc() || end != text.end())
      throw_error(ErrorCode::invalid_argument, "backend", "{}={} is not a number", name, text);
    return value;
  };
  if (auto text = environment("XLA_PYTHON_CLIENT_ALLOCATOR"); !text.empty()) out["allocator"] = std::string(text);
  for (const char* name : {"XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"})
    if (auto text = environment(name); !text.empty()) {
      out["memory_fraction"] = static_cast<float>(number(name, text));
      break;
    }
  if (auto text = environment("XLA_PYTHON_CLIENT_PREALLOCATE"); !text.empty())
    out["preallocate"] = text != "0" && text != "false" && text != "False";
  constexpr const char* collective = "XLA_PYTHON_CLIENT_COLLECTIVE_MEM_SIZE_MB";
  if (auto text = environment(collective); !text.empty())
    out["collective_memory_size"] = static_cast<std::int64_t>(number(collective, text)) << 20;
  std::vector<std::int64_t> visible;
  for (int id : distributed::local_device_ids()) visible.push_back(id);
  if (!visible.empty()) out["visible_devices"] = visible;
  return out;
}

// How a plugin that spans processes meets its peers: over the gang's control channel.
pjrt::KeyValueStore control_store(const std::string& platform) {
  auto path = [platform](const std::string& key) { return "lockstep/pjrt/" + platform + "/" + key; };
  return {
      .get = [path](const std::string& key,
                    std::chrono::milliseconds timeout) { return distributed::client().get(path(key), timeout); },
      .put = [path](const std::string& key,
                    const std::string& value) { distributed::client().set(path(key), value, true); },
      .try_get = [path](const std::string& key) { return distributed::client().try_get(path(key)); },
  };
}

}  // namespace

std::unique_ptr<pjrt::Client> make_client(const std::string& platform, const pjrt::PluginPlace& place) {
  if (place.path.empty()) throw_error(ErrorCode::plugin, "backend", "{}", place.problem);
  const pjrt::Plugin& plugin = pjrt::Plugin::load(place.path);
  pjrt::ClientOptions options;
  if (platform == "cpu") {
    options.cpu_device_count = cpu_device_count();
  } else {
    if (platform == "cuda" || platform == "rocm") options.extra = gpu_options(platform);
    if (distributed::process_count() > 1) {
      options.extra["node_id"] = std::int64_t{distributed::process_index()};
      options.extra["num_nodes"] = std::int64_t{distributed::process_count()};
      options.store = control_store(platform);
    }
  }
  auto client = pjrt::Client::create(plugin, std::move(options));
  if (client->addressable_devices().empty())
    throw_error(ErrorCode::plugin, "backend", "it has no device that this process can use");
  if (client->process_index() != distributed::process_index() && platform != "cpu")
    throw_error(ErrorCode::plugin, "backend", "it takes this process for number {}, which is number {}",
                client->process_index(), distributed::process_index());
  return client;
}

int cpu_device_count() {
  std::string_view text = environment("JAX_NUM_CPU_DEVICES");
  int count = 1;
  if (text.empty() || text == "-1") return count;
  auto [end, error] = std::from_chars(text.begin(), text.end(), count);
  if (error != std::errc() || end != text.end() || count < 1 || count > kCpuDevicesPerProcess)
    throw_error(ErrorCode::invalid_argument, "backend", "JAX_NUM_CPU_DEVICES={} is not a number from 1 to {}", text,
                kCpuDevicesPerProcess);
  return count;
}

}  // namespace lockstep::runtime

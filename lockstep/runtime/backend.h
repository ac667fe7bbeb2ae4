// The PJRT clients behind the devices of this process and its gang. Made on first use, then immortal: static arrays may
// outlive main. When the process has left its gang the next use makes another, with the same clients where they do not
// know of the gang (CPU): arrays on local devices live on.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep::runtime {

class Backend {
 public:
  const std::string& platform() const { return client_->platform_name(); }
  pjrt::Client& client() const { return *client_; }  // of this process's devices alone
  std::span<const Device> devices() const { return devices_; }
  std::span<const Device> local_devices() const { return local_; }
  int process_index() const { return process_index_; }
  int process_count() const { return process_count_; }
  // The place of a device among the local ones; -1 if it is another process's or does not exist.
  int local_index(int device_id) const;
  const Device& device(int device_id) const;  // Error(invalid_argument) if there is none, naming those there are
  // What the plugin calls a device: the same on all but CPU, where plugins number their own devices from 0. The device
  // must be local on CPU.
  int plugin_id(int device_id) const;
  const pjrt::Device& local_device(int local_index) const { return *client_->addressable_devices()[local_index]; }
  const pjrt::Device& default_device() const { return local_device(0); }
  const Sharding& default_sharding() const { return *default_sharding_; }
  // Buffers' addresses can be read by this process.
  bool host_readable() const { return host_readable_; }

  // Whether programs over a mesh are compiled once, for all its devices, by the plugin alone, which then carries their
  // collectives: all but the CPU, where that is lockstep's work.
  bool plugin_spans_processes() const { return !is_cpu_; }

  // CPU: a client with that many virtual devices, where programs are partitioned and never run. Made on demand.
  pjrt::Client& partitioner(int partitions);

 private:
  friend Backend& backend();
  explicit Backend(const Backend* before);
  void make_client();

  std::shared_ptr<pjrt::Client> client_;
  std::vector<Device> devices_, local_;
  int process_index_ = 0, process_count_ = 1;
  bool host_readable_ = false, is_cpu_ = true;
  const Sharding* default_sharding_;
};

// On the platform that platforms.h chooses. Error(plugin) if a named platform cannot be had, with the reason of each
// place that was tried; without JAX_PLATFORMS, what fails is passed over with a warning, but not in a gang.
// Plugins other than the CPU's are told the process's number, the number of processes, and get the gang's key-value
// store to meet their peers; their devices and the numbers of these are what they say.
// JAX_NUM_CPU_DEVICES is the number of local CPU devices (default 1). A failed call may be repeated.
Backend& backend();
bool is_backend_created();
// The process has left its gang: the next call of backend() makes one for the next.
void end_backend();

// How many local devices the backend has or will have, without making it; 0 if only the plugin can tell.
int planned_local_device_count();

}  // namespace lockstep::runtime

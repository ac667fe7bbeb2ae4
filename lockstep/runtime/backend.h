// The PJRT clients behind the devices of this process and its gang. Made on first use, then immortal: static arrays may
// outlive main.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "lockstep/pjrt/client.h"
#include "lockstep/runtime/devices.h"

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
  const pjrt::Device& local_device(int local_index) const { return *client_->addressable_devices()[local_index]; }
  const pjrt::Device& default_device() const { return local_device(0); }
  // Buffers' addresses can be read by this process.
  bool host_readable() const { return host_readable_; }

  // A client with that many virtual devices, where programs are partitioned and never run. Made on demand.
  pjrt::Client& partitioner(int partitions);

 private:
  friend Backend& backend();
  Backend();

  std::unique_ptr<pjrt::Client> client_;
  std::vector<Device> devices_, local_;
  int process_index_ = 0, process_count_ = 1;
  bool host_readable_ = false;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<pjrt::Client>> partitioners_;
};

// Error(plugin) if JAX_PLATFORMS (in its order; unset: the CPU) names a platform that cannot be had, with the reason.
// JAX_NUM_CPU_DEVICES is the number of local CPU devices (default 1). A failed call may be repeated.
Backend& backend();
bool is_backend_created();

// How many local devices the backend has or will have, without making it.
int planned_local_device_count();

}  // namespace lockstep::runtime

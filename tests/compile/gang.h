// A gang whose processes are threads of this one: each has a client with its own devices and loads the same program.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/collectives/local_transport.h"
#include "lockstep/compile/inject.h"
#include "lockstep/runtime/collective_handler.h"

namespace lockstep::compile {

using namespace std::chrono_literals;
using Bytes = std::vector<std::byte>;

inline const pjrt::Plugin& cpu_plugin() { return pjrt::Plugin::load(pjrt::find_cpu_plugin()); }
// A client of four virtual devices.
inline const pjrt::Client& partitioner() {
  static auto* client = pjrt::Client::create(cpu_plugin(), {.cpu_device_count = 4}).release();
  return *client;
}

struct HostTensor {
  pjrt::TensorType type;
  Bytes bytes;
};
using Inputs = std::vector<HostTensor>;  // of one partition

inline pjrt::Buffer put(const pjrt::Client& client, const HostTensor& tensor, const pjrt::Device& device) {
  return client.buffer_from_host({.data = tensor.bytes.data(), .dtype = tensor.type.dtype, .dims = tensor.type.dims},
                                 device);
}
inline Bytes get(const pjrt::Buffer& buffer) {
  std::size_t n = itemsize(buffer.dtype());
  for (auto d : buffer.dims()) n *= static_cast<std::size_t>(d);
  Bytes bytes(n);
  buffer.to_host(bytes).await_for(30s);
  return bytes;
}

class Gang {
 public:
  // The first process injects; the others load its serialised executable, as from a cache.
  Gang(const PartitionedProgram& program, int processes, int devices_each, Route route = Route::hook)
      : devices_each_(devices_each) {
    runtime::register_collective_handlers(cpu_plugin());
    collectives::LocalFabric fabric(processes);
    collectives::Communicator mesh{.id = 1, .processes = {}};
    for (int p = 0; p < processes * devices_each; ++p) mesh.processes.push_back(p / devices_each);
    std::string bytes;
    for (int p = 0; p < processes; ++p) {
      engines_.push_back(
          std::make_unique<collectives::Engine>(fabric.transport(p), collectives::EngineOptions{.deadline = 20s}));
      engines_[p]->add_communicator(mesh);
      programs_.push_back(std::make_shared<runtime::CollectiveProgram>(*engines_[p], mesh.id));
      clients_.push_back(pjrt::Client::create(cpu_plugin(), {.cpu_device_count = devices_each}));
      executables_.push_back(p == 0 ? inject(*clients_[0], program, {}, route) : clients_[p]->deserialize(bytes));
      if (p == 0) bytes = executables_[0].serialize();
    }
  }

  collectives::Engine& engine(int process) { return *engines_[process]; }
  // Whether any collective ran over the engines.
  bool has_exchanged() const { return !engines_[0]->statistics().empty(); }

  // Launches every partition, from one thread per process or per device, and returns every partition's results.
  // The first error is thrown after all have ended.
  std::vector<std::vector<Bytes>> run(const std::vector<Inputs>& inputs, bool thread_per_device = true) {
    std::uint64_t number = launches_++;
    std::vector<std::vector<pjrt::Buffer>> in(inputs.size()), out(inputs.size());
    std::vector<std::vector<Bytes>> results(inputs.size());
    std::vector<std::exception_ptr> errors(inputs.size());
    auto guarded = [&](std::size_t partition, auto&& body) {
      try {
        body();
      } catch (...) {
        errors[partition] = std::current_exception();
      }
    };
    auto launch = [&](std::size_t partition) {
      guarded(partition, [&] {
        std::size_t process = partition / devices_each_, local = partition % devices_each_;
        const pjrt::Client& client = *clients_[process];
        const pjrt::Device& device = *client.addressable_devices()[local];
        std::vector<PJRT_Buffer*> arguments, outputs(executables_[process].output_count());
        for (const HostTensor& t : inputs[partition]) in[partition].push_back(put(client, t, device));
        for (const pjrt::Buffer& b : in[partition]) arguments.push_back(b.raw());
        runtime::launch_partition(cpu_plugin(), executables_[process], programs_[process], number,
                                  static_cast<std::int64_t>(partition), device, arguments, outputs.data());
        for (PJRT_Buffer* b : outputs) out[partition].emplace_back(client.api(), b);
      });
    };
    auto collect = [&](std::size_t partition) {
      guarded(partition, [&] {
        for (const pjrt::Buffer& b : out[partition]) b.ready().await_for(30s);
        for (const pjrt::Buffer& b : out[partition]) results[partition].push_back(get(b));
      });
    };
    std::vector<std::thread> threads;
    std::size_t per_thread = thread_per_device ? 1 : devices_each_;
    for (std::size_t first = 0; first < inputs.size(); first += per_thread)
      threads.emplace_back([&, first] {
        for (std::size_t p = first; p < first + per_thread; ++p) launch(p);
        for (std::size_t p = first; p < first + per_thread; ++p) collect(p);
      });
    for (auto& thread : threads) thread.join();
    donated_.clear();
    for (const pjrt::Buffer& b : in[0]) donated_.push_back(b.is_deleted());
    for (auto& error : errors)
      if (error) std::rethrow_exception(error);
    return results;
  }

  // Of partition 0's inputs in the last run.
  const std::vector<bool>& donated() const { return donated_; }

 private:
  std::vector<std::unique_ptr<collectives::Engine>> engines_;
  std::vector<std::shared_ptr<runtime::CollectiveProgram>> programs_;
  int devices_each_;
  std::uint64_t launches_ = 0;
  std::vector<bool> donated_;
  std::vector<std::unique_ptr<pjrt::Client>> clients_;
  std::vector<pjrt::LoadedExecutable> executables_;
};

// The same program run by XLA alone on one client with all devices.
inline std::vector<std::vector<Bytes>> run_by_xla(std::string_view program, const CompileOptions& options,
                                                  const std::vector<Inputs>& inputs) {
  const pjrt::Client& client = partitioner();
  pjrt::LoadedExecutable executable = client.compile(program, serialize(options));
  std::vector<std::vector<pjrt::Buffer>> in(inputs.size());
  std::vector<std::vector<const pjrt::Buffer*>> arguments(inputs.size());
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    for (const HostTensor& t : inputs[p]) in[p].push_back(put(client, t, *client.addressable_devices()[p]));
    for (const pjrt::Buffer& b : in[p]) arguments[p].push_back(&b);
  }
  std::vector<std::vector<Bytes>> results(inputs.size());
  auto out = executable.execute_all(arguments);
  for (std::size_t p = 0; p < inputs.size(); ++p)
    for (const pjrt::Buffer& b : out[p]) results[p].push_back(get(b));
  return results;
}

}  // namespace lockstep::compile

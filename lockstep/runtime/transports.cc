#include "lockstep/runtime/transports.h"

#include <net/if.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "lockstep/collectives/gloo_transport.h"
#include "lockstep/collectives/grpc_transport.h"
#include "lockstep/collectives/local_transport.h"
#include "lockstep/collectives/shared_transport.h"
#include "lockstep/collectives/store.h"
#include "lockstep/distributed/address.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/health.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/distributed/tls.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/support/log.h"

namespace lockstep::runtime {
namespace {

using Clock = std::chrono::steady_clock;

class ControlStore final : public collectives::Store {
 public:
  explicit ControlStore(const std::vector<int>& members)
      : members_(members), prefix_(fmt::format("lockstep/transport/{}/", distributed::process_ranges(members))) {}
  void set(const std::string& key, const std::string& value) override {
    distributed::client().set(prefix_ + key, value, true);
  }
  std::string get(const std::string& key, Clock::time_point deadline) override {
    for (;;) {
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      try {
        return distributed::client().get(
            prefix_ + key,
            std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(1), collectives::kCheckInterval));
      } catch (const Error& e) {
        if (e.code() != ErrorCode::timeout) throw;
      }
      if (Clock::now() >= deadline)
        throw_error(ErrorCode::timeout, "connect", "nobody has set '{}' in time", prefix_ + key);
      check();
    }
  }
  void check() override { expect_all_there(members_); }
  std::string describe(int process) override {
    try {
      for (const distributed::TaskInfo& t : distributed::client().tasks())
        if (t.process == process)
          return fmt::format("process {} ({}, pid {}), last in '{}'", process, t.identity.host, t.identity.pid,
                             t.phase);
    } catch (const Error&) {  // the gang is failing
    }
    return fmt::format("process {}", process);
  }

 private:
  const std::vector<int>& members_;
  const std::string prefix_;
};

std::string variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool over_grpc() {
  std::string text = variable("LOCKSTEP_TRANSPORT");
  if (text == "grpc" || text == "gloo") return text == "grpc";
  if (!text.empty())
    throw_error(ErrorCode::invalid_argument, "LOCKSTEP_TRANSPORT", "there is no transport \"{}\"; use gloo or grpc",
                text);
  return distributed::process_tls().has_value();  // who asks for TLS sends nothing in clear text
}

bool share_memory() { return config::environment_bool("LOCKSTEP_SHARED_MEMORY", true); }

// Where this process listens: an address, an interface, or what reaches a host.
struct Listen {
  std::string address, interface, towards;
};
Listen listen() {
  std::string chosen = variable("LOCKSTEP_INTERFACE");
  if (::if_nametoindex(chosen.c_str()) != 0) return {.interface = chosen};
  if (!chosen.empty()) return {.address = chosen};
  auto& members = distributed::client().members();
  bool one_host =
      std::all_of(members.begin(), members.end(), [&](const auto& m) { return m.machine == members.front().machine; });
  if (one_host) return {.address = "127.0.0.1"};
  // The address by which this machine reaches the coordinator's reaches this machine.
  return {.towards = distributed::parse_address(distributed::client().coordinator_address(), "initialize").host};
}

}  // namespace

void expect_all_there(const std::vector<int>& processes) {
  distributed::throw_if_failed("connect");
  for (const distributed::Failure& lost : distributed::losses())
    for (int process : lost.processes)
      if (std::binary_search(processes.begin(), processes.end(), process))
        throw_error(ErrorCode::peer, "connect", "processes {} share a mesh, but process {} is gone: {}",
                    distributed::process_ranges(processes), process, lost.message);
}

std::unique_ptr<collectives::Transport> connect_processes(const std::vector<int>& members, Clock::time_point deadline) {
  int rank = distributed::process_index(), size = distributed::process_count();
  if (members.size() == 1) return collectives::solitary_transport(rank, size);
  ControlStore store(members);
  Listen where = listen();
  std::unique_ptr<collectives::Transport> transport;
  std::optional<Tls> tls = distributed::process_tls();
  if (over_grpc()) {
    collectives::GrpcOptions options{where.address, where.interface, where.towards};
    options.tls = std::move(tls);
    options.members = members;
    transport = collectives::connect_grpc(store, rank, size, deadline, options);
  } else {
    if (tls && rank == members.front())
      log::warning(
          "LOCKSTEP_TRANSPORT=gloo: the collectives' data crosses the network in clear text, though TLS is set; "
          "without "
          "this variable it would be encrypted.");
    collectives::GlooOptions options{where.address, where.interface, where.towards};
    options.members = members;
    transport = collectives::connect_gloo(store, rank, size, deadline, options);
  }
  if (share_memory()) transport = collectives::with_shared_memory(std::move(transport), store, deadline);
  return transport;
}

std::map<std::string, std::string> transport_settings() {
  return {{"LOCKSTEP_TRANSPORT", over_grpc() ? "grpc" : "gloo"},
          {"LOCKSTEP_SHARED_MEMORY", share_memory() ? "1" : "0"}};
}

}  // namespace lockstep::runtime

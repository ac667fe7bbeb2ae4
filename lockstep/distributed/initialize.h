// How ordinary processes become a gang. Each runs the same program and calls initialize() before anything else:
//
//   lockstep::distributed::initialize();   // finds its peers, or learns that it is alone
//
// What initialize() needs (the coordinator's address, the number of processes, this process's id) is taken from its
// options, then from the environment (JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES, JAX_PROCESS_ID,
// JAX_COORDINATOR_BIND_ADDRESS, JAX_LOCAL_DEVICE_IDS), then from what the cluster's launcher has left (cluster.h). If
// none says anything, the process is alone. docs/operations.md has the details, the time-outs and the exit codes.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/distributed/failure.h"
#include "lockstep/distributed/tls.h"

namespace lockstep::distributed {

class Client;

struct InitializeOptions {
  std::string coordinator_address;  // HOST:PORT of process 0
  int num_processes = -1;
  int process_id = -1;
  std::vector<int> local_device_ids;  // the devices this process may use; empty: all
  // Where process 0 listens; by default the port of coordinator_address on all interfaces, or on the loopback
  // interface only if coordinator_address lies there.
  std::string coordinator_bind_address;
  std::string cluster_detection_method;  // "slurm", "ompi", "pmix", "k8s", "deactivate"; empty: whichever is found
  std::chrono::milliseconds initialization_timeout = std::chrono::seconds(300);
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(100);  // process 0's counts
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(300);
  std::string token;  // a secret that all processes share; by default LOCKSTEP_TOKEN, or the file LOCKSTEP_TOKEN_FILE
  TlsFiles tls;       // by default LOCKSTEP_TLS_CERT, _KEY, _CA, _NAME; with none of them connections are not encrypted
  // Whether a failure of the gang ends this process, and how long after it was noticed (health.h).
  bool exit_on_failure = true;
  std::chrono::milliseconds failure_grace = std::chrono::seconds(2);
  // Whether the end of this process is watched: shutdown() at exit(0) or the return from main, a report to the others
  // at any other exit status and at an uncaught exception. Off for a library inside a larger program.
  bool watch_exit = true;
  // The signal that announces that this process will be taken away: taken when reached_preemption_sync_point() is first
  // called, and only in programs that call it. 0: none (notify_preemption() remains).
  int preemption_signal = SIGTERM;
  // The signal at which this process prints where it stands, unless the program has a handler of its own for it. 0:
  // none.
  int report_signal = SIGQUIT;
};

// Error(invalid_argument): options that are incomplete or contradict each other. Error(distributed): called twice,
// called after a backend was made, address in use, refused by the others (with the difference). Error(timeout): not
// all processes have come (with who has and who has not).
void initialize(InitializeOptions options = {}, std::source_location where = std::source_location::current());
// Waits until every process has called it (or has returned from main), then leaves. After a failure of the gang it
// leaves at once. Does nothing if not initialized. A new initialize() may follow.
void shutdown(std::source_location where = std::source_location::current());

bool is_initialized();
int process_index();                         // 0 if alone or not initialized
int process_count();                         // 1 if alone or not initialized
const std::vector<int>& local_device_ids();  // empty: all
// The control channel. A process that is alone gets one of its own. Error(distributed) if not initialized.
Client& client();

// Waits until all processes, or those given, have called it with this name. Error(timeout) names who has not come and
// what it is doing; Error(peer) who has died or left.
void barrier(const std::string& name, std::chrono::milliseconds timeout, const std::vector<int>& processes = {},
             std::source_location where = std::source_location::current());

// The gang's key-value store. Keys are paths, values any bytes; the library's own keys begin with "lockstep/".
class KeyValueStore {
 public:
  // Error(distributed) if the key is set and may not be overwritten.
  void set(const std::string& key, const std::string& value, bool overwrite = false) const;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) const;  // waits for it; Error(timeout)
  std::optional<std::string> try_get(const std::string& key) const;
  std::vector<std::pair<std::string, std::string>> directory(const std::string& key) const;  // all below, sorted
  std::int64_t increment(const std::string& key, std::int64_t by = 1) const;                 // the new value
  void erase(const std::string& key) const;                                                  // and all below
};
KeyValueStore kv();

// Announces that this process is about to be taken away, as its signal would: all agree on a step at which they save
// (multihost_utils::reached_preemption_sync_point). May be called from a signal handler.
void notify_preemption();

// What the runtime, which lies above this room, tells it. Null members count as "no" and "nothing".
struct RuntimeHooks {
  bool (*backend_created)() = nullptr;  // then it is too late for initialize()
  int (*local_device_count)(const std::vector<int>& local_device_ids) = nullptr;
  std::string (*plugin)() = nullptr;                           // name and version; has to be equal everywhere
  std::map<std::string, std::string> (*settings)() = nullptr;  // those that change programs; have to be equal
  std::vector<std::string> (*outstanding)() = nullptr;         // what this process's programs wait for, a line each
};
void set_runtime_hooks(const RuntimeHooks& hooks);
std::vector<std::string> outstanding_work();

}  // namespace lockstep::distributed

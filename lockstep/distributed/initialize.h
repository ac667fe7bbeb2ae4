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
#include "lockstep/distributed/membership.h"
#include "lockstep/distributed/tls.h"

namespace lockstep::distributed {

class Client;

struct InitializeOptions {
  // HOST:PORT of process 0; or several, separated by commas, for the machines on which process 0 may run: it listens on
  // the first that is its own, and the others find out which one that is.
  std::string coordinator_address;
  int num_processes = -1;
  int process_id = -1;
  std::vector<int> local_device_ids;  // the GPUs this process may use, by their number on the machine; empty: all
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
  // Whether the gang goes on without processes that die (process 0 excepted, which runs the coordinator): what is under
  // way with them ends with Error(peer), which the program has to catch; live_processes() says who is left, and meshes
  // of their devices work. By default JAX_ENABLE_RECOVERABILITY, as jax_enable_recoverability. Equal on all processes.
  std::optional<bool> recoverable;
  // Whether the end of this process is watched: shutdown() at exit(0) or the return from main, a report to the others
  // at any other exit status and at an uncaught exception. Off for a library inside a larger program.
  bool watch_exit = true;
  // The signal that announces that this process will be taken away: taken when reached_preemption_sync_point() is first
  // called, and only in programs that call it. 0: none (notify_preemption() remains).
  int preemption_signal = SIGTERM;
  // The signal at which this process prints where it stands, unless the program has a handler of its own for it; where
  // it is ignored, as a shell ignores SIGQUIT for what it starts in the background, it is taken. 0: none.
  int report_signal = SIGQUIT;
};

// Error(invalid_argument): options that are incomplete or contradict each other. Error(distributed): called twice,
// called after a backend was made, address in use, refused by the others (with the difference). Error(timeout): not
// all processes have come (with who has and who has not).
void initialize(InitializeOptions options = {}, std::source_location where = std::source_location::current());
// Throws what initialize() with these options would before it talks to anybody; joins nothing.
void check_initialize(const InitializeOptions& options, std::source_location where = std::source_location::current());
// Waits until every process has called it (or has returned from main), then leaves. After a failure of the gang it
// leaves at once. Does nothing if not initialized. A new initialize() may follow, with another coordinator, number of
// processes or id: arrays on local devices live on; meshes, and arrays and programs over them, belong to the gang that
// was left (the shards of such arrays can still be read).
void shutdown(std::source_location where = std::source_location::current());

bool is_initialized();
bool is_recoverable();                       // the gang goes on without processes that die
bool exit_is_watched();                      // unless initialize() was last told that it is not to be (watch_exit)
int process_index();                         // 0 if alone or not initialized
int process_count();                         // 1 if alone or not initialized
const std::vector<int>& local_device_ids();  // empty: all
// The control channel. A process that is alone gets one of its own. Error(distributed) if not initialized.
Client& client();

// Waits until all processes, or those given, have called it with this name. Error(timeout) names who has not come and
// what it is doing; Error(peer) who has died or left.
void barrier(const std::string& name, std::chrono::milliseconds timeout, const std::vector<int>& processes = {},
             std::source_location where = std::source_location::current());

// The processes that are still there, sorted: of a recoverable gang after some have died. Waits until every one of them
// has called it, and gives all of them the same answer. Error(timeout) names who has not come.
std::vector<int> live_processes(std::chrono::milliseconds timeout = std::chrono::seconds(300),
                                std::source_location where = std::source_location::current());

// All processes, or those that live_processes() has named last: who takes part in multihost_utils.
Membership membership();

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
  void (*left)() = nullptr;                                    // shutdown() is through: the next gang may begin
};
void set_runtime_hooks(const RuntimeHooks& hooks);
std::vector<std::string> outstanding_work();

}  // namespace lockstep::distributed

// A process's side of the control channel. Programs use it through initialize.h; tests and the runtime make their own.
//
// Thread-safe. Every call that waits has a deadline. Errors are Error(distributed, peer, timeout, invalid_argument,
// cancelled); what the caller wanted comes first in them, then who is missing or to blame.
//
// A client watches over its gang: when a process dies or stops answering, the coordinator tells the others within a
// second (a closed connection) or the heartbeat time-out (anything else); when the coordinator is lost, the client
// finds out by itself in the same times. Then all waiting calls end, later ones fail at once, and `on_failure` is
// called.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/distributed/failure.h"
#include "lockstep/distributed/identity.h"
#include "lockstep/distributed/membership.h"
#include "lockstep/support/tls.h"

namespace lockstep::distributed {

using Milliseconds = std::chrono::milliseconds;

struct ClientOptions {
  std::string address;  // the coordinator's, HOST:PORT, or several, separated by commas, of which one answers
  int process_id = 0;
  int num_processes = 1;
  Identity identity = local_identity();
  std::string token;
  std::optional<Tls> tls;
  Milliseconds initialization_timeout = std::chrono::seconds(300);
  Milliseconds heartbeat_timeout = std::chrono::seconds(100);  // the coordinator's counts once connected
  Milliseconds progress_interval = std::chrono::seconds(5);    // of the lines that say who has not joined yet
  std::function<void(const std::string&)> progress;            // by default they go to the log
  // Called once, on a thread of the client, after all waiting calls were told to end.
  std::function<void(const Failure&)> on_failure;
  // Called when a process has called shutdown(): it takes part in nothing more.
  std::function<void(int process)> on_leaving;
  // Called when processes have died and the gang, being recoverable, goes on without them.
  std::function<void(const Failure&)> on_lost;
};

enum class TaskState { absent, waiting, connected, leaving, left, failed };
const char* to_string(TaskState state);
struct TaskInfo {
  int process;
  TaskState state;
  Identity identity;
  std::string phase;
  Milliseconds phase_age;
};

// One process's part of an agreement (agreement.h).
struct Vote {
  std::string key, fingerprint, call_site, note;
  std::vector<int> participants;  // empty: all
};
struct VoteResult {
  struct Group {
    std::vector<int> processes;  // the first represents them
    std::string call_site;
  };
  std::vector<Group> groups;       // of equal fingerprint, the largest first; one if all agree
  std::vector<std::string> notes;  // by participant, if all agree
};

class Client {
 public:
  // Error(invalid_argument) for a malformed address.
  explicit Client(ClientOptions options);
  ~Client();  // closes
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Finds the coordinator, registers, returns when all processes have. Retries until the initialization time-out.
  void connect();
  // Waits until all have called it, then ends the connection. After a failure it only ends the connection.
  void shutdown(Milliseconds timeout);
  // Ends the connection and every waiting call (Error(cancelled)). Without shutdown() before it, the others take this
  // process for dead. Idempotent.
  void close();

  const std::string& coordinator_address() const;  // HOST:PORT; of several, after connect(), the one that answered
  int process_id() const;
  int num_processes() const;
  const std::vector<Identity>& members() const;  // by process id; after connect()

  // Keys are paths; empty segments are dropped. Setting a key twice is an error unless asked for.
  void set(const std::string& key, const std::string& value, bool overwrite = false);
  std::string get(const std::string& key, Milliseconds timeout);  // waits for it; Error(timeout)
  std::optional<std::string> try_get(const std::string& key);
  // All keys below, sorted, with values.
  std::vector<std::pair<std::string, std::string>> directory(const std::string& key);
  std::int64_t increment(const std::string& key, std::int64_t by = 1);  // the new value; absent counts as 0
  void erase(const std::string& key);                                   // and all below

  // Waits for all processes, or the given ones, which have to be the same at each use of the name. The earliest
  // deadline of those who have arrived counts for all. Error(timeout) says who did not come and what they are doing.
  void barrier(const std::string& name, Milliseconds timeout, const std::vector<int>& processes = {});
  // Ends the others' wait in the barrier too, with Error(cancelled). Error(distributed) if nobody waits.
  void cancel_barrier(const std::string& name);

  VoteResult vote(const Vote& vote, Milliseconds timeout);
  // After a vote with a difference: hands in this process's text, returns those of the first two groups.
  std::vector<std::string> exchange_texts(const std::string& key, const std::string& text);

  // Waits until every process that is neither dead nor leaving has called it; all get the same answer. Error(timeout).
  Membership live(Milliseconds timeout);

  std::vector<TaskInfo> tasks();
  // Tells everybody that this process fails; they end with `kind`. Returns when they have been told, within 2 s.
  void report_error(FailureKind kind, const std::string& message, const std::vector<int>& processes = {}) noexcept;
  std::optional<Failure> failure() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::distributed

#include "lockstep/distributed/initialize.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <memory>
#include <mutex>

#include "lockstep/distributed/client.h"
#include "lockstep/distributed/cluster.h"
#include "lockstep/distributed/health.h"
#include "lockstep/distributed/service.h"
#include "lockstep/support/error.h"
#include "lockstep/support/location.h"
#include "lockstep/support/log.h"

namespace lockstep::distributed {
namespace {

struct Gang {
  std::mutex mutex;
  bool initialized = false, ending = false;
  InitializeOptions options;
  Place place;
  std::unique_ptr<Service> service;
  std::unique_ptr<Client> client;
  std::terminate_handler previous_terminate = nullptr;
};
Gang& gang() {
  static auto* g = new Gang;  // immortal: exit handlers use it
  return *g;
}
std::atomic<int> index{0}, count{1};
RuntimeHooks hooks;

std::string token_of(const InitializeOptions& options) {
  if (!options.token.empty()) return options.token;
  if (const char* token = std::getenv("LOCKSTEP_TOKEN")) return token;
  const char* path = std::getenv("LOCKSTEP_TOKEN_FILE");
  if (path == nullptr) return "";
  std::ifstream file(path);
  std::string token;
  if (!(file >> token))
    throw_error(ErrorCode::io, "initialize", "the token can't be read from LOCKSTEP_TOKEN_FILE='{}'", path);
  return token;
}

std::string devices_text(int devices) {
  return devices == 1 ? "1 local device" : fmt::format("{} local devices", devices);
}

// The client, and on process 0 the service, of this process's place.
void join(Gang& g) {
  const Place& place = g.place;
  std::string token = token_of(g.options);
  ClientOptions options{.address = place.address,
                        .process_id = place.id,
                        .num_processes = place.count,
                        .token = token,
                        .initialization_timeout = g.options.initialization_timeout,
                        .heartbeat_timeout = g.options.heartbeat_timeout,
                        .on_failure = [](const Failure& failure) { fail(failure); },
                        .on_leaving = [](int process) { announce_departure(process); }};
  if (hooks.local_device_count != nullptr)
    options.identity.local_devices = hooks.local_device_count(place.local_device_ids);
  if (hooks.plugin != nullptr) options.identity.plugin = hooks.plugin();
  if (hooks.settings != nullptr) options.identity.settings = hooks.settings();
  if (log::enabled(log::Level::warning))
    log::write(log::Level::info,
               fmt::format("process {} of {}, coordinator {} ({}), {}", place.id, place.count, place.address,
                           place.reason, devices_text(options.identity.local_devices)));
  if (place.id == 0)
    g.service = std::make_unique<Service>(ServiceOptions{.bind_address = place.bind_address,
                                                         .num_processes = place.count,
                                                         .heartbeat_timeout = g.options.heartbeat_timeout,
                                                         .token = token});
  g.client = std::make_unique<Client>(std::move(options));
  try {
    g.client->connect();
  } catch (const Error& e) {
    g.client.reset();
    if (g.service) g.service->stop("the coordinator (process 0) has given up: " + e.message());
    g.service.reset();
    throw;
  }
}

// A process that is alone has a channel to itself, made when somebody asks for it.
void join_alone(Gang& g) {
  g.service = std::make_unique<Service>(ServiceOptions{.bind_address = "127.0.0.1:0", .num_processes = 1});
  g.client = std::make_unique<Client>(
      ClientOptions{.address = fmt::format("127.0.0.1:{}", g.service->port()), .process_id = 0, .num_processes = 1});
  g.client->connect();
}

void leave(Gang& g) {
  std::unique_ptr<Client> client;
  std::unique_ptr<Service> service;
  bool orderly;
  {
    std::lock_guard lock(g.mutex);
    if (!g.initialized || g.ending) return;
    g.ending = true;
    orderly = !health();
  }
  auto finish = [&] {
    end_health();
    {
      std::lock_guard lock(g.mutex);
      client = std::move(g.client);
      service = std::move(g.service);
      g.initialized = g.ending = false;
    }
    client.reset();
    if (service) service->stop("the coordinator (process 0) has ended");
    index = 0;
    count = 1;
    log::set_rank(-1);
  };
  try {
    if (orderly && g.client) g.client->shutdown(g.options.shutdown_timeout);
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

void at_exit(int status, void*) {
  Gang& g = gang();
  {
    std::lock_guard lock(g.mutex);
    if (!g.initialized || !g.options.watch_exit || !g.client || g.place.count == 1) return;
  }
  if (status == 0) {
    try {
      leave(g);
    } catch (const Error& e) {
      log::error("{}", e.what());
    }
  } else if (!health()) {
    g.client->report_error(FailureKind::peer_crashed,
                           fmt::format("it exited with status {} without shutdown()", status));
  }
}

// Tells the others of an exception that nobody has caught. If it is the gang's own failure, the process ends with that
// failure's exit code; any other ends it as it would without lockstep.
void at_terminate() {
  Gang& g = gang();
  std::string what = "std::terminate() was called";
  std::optional<int> status;
  if (auto exception = std::current_exception()) {
    try {
      std::rethrow_exception(exception);
    } catch (const Error& e) {
      what = e.what();
      if (auto failure = health())
        status = exit_code(failure->kind);
      else if (e.code() == ErrorCode::diverged)
        status = exit_diverged;
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
      what = "an exception of an unknown type";
    }
    what = "uncaught exception: " + what;
  }
  if (status) {
    log::error("{}\n  This process ends with exit code {} ({}).", what, *status, describe_exit_code(*status));
    end_process(*status);
  }
  if (!health() && g.client) g.client->report_error(FailureKind::peer_crashed, what);
  if (g.previous_terminate != nullptr) g.previous_terminate();
  std::abort();
}

void watch_exit(Gang& g) {
  static const bool registered = ::on_exit(at_exit, nullptr) == 0;
  LS_CHECK(registered);
  auto previous = std::set_terminate(at_terminate);
  if (previous != at_terminate) g.previous_terminate = previous;
}

}  // namespace

void set_runtime_hooks(const RuntimeHooks& given) { hooks = given; }

void initialize(InitializeOptions options, std::source_location where) {
  LocationScope scope(where);
  Gang& g = gang();
  std::lock_guard lock(g.mutex);
  if (g.initialized)
    throw_error(ErrorCode::distributed, "initialize",
                "it has been called before; call it once, at the start of the program (shutdown() allows another)");
  if (hooks.backend_created != nullptr && hooks.backend_created())
    throw_error(ErrorCode::distributed, "initialize",
                "it has to be called before anything that makes a backend: before the first array, computation or "
                "question about devices");
  g.place = find_place(options, [](const char* name) -> const char* { return std::getenv(name); });
  g.options = std::move(options);
  begin_health({.exit_on_failure = g.options.exit_on_failure, .grace = g.options.failure_grace});
  if (g.place.count > 1) {
    log::set_rank(g.place.id);
    try {
      join(g);
    } catch (...) {
      log::set_rank(-1);
      throw;
    }
  }
  index = g.place.id;
  count = g.place.count;
  g.initialized = true;
  if (g.options.watch_exit && g.place.count > 1) watch_exit(g);
}

void shutdown(std::source_location where) {
  LocationScope scope(where);
  leave(gang());
}

bool is_initialized() {
  std::lock_guard lock(gang().mutex);
  return gang().initialized;
}
int process_index() { return index.load(std::memory_order_relaxed); }
int process_count() { return count.load(std::memory_order_relaxed); }

const std::vector<int>& local_device_ids() {
  std::lock_guard lock(gang().mutex);
  return gang().place.local_device_ids;
}

Client& client() {
  Gang& g = gang();
  std::lock_guard lock(g.mutex);
  if (!g.initialized)
    throw_error(ErrorCode::distributed, "client", "lockstep::distributed::initialize() has not been called");
  if (!g.client) join_alone(g);
  return *g.client;
}

void barrier(const std::string& name, std::chrono::milliseconds timeout, const std::vector<int>& processes,
             std::source_location where) {
  LocationScope scope(where);
  client().barrier(name, timeout, processes);
}

void KeyValueStore::set(const std::string& key, const std::string& value, bool overwrite) const {
  client().set(key, value, overwrite);
}
std::string KeyValueStore::get(const std::string& key, std::chrono::milliseconds timeout) const {
  return client().get(key, timeout);
}
std::optional<std::string> KeyValueStore::try_get(const std::string& key) const { return client().try_get(key); }
std::vector<std::pair<std::string, std::string>> KeyValueStore::directory(const std::string& key) const {
  return client().directory(key);
}
std::int64_t KeyValueStore::increment(const std::string& key, std::int64_t by) const {
  return client().increment(key, by);
}
void KeyValueStore::erase(const std::string& key) const { client().erase(key); }

KeyValueStore kv() {
  client();
  return {};
}

}  // namespace lockstep::distributed

#include "lockstep/distributed/initialize.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/cluster.h"
#include "lockstep/distributed/health.h"
#include "lockstep/distributed/preemption.h"
#include "lockstep/distributed/service.h"
#include "lockstep/distributed/stand.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"
#include "lockstep/support/location.h"
#include "lockstep/support/log.h"

namespace lockstep::distributed {
namespace {

// The way to the others: on process 0 with the service. The client goes first.
struct Channel {
  std::unique_ptr<Service> service;
  std::unique_ptr<Client> client;
};

struct Gang {
  std::mutex mutex;
  bool beginning = false, initialized = false, ending = false, left_one = false;
  InitializeOptions options;
  bool recoverable = false;
  Membership membership;
  Place place;
  Channel channel;
  std::terminate_handler previous_terminate = nullptr;
};
Gang& gang() {
  static auto* g = new Gang;  // immortal: exit handlers use it
  return *g;
}
std::atomic<int> index{0}, count{1};
std::atomic<bool> exit_watched{true};
RuntimeHooks hooks;

constexpr std::chrono::milliseconds time_to_flush{3000};

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
  if (devices == 0) return "devices counted by the plugin";
  return devices == 1 ? "1 local device" : fmt::format("{} local devices", devices);
}

Identity identity_of(const Place& place) {
  Identity identity = local_identity();
  if (hooks.local_device_count != nullptr) identity.local_devices = hooks.local_device_count(place.local_device_ids);
  if (hooks.plugin != nullptr) identity.plugin = hooks.plugin();
  identity.settings = config::program_settings();
  if (hooks.settings != nullptr)
    for (auto& [name, value] : hooks.settings()) identity.settings[name] = value;
  return identity;
}

Place find_own_place(const InitializeOptions& options) {
  Place place = find_place(options, [](const char* name) -> const char* { return std::getenv(name); });
  if (place.count > 1 && place.id == 0) settle_coordinator(place);
  return place;
}

Channel join(const Place& place, const InitializeOptions& given, bool recoverable) {
  std::string token = token_of(given);
  std::optional<Tls> tls = load_tls(given.tls);
  set_process_tls(tls);
  ClientOptions options{.address = place.address,
                        .process_id = place.id,
                        .num_processes = place.count,
                        .identity = identity_of(place),
                        .token = token,
                        .tls = tls,
                        .initialization_timeout = given.initialization_timeout,
                        .heartbeat_timeout = given.heartbeat_timeout,
                        .on_failure = [](const Failure& failure) { fail(failure); },
                        .on_leaving = [](int process) { announce_departure(process); },
                        .on_lost = [](const Failure& failure) { lose(failure); }};
  options.identity.settings["jax_enable_recoverability"] = recoverable ? "true" : "false";
  if (log::enabled(log::Level::warning))
    log::write(log::Level::info,
               fmt::format("process {} of {}, coordinator {} ({}), {}", place.id, place.count, place.address,
                           place.reason, devices_text(options.identity.local_devices)));
  Channel channel;
  if (place.id == 0)
    channel.service = std::make_unique<Service>(ServiceOptions{.bind_address = place.bind_address,
                                                               .num_processes = place.count,
                                                               .heartbeat_timeout = given.heartbeat_timeout,
                                                               .recoverable = recoverable,
                                                               .token = token,
                                                               .tls = tls});
  channel.client = std::make_unique<Client>(std::move(options));
  try {
    channel.client->connect();
  } catch (const Error& e) {
    channel.client.reset();
    if (channel.service) channel.service->stop("the coordinator (process 0) has given up: " + e.message());
    throw;
  }
  return channel;
}

// A process that is alone has a channel to itself, made when somebody asks for it.
Channel join_alone() {
  Channel channel;
  channel.service = std::make_unique<Service>(ServiceOptions{.bind_address = "127.0.0.1:0", .num_processes = 1});
  channel.client = std::make_unique<Client>(ClientOptions{
      .address = fmt::format("127.0.0.1:{}", channel.service->port()), .process_id = 0, .num_processes = 1});
  channel.client->connect();
  return channel;
}

void leave(Gang& g) {
  Channel channel;
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
      channel = std::move(g.channel);
      g.initialized = g.ending = false;
    }
    end_stand_reports();
    if (channel.client) channel.client->close();
    end_preemption();
    channel.client.reset();
    if (channel.service) channel.service->stop("the coordinator (process 0) has ended");
    index = 0;
    count = 1;
    log::set_rank(-1);
  };
  try {
    if (orderly) announce_leaving();
    if (orderly && g.channel.client) g.channel.client->shutdown(g.options.shutdown_timeout);
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

// Lets what the coordinator has to tell the others go out before this process, which runs it, ends.
void flush_service(Gang& g, const std::string& reason) {
  if (!g.channel.service) return;
  auto done = std::make_shared<std::promise<void>>();
  auto flushed = done->get_future();
  std::thread([service = g.channel.service.get(), reason, done] {
    service->stop(reason);
    done->set_value();
  }).detach();
  flushed.wait_for(time_to_flush);
}

void at_exit(int status, void*) {
  Gang& g = gang();
  {
    std::lock_guard lock(g.mutex);
    if (!g.initialized || !g.options.watch_exit || g.place.count == 1) return;
  }
  if (status == 0) {
    try {
      leave(g);
    } catch (const Error& e) {
      log::error("{}", e.what());
    }
  } else if (!health()) {
    g.channel.client->report_error(FailureKind::peer_crashed,
                                   fmt::format("it exited with status {} without shutdown()", status));
    flush_service(g, "the coordinator (process 0) has exited");
  }
}

constexpr std::chrono::milliseconds time_for_verdict{1500};  // a connection that broke means a failure by then

// What kind of failure of the gang an error is, if it is one.
std::optional<FailureKind> kind_of(const Error& e) {
  if (e.code() == ErrorCode::diverged) return FailureKind::diverged;  // whoever has ended of it meanwhile
  if (e.code() == ErrorCode::peer) health_within(time_for_verdict);   // who died is known a little later
  if (auto failure = health()) return failure->kind;
  if (e.code() == ErrorCode::timeout) return FailureKind::stalled;
  if (e.code() == ErrorCode::peer) return FailureKind::peer_crashed;
  return std::nullopt;
}

// Tells the others of an exception that nobody has caught. If it is an error of the gang, the process ends with that
// failure's exit code; any other ends it as it would without lockstep.
void at_terminate() {
  // The first to come ends the process; what other threads meet with meanwhile is mostly the consequence.
  static std::atomic<std::thread::id> ending;
  std::thread::id nobody;
  if (!ending.compare_exchange_strong(nobody, std::this_thread::get_id())) {
    if (nobody == std::this_thread::get_id()) std::abort();
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  Gang& g = gang();
  std::string what = "std::terminate() was called";
  std::optional<FailureKind> kind;
  if (auto exception = std::current_exception()) {
    try {
      std::rethrow_exception(exception);
    } catch (const Error& e) {
      what = e.what();
      if (process_count() > 1 || health()) kind = kind_of(e);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
      what = "an exception of an unknown type";
    }
    what = "uncaught exception: " + what;
  }
  if (!kind) end_health();                           // it ends of its own exception, not of the failure that it causes
  std::unique_lock lock(g.mutex, std::try_to_lock);  // whoever holds it may be the one that throws
  if (lock && g.channel.client) {
    auto failure = health();
    if (failure && (failure->kind == FailureKind::diverged || failure->kind == FailureKind::stalled))
      g.channel.client->report_error(failure->kind, failure->message);  // before the end of this process speaks
    else if (!failure && kind != FailureKind::diverged)
      g.channel.client->report_error(kind.value_or(FailureKind::peer_crashed), what);
  }
  if (lock) flush_service(g, "the coordinator (process 0) has ended: " + what);
  if (kind) {
    int status = exit_code(*kind);
    if (auto failure = health(); failure && what.find(failure->message) == std::string::npos)
      what += "\n  " + failure->message;
    log::error("{}\n  This process ends with exit code {} ({}).", what, status, to_string(*kind));
    end_process(status);
  }
  if (g.previous_terminate != nullptr) g.previous_terminate();
  std::abort();
}

void watch_exit(Gang& g) {
  static const bool registered = ::on_exit(at_exit, nullptr) == 0;
  LS_CHECK(registered);
  auto previous = std::set_terminate(at_terminate);
  if (previous != at_terminate) g.previous_terminate = previous;
}

// With the gang's mutex held.
void check_may_begin(const Gang& g) {
  if (g.initialized || g.beginning)
    throw_error(ErrorCode::distributed, "initialize",
                "it has been called before; call it once, at the start of the program (shutdown() allows another)");
  if (hooks.backend_created != nullptr && hooks.backend_created() && !g.left_one)
    throw_error(ErrorCode::distributed, "initialize",
                "it has to be called before anything that makes a backend: before the first array, computation or "
                "question about devices");
}

}  // namespace

void set_runtime_hooks(const RuntimeHooks& given) { hooks = given; }
std::vector<std::string> outstanding_work() {
  return hooks.outstanding == nullptr ? std::vector<std::string>() : hooks.outstanding();
}

void initialize(InitializeOptions options, std::source_location where) {
  LocationScope scope(where);
  Gang& g = gang();
  {
    std::lock_guard lock(g.mutex);
    check_may_begin(g);
    g.beginning = true;
  }
  try {
    // What was made since the last gang was left counts to it.
    if (hooks.backend_created != nullptr && hooks.backend_created()) hooks.left();
    Place place = find_own_place(options);
    begin_health({.exit_on_failure = options.exit_on_failure, .grace = options.failure_grace});
    Channel channel;
    bool recoverable = options.recoverable.value_or(config::enable_recoverability());
    if (place.count > 1) {
      log::set_rank(place.id);
      channel = join(place, options, recoverable);
    }
    std::lock_guard lock(g.mutex);
    index = place.id;
    count = place.count;
    exit_watched = options.watch_exit;
    g.options = std::move(options);
    g.recoverable = recoverable;
    g.membership = {0, std::vector<int>(static_cast<std::size_t>(place.count))};
    std::iota(g.membership.processes.begin(), g.membership.processes.end(), 0);
    g.place = std::move(place);
    g.channel = std::move(channel);
    g.beginning = false;
    g.initialized = true;
    begin_preemption(g.options.preemption_signal);
    if (g.place.count > 1) begin_stand_reports(g.options.report_signal);
    if (g.options.watch_exit && g.place.count > 1) watch_exit(g);
  } catch (...) {
    log::set_rank(-1);
    std::lock_guard lock(g.mutex);
    g.beginning = false;
    throw;
  }
}

void check_initialize(const InitializeOptions& options, std::source_location where) {
  LocationScope scope(where);
  {
    std::lock_guard lock(gang().mutex);
    check_may_begin(gang());
  }
  Place place = find_own_place(options);
  if (place.count == 1) return;
  token_of(options);
  identity_of(place);
  if (place.id == 0) check_bindable(parse_address(place.bind_address, "initialize"), "initialize");
}

void shutdown(std::source_location where) {
  LocationScope scope(where);
  if (!is_initialized()) return;
  struct Left {
    ~Left() {
      {
        std::lock_guard lock(gang().mutex);
        gang().left_one = true;
      }
      if (hooks.left != nullptr) hooks.left();
    }
  } left;  // also if not all have come
  leave(gang());
}

bool is_initialized() {
  std::lock_guard lock(gang().mutex);
  return gang().initialized;
}
bool is_recoverable() {
  std::lock_guard lock(gang().mutex);
  return gang().initialized && gang().recoverable;
}
bool exit_is_watched() { return exit_watched.load(std::memory_order_relaxed); }
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
  if (!g.channel.client) g.channel = join_alone();
  return *g.channel.client;
}

void barrier(const std::string& name, std::chrono::milliseconds timeout, const std::vector<int>& processes,
             std::source_location where) {
  LocationScope scope(where);
  client().barrier(name, timeout, processes);
}

std::vector<int> live_processes(std::chrono::milliseconds timeout, std::source_location where) {
  LocationScope scope(where);
  Membership now = client().live(timeout);
  std::lock_guard lock(gang().mutex);
  gang().membership = now;
  return now.processes;
}

Membership membership() {
  std::lock_guard lock(gang().mutex);
  if (!gang().initialized) return {0, {0}};
  return gang().membership;
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

#include "lockstep/runtime/gang.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/distributed/agreement.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/health.h"
#include "lockstep/distributed/identity.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/distributed/phase.h"
#include "lockstep/runtime/backend.h"
#include "lockstep/runtime/collective_handler.h"
#include "lockstep/runtime/transports.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"

namespace lockstep::runtime {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Those of the same processes are numbered together, whichever mesh they are about: processes that want different
// meshes find that out too.
struct MeshChannel::Agreements {
  std::mutex mutex;
  std::uint64_t next = 0;
  std::set<std::string> agreed;  // fingerprints
};

namespace {

// What carries the collectives between some processes.
struct Carrier {
  bool connecting = false;
  std::unique_ptr<collectives::Engine> engine;
  distributed::Subscription failure, loss, leaving;
};

struct State {
  std::mutex mutex;  // not held while processes connect
  std::condition_variable connected;
  std::map<std::vector<int>, Carrier> carriers;                                     // by processes
  std::map<std::vector<int>, std::shared_ptr<MeshChannel::Agreements>> agreements;  // by processes
  std::map<std::uint32_t, std::unique_ptr<MeshChannel>> channels;  // by mesh; of all gangs, because programs hold them
  std::vector<std::unique_ptr<collectives::Engine>> ended;         // of gangs that were left, closed
};
State& state() {
  static auto* s = new State;
  return *s;
}

// A deadline has passed: the gang fails, lest some go on with what another has given up; but not one that goes on
// without processes, whose programs catch what ends so.
void fail_as_stalled(const Error& error) {
  if (distributed::is_recoverable()) return;
  distributed::fail({distributed::FailureKind::stalled, {}, error.what()});
  distributed::client().report_error(distributed::FailureKind::stalled, error.what());
}

bool contains(const std::vector<int>& processes, int process) {
  return std::binary_search(processes.begin(), processes.end(), process);
}

// Waits until all are about to connect, since who does not come can then be asked what it is doing.
std::unique_ptr<collectives::Transport> connect(const std::vector<int>& processes) {
  auto deadline = [] { return Clock::now() + collective_timeout(); };
  if (processes.size() == 1) return connect_processes(processes, deadline());
  std::string who = distributed::process_ranges(processes);
  expect_all_there(processes);
  try {
    distributed::client().barrier("lockstep/connect " + who, collective_timeout(), processes);
    return connect_processes(processes, deadline());
  } catch (const Error& e) {
    if (e.code() != ErrorCode::timeout) throw;
    Error error(e.code(), "connect",
                fmt::format("no connection of processes {} for their collectives: {}", who, e.message()));
    fail_as_stalled(error);
    throw error;
  }
}

std::unique_ptr<collectives::Engine> make_engine(const std::vector<int>& processes) {
  Backend& b = backend();
  register_collective_handlers(b.client().plugin());
  collectives::EngineOptions options;
  options.deadline = collective_timeout();
  options.recoverable = distributed::is_recoverable();
  options.phase = [] {
    auto now = distributed::current_phase();
    return fmt::format("in {} for {:.1f} s", now.text, std::chrono::duration<double>(now.age).count());
  };
  if (processes.size() > 1) {
    options.on_diverged = [](const Error& error) {
      distributed::fail({distributed::FailureKind::diverged, {}, error.message()});
    };
    if (!options.recoverable)
      options.on_stalled = [](const Error& error) {
        distributed::fail({distributed::FailureKind::stalled, {}, error.what()});
      };
  }
  return std::make_unique<collectives::Engine>(connect(processes), options);
}

// The peers may still be waiting for what this process has launched.
void drain() { wait_for_launches(Clock::now() + collective_timeout()); }

Carrier make_carrier(const std::vector<int>& processes) {
  Carrier carrier;
  carrier.engine = make_engine(processes);
  if (processes.size() == 1) {
    carrier.leaving = distributed::on_leaving(drain);
    return carrier;
  }
  collectives::Engine* e = carrier.engine.get();
  auto lose = [e, processes](const distributed::Failure& failure) {
    for (int p : failure.processes)
      if (contains(processes, p)) e->lose(p, distributed::to_error(failure, "collective"));
  };
  carrier.leaving = distributed::on_leaving([e] {
    drain();
    e->leave();
  });
  carrier.failure =
      distributed::on_failure([e](const distributed::Failure& f) { e->fail(distributed::to_error(f, "collective")); });
  carrier.loss = distributed::on_loss(lose);
  for (const distributed::Failure& f : distributed::losses()) lose(f);
  return carrier;
}

// The engine between these processes, made on first use.
collectives::Engine& engine(const std::vector<int>& processes) {
  State& s = state();
  std::unique_lock lock(s.mutex);
  Carrier& carrier = s.carriers[processes];
  s.connected.wait(lock, [&] { return !carrier.connecting; });
  if (carrier.engine) return *carrier.engine;
  carrier.connecting = true;
  lock.unlock();
  Carrier made;
  std::exception_ptr failed;
  try {
    made = make_carrier(processes);
  } catch (...) {
    failed = std::current_exception();
  }
  lock.lock();
  carrier = std::move(made);  // which is not connecting
  s.connected.notify_all();
  if (failed) std::rethrow_exception(failed);
  return *carrier.engine;
}

}  // namespace

void end_gang() {
  State& s = state();
  std::unique_lock lock(s.mutex);
  s.connected.wait(lock, [&] {
    return std::none_of(s.carriers.begin(), s.carriers.end(), [](auto& c) { return c.second.connecting; });
  });
  for (auto& [id, channel] : s.channels) channel->end();
  s.agreements.clear();
  auto carriers = std::exchange(s.carriers, {});  // whose subscriptions end with this call
  std::vector<collectives::Engine*> ending;
  for (auto& [processes, carrier] : carriers)
    if (carrier.engine) ending.push_back(s.ended.emplace_back(std::move(carrier.engine)).get());
  lock.unlock();
  for (collectives::Engine* e : ending) e->close();
}

void drain_before_exit() {
  if (distributed::exit_is_watched()) std::atexit(drain);
}

std::chrono::milliseconds collective_timeout() {
  static const std::chrono::milliseconds timeout = [] {
    const char* text = std::getenv("LOCKSTEP_COLLECTIVE_TIMEOUT");
    double seconds = text ? std::atof(text) : 600;
    if (seconds <= 0)
      throw_error(ErrorCode::invalid_argument, "LOCKSTEP_COLLECTIVE_TIMEOUT",
                  "\"{}\" is not a positive number of seconds", text);
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  }();
  return timeout;
}

std::vector<std::string> outstanding_collectives() {
  std::vector<std::string> out;
  std::vector<collectives::Outstanding> all;
  {
    State& s = state();
    std::lock_guard lock(s.mutex);
    for (auto& [processes, carrier] : s.carriers)
      if (carrier.engine) std::ranges::move(carrier.engine->snapshot(), std::back_inserter(all));
  }
  for (const collectives::Outstanding& o : all) {
    out.push_back(fmt::format("{} {} in launch {} for {:.1f} s", collectives::to_string(o.op), o.name, o.launch,
                              std::chrono::duration<double>(o.age).count()));
    if (!o.waiting_for.empty())
      out.back() += fmt::format("; not here yet: process{} {}", o.waiting_for.size() == 1 ? "" : "es",
                                fmt::join(o.waiting_for, ", "));
  }
  return out;
}

MeshChannel& channel(const Mesh& mesh, bool carries) {
  if (mesh.gang() != config::gang()) throw_gang_left("jit", to_string(mesh));
  collectives::Communicator c;
  // The same number in every process: a hash of the devices and axes, not of when the mesh was made here.
  std::string text = to_string(mesh);
  for (int id : mesh.device_ids()) {
    c.processes.push_back(backend().device(id).process_index);
    text += "," + std::to_string(id);
  }
  std::uint64_t h = 1469598103934665603u;
  for (unsigned char ch : text) h = (h ^ ch) * 1099511628211u;
  c.id = h;
  std::vector<int> processes = c.processes;
  std::sort(processes.begin(), processes.end());
  processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
  if (!contains(processes, backend().process_index()))
    throw_error(
        ErrorCode::sharding, "jit",
        "the mesh {} has devices of process{} {} only; this is process {}, which has no part in programs over it",
        to_string(mesh), processes.size() == 1 ? "" : "es", distributed::process_ranges(processes),
        backend().process_index());
  collectives::Engine* e = carries ? &engine(processes) : nullptr;
  State& s = state();
  std::lock_guard lock(s.mutex);
  auto& slot = s.channels[mesh.id()];
  if (!slot) {
    std::string description = "mesh " + to_string(mesh) + "\n";
    for (int process : processes) {
      std::vector<int> devices;
      for (int id : mesh.device_ids())
        if (backend().device(id).process_index == process) devices.push_back(id);
      description += fmt::format("devices of process {}: {}\n", process, fmt::join(devices, ", "));
    }
    auto& agreements = s.agreements[processes];
    if (!agreements) agreements = std::make_shared<MeshChannel::Agreements>();
    slot = std::make_unique<MeshChannel>(h, std::move(processes), std::move(description), agreements);
  }
  if (carries && !slot->carried()) {
    e->add_communicator(std::move(c));
    slot->carry_by(*e);
  }
  return *slot;
}

void MeshChannel::launch(collectives::LaunchedProgram program, const std::function<void(std::uint64_t)>& issue) {
  std::lock_guard lock(mutex_);
  if (ended_) throw_gang_left(*program.name, "its mesh");
  if (auto* e = engine_.load(); e != nullptr && processes_.size() > 1 && compares_)
    e->begin_launch(communicator_, std::move(program));
  issue(next_launch_++);
}

void MeshChannel::agree(const collectives::LaunchedProgram& program, const std::string& fingerprint,
                        const std::function<std::string()>& text) {
  if (ended_) throw_gang_left(*program.name, "its mesh");
  if (processes_.size() < 2) return;
  std::lock_guard lock(agreements_->mutex);
  if (agreements_->agreed.contains(fingerprint)) return;
  std::uint64_t number;
  {
    std::lock_guard launches(mutex_);
    number = next_launch_;
  }
  std::optional<collectives::Engine::Intent> intent;
  if (auto* e = engine_.load(); e != nullptr && compares_) intent.emplace(*e, communicator_, program);
  distributed::Proposal p;
  p.operation = *program.name;
  p.key = fmt::format("program {} of processes {}", agreements_->next++, distributed::process_ranges(processes_));
  p.fingerprint = fmt::format("{} {}", number, fingerprint);
  p.text = [&] { return fmt::format("{}launch {} on the mesh\n{}", description_, number, text()); };
  p.participants = processes_;
  try {
    distributed::agree(distributed::client(), p, collective_timeout());
  } catch (const Error& e) {
    if (e.code() == ErrorCode::timeout) fail_as_stalled(e);
    throw;
  }
  agreements_->agreed.insert(fingerprint);
}

}  // namespace lockstep::runtime

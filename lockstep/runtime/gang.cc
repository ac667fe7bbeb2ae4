#include "lockstep/runtime/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "lockstep/distributed/agreement.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/health.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/distributed/phase.h"
#include "lockstep/runtime/backend.h"
#include "lockstep/runtime/collective_handler.h"
#include "lockstep/runtime/transports.h"
#include "lockstep/support/error.h"

namespace lockstep::runtime {
namespace {

using Clock = std::chrono::steady_clock;

struct State {
  std::mutex mutex;
  std::unique_ptr<collectives::Engine> engine;
  std::atomic<collectives::Engine*> ready = nullptr;  // the same, for who may not wait while it connects
  std::map<std::uint32_t, std::unique_ptr<MeshChannel>> channels;
  distributed::Subscription failure, leaving;
};
State& state() {
  static auto* s = new State;
  return *s;
}

std::unique_ptr<collectives::Engine> make_engine() {
  Backend& b = backend();
  register_collective_handlers(b.client().plugin());
  collectives::EngineOptions options;
  options.deadline = collective_timeout();
  options.phase = [] {
    auto now = distributed::current_phase();
    return fmt::format("in {} for {:.1f} s", now.text, std::chrono::duration<double>(now.age).count());
  };
  if (b.process_count() > 1)
    options.on_diverged = [](const Error& error) {
      distributed::fail({distributed::FailureKind::diverged, {}, error.message()});
    };
  return std::make_unique<collectives::Engine>(connect_processes(Clock::now() + collective_timeout()), options);
}

// The peers may still be waiting for what this process has launched.
void drain() { wait_for_launches(Clock::now() + collective_timeout()); }
void leave() {
  drain();
  state().engine->leave();
}

}  // namespace

void drain_before_exit() { std::atexit(drain); }

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
  collectives::Engine* engine = state().ready.load();
  if (engine == nullptr) return out;
  for (const collectives::Outstanding& o : engine->snapshot()) {
    out.push_back(fmt::format("{} {} in launch {} for {:.1f} s", collectives::to_string(o.op), o.name, o.launch,
                              std::chrono::duration<double>(o.age).count()));
    if (!o.waiting_for.empty())
      out.back() += fmt::format("; not here yet: process{} {}", o.waiting_for.size() == 1 ? "" : "es",
                                fmt::join(o.waiting_for, ", "));
  }
  return out;
}

collectives::Engine& engine() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  if (!s.engine) {
    s.engine = make_engine();
    s.ready = s.engine.get();
    if (backend().process_count() > 1) {
      s.leaving = distributed::on_leaving(leave);
      s.failure = distributed::on_failure(
          [](const distributed::Failure& f) { state().engine->fail(distributed::to_error(f, "collective")); });
    }
  }
  return *s.engine;
}

MeshChannel& channel(const Mesh& mesh, bool carries) {
  collectives::Engine* e = carries ? &engine() : nullptr;
  State& s = state();
  std::lock_guard lock(s.mutex);
  auto& slot = s.channels[mesh.id()];
  if (slot && (slot->carried() || !carries)) return *slot;
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
  if (!slot) {
    std::vector<int> processes = c.processes;
    std::sort(processes.begin(), processes.end());
    processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
    slot = std::make_unique<MeshChannel>(h, std::move(processes));
  }
  if (carries) {
    e->add_communicator(std::move(c));
    slot->carry_by(*e);
  }
  return *slot;
}

void MeshChannel::launch(collectives::LaunchedProgram program, const std::function<void(std::uint64_t)>& issue) {
  std::lock_guard lock(mutex_);
  if (auto* e = engine_.load(); e != nullptr && processes_.size() > 1)
    e->begin_launch(communicator_, std::move(program));
  issue(next_launch_++);
}

void MeshChannel::agree(const collectives::LaunchedProgram& program, const std::string& fingerprint,
                        const std::function<std::string()>& text) {
  if (processes_.size() < 2) return;
  std::lock_guard lock(agreement_mutex_);
  std::optional<collectives::Engine::Intent> intent;
  if (auto* e = engine_.load()) intent.emplace(*e, communicator_, program);
  distributed::Proposal p;
  p.operation = *program.name;
  p.key = fmt::format("mesh {:x} agreement {}", communicator_, next_agreement_++);
  p.fingerprint = fingerprint;
  p.text = text;
  p.participants = processes_;
  distributed::agree(distributed::client(), p, collective_timeout());
}

}  // namespace lockstep::runtime

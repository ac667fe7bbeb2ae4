#include "lockstep/distributed/preemption.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "lockstep/distributed/agreement.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/support/log.h"

namespace lockstep::distributed {
namespace {

constexpr std::chrono::hours watch_time{24};
constexpr std::chrono::seconds agreement_time{60};

std::atomic<bool> noticed{false};  // by this process
static_assert(std::atomic<bool>::is_always_lock_free);

struct Preemption {
  std::mutex mutex;  // held while the agreement runs, so that no step is begun meanwhile
  int signal = 0;
  bool taken = false;  // the signal
  struct sigaction previous {};
  bool published = false;
  std::int64_t last_step = 0;
  std::optional<std::int64_t> agreed;
  std::optional<Error> failure;
  std::thread watcher;
};
Preemption& state() {
  static auto* p = new Preemption;
  return *p;
}

void on_signal(int number, siginfo_t* info, void* context) {
  notify_preemption();
  const struct sigaction& previous = state().previous;
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(number, info, context);
  else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    previous.sa_handler(number);
}

void take_signal(Preemption& p) {
  if (p.taken || p.signal == 0) return;
  state();
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(p.signal, nullptr, &p.previous);
  ::sigaction(p.signal, &action, nullptr);
  p.taken = true;
}

// Until somebody gives notice, or the client is closed.
void watch(Client& client) {
  Preemption& p = state();
  try {
    std::string who = client.get(preemption_notice, watch_time);
    std::lock_guard lock(p.mutex);
    log::warning(
        "process {} is about to be preempted; agreeing on a step to save at (this process has come to step {})", who,
        p.last_step);
    try {
      Proposal proposal{.operation = "reached_preemption_sync_point",
                        .key = "lockstep/preemption",
                        .note = std::to_string(p.last_step)};
      std::int64_t highest = p.last_step;
      for (const std::string& note : agree(client, proposal, agreement_time)) {
        std::int64_t step = 0;
        std::from_chars(note.data(), note.data() + note.size(), step);
        highest = std::max(highest, step);
      }
      p.agreed = highest + 1;
      log::warning("all processes save at step {}", *p.agreed);
    } catch (const Error& e) {
      if (e.code() == ErrorCode::timeout)
        p.failure = e;
      else  // somebody has finished and left
        log::warning("no step to save at: {}", e.message());
    }
  } catch (const Error&) {
    // The gang has failed or ended: whoever waits hears of it elsewhere.
  }
}

}  // namespace

void notify_preemption() { noticed.store(true, std::memory_order_relaxed); }

bool reached_preemption_sync_point(std::int64_t step) {
  Preemption& p = state();
  std::lock_guard lock(p.mutex);
  if (!is_initialized())
    throw_error(ErrorCode::distributed, "reached_preemption_sync_point",
                "lockstep::distributed::initialize() has not been called");
  take_signal(p);
  if (p.failure) throw *p.failure;
  p.last_step = std::max(p.last_step, step);
  if (process_count() > 1 && !p.watcher.joinable()) p.watcher = std::thread([&c = client()] { watch(c); });
  if (noticed.load(std::memory_order_relaxed) && !p.published) {
    p.published = true;
    if (process_count() == 1) {
      p.agreed = step + 1;
    } else {
      std::string id = std::to_string(process_index());
      client().set(std::string(preemption_notice) + "/" + id, "", true);
      try {
        client().set(preemption_notice, id);
      } catch (const Error& e) {
        if (e.code() != ErrorCode::distributed) throw;  // else somebody was faster
      }
    }
  }
  return p.agreed == step;
}

void begin_preemption(int signal) {
  Preemption& p = state();
  std::lock_guard lock(p.mutex);
  p.signal = signal;
  p.published = false;
  p.last_step = 0;
  p.agreed.reset();
  p.failure.reset();
}

void end_preemption() {
  Preemption& p = state();
  if (p.watcher.joinable()) p.watcher.join();
  std::lock_guard lock(p.mutex);
  if (p.taken) ::sigaction(p.signal, &p.previous, nullptr);
  p.taken = false;
}

}  // namespace lockstep::distributed

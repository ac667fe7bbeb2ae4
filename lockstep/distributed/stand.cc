#include "lockstep/distributed/stand.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <thread>

#include "lockstep/distributed/client.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/distributed/phase.h"
#include "lockstep/support/log.h"

namespace lockstep::distributed {
namespace {

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

std::atomic<int> bell{-1};  // the writing end of the pipe on which the thread waits
int ear = -1;
int taken = 0;
struct sigaction before {};
std::thread& listener = *new std::thread;  // immortal: exit() may find it at work

void ring(int) {
  int saved = errno;
  char one = 1;
  [[maybe_unused]] ssize_t n = ::write(bell.load(std::memory_order_relaxed), &one, 1);
  errno = saved;
}

void listen() {
  char word = 0;
  while (::read(ear, &word, 1) == 1 && word == 1) log::write(log::Level::info, where_it_stands());
}

}  // namespace

std::string where_it_stands() {
  PhaseNow now = current_phase();
  std::string text = fmt::format("process {} of {} is in '{}' for {:.1f} s", process_index(), process_count(), now.text,
                                 seconds(now.age));
  for (const std::string& wait : outstanding_work()) text += "\n  waiting in " + wait;
  if (process_count() == 1) return text;
  try {
    for (const TaskInfo& task : client().tasks()) {
      text += fmt::format("\n  process {} ({}, pid {}): {}", task.process, task.identity.host, task.identity.pid,
                          to_string(task.state));
      if (task.state == TaskState::connected && task.process != process_index())
        text += fmt::format(", in '{}' for {:.1f} s", task.phase, seconds(task.phase_age));
    }
  } catch (const Error& e) {
    text += fmt::format("\n  of the others nothing is known: {}", e.message());
  }
  return text;
}

void begin_stand_reports(int signal) {
  if (signal == 0 || taken != 0 || ::sigaction(signal, nullptr, &before) != 0) return;
  // A handler of the program's own stays. Ignored, on the other hand, is how a shell starts what it has in the
  // background.
  if ((before.sa_flags & SA_SIGINFO) || (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)) return;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  ear = ends[0];
  bell = ends[1];
  listener = std::thread(listen);
  struct sigaction action {};
  action.sa_handler = ring;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
  taken = signal;
}

void end_stand_reports() {
  if (taken == 0) return;
  ::sigaction(taken, &before, nullptr);
  taken = 0;
  char end = 0;
  [[maybe_unused]] ssize_t n = ::write(bell, &end, 1);
  listener.join();
  ::close(bell.exchange(-1));
  ::close(ear);
}

}  // namespace lockstep::distributed

#include "tools/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/failure.h"
#include "lockstep/support/error.h"
#include "tools/output.h"
#include "tools/remote.h"

namespace lockstep::tools {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds partial_line_time{200};
constexpr milliseconds drain_time{1000};  // for output of descendants that have outlived a process
constexpr milliseconds time_to_kill_elsewhere{2000};
constexpr milliseconds pause_before_restart{1000};
constexpr int cannot_start = 127;
constexpr int passed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

int usable_cores() {
  cpu_set_t set;
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

bool threads_are_set() { return std::getenv("PJRT_NPROC") != nullptr || std::getenv("NPROC") != nullptr; }

// What is to be started, and how often it has been before.
struct Plan {
  const LaunchOptions& options;
  int processes = 1;
  std::vector<std::string> hosts;  // of each process; empty: this machine
  std::string address, token;
  int attempt = 0;
};

Variables variables_of(const Plan& plan, int process) {
  const LaunchOptions& options = plan.options;
  Variables result{{"JAX_COORDINATOR_ADDRESS", plan.address},
                   {"JAX_NUM_PROCESSES", std::to_string(plan.processes)},
                   {"JAX_PROCESS_ID", std::to_string(process)}};
  if (options.devices_per_process > 0)
    result.emplace_back("JAX_NUM_CPU_DEVICES", std::to_string(options.devices_per_process));
  if (options.recoverable) result.emplace_back("JAX_ENABLE_RECOVERABILITY", "1");
  if (options.restarts > 0) result.emplace_back("LOCKSTEP_RESTART", std::to_string(plan.attempt));
  if (plan.hosts.empty() && plan.processes > 1 && !threads_are_set())
    result.emplace_back("PJRT_NPROC", std::to_string(std::max(1, usable_cores() / plan.processes)));
  return result;
}

// What is executed here for a process.
std::vector<std::string> words_of(const Plan& plan, int process) {
  if (plan.hosts.empty()) return plan.options.command;
  const std::string& host = plan.hosts[static_cast<std::size_t>(process)];
  RemoteCommand remote{.ssh = plan.options.ssh,
                       .host = host,
                       .directory = std::filesystem::current_path(),
                       .variables = forwarded_variables(plan.options.environment),
                       .command = plan.options.command};
  for (const char* name : {"PJRT_NPROC", "NPROC"})
    if (const char* value = std::getenv(name)) remote.variables.emplace_back(name, value);
  auto own = variables_of(plan, process);
  remote.variables.insert(remote.variables.end(), own.begin(), own.end());
  remote.share_cores = threads_are_set() ? 0 : static_cast<int>(std::ranges::count(plan.hosts, host));
  return remote_words(remote);
}

void say(const std::string& text) { fmt::print(stderr, "lockstep run: {}\n", text); }

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_error(ErrorCode::io, "lockstep run", "no pipe: {}", std::strerror(errno));
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close(read);
    close(write);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  static void close(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

// Kills the process groups if the launcher ends without having ended them: a process that only waits for the end of a
// pipe which the launcher holds.
class Guardian {
 public:
  Guardian() {
    pid_t pid = ::fork();
    if (pid < 0) throw_error(ErrorCode::io, "lockstep run", "no process: {}", std::strerror(errno));
    if (pid == 0) watch();
    Pipe::close(pipe_.read);
  }
  ~Guardian() { add(0); }  // nothing is left to do
  void add(pid_t group) { [[maybe_unused]] ssize_t n = ::write(pipe_.write, &group, sizeof group); }

 private:
  [[noreturn]] void watch() {
    ::setsid();
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, nullptr);
    Pipe::close(pipe_.write);
    for (int fd : {0, 1, 2}) ::close(fd);
    std::vector<pid_t> groups;
    pid_t group = -1;
    ssize_t n;
    while ((n = ::read(pipe_.read, &group, sizeof group)) > 0 || (n < 0 && errno == EINTR)) {
      if (n != sizeof group) continue;
      if (group == 0) ::_exit(0);
      groups.push_back(group);
    }
    for (pid_t g : groups) ::kill(-g, SIGKILL);
    ::_exit(0);
  }
  Pipe pipe_;
};

struct Process {
  pid_t pid = -1;
  std::optional<int> status;  // once it has ended: its exit status, or 128 + the signal
  Pipe out, err;
  int control = -1;  // of a process elsewhere: takes names of signals
  std::unique_ptr<LineStream> lines[2];
};

class Launcher {
 public:
  explicit Launcher(const Plan& plan) : plan_(plan), options_(plan.options) {
    sigset_t caught;
    ::sigemptyset(&caught);
    ::sigaddset(&caught, SIGCHLD);
    for (int s : passed_on) ::sigaddset(&caught, s);
    ::sigprocmask(SIG_BLOCK, &caught, &old_mask_);
    signals_ = ::signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    ::signal(SIGPIPE, SIG_IGN);
  }

  ~Launcher() {
    ::close(signals_);
    ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  Launcher(const Launcher&) = delete;

  int run() {
    int width = static_cast<int>(std::to_string(plan_.processes - 1).size());
    for (int p = 0; p < plan_.processes; ++p) {
      auto& process = *processes_.emplace_back(std::make_unique<Process>());
      std::string prefix = options_.prefix ? fmt::format("[{:>{}}] ", p, width) : "";
      process.lines[0] = std::make_unique<LineStream>(out_, prefix);
      process.lines[1] = std::make_unique<LineStream>(err_, prefix);
      start(p, process);
    }
    while (running() || open_streams()) step();
    for (auto& p : processes_)
      for (auto& l : p->lines) l->close();
    for (auto& p : processes_) {
      ::kill(-p->pid, SIGKILL);  // what is left of its group
      ::waitpid(p->pid, nullptr, 0);
      Pipe::close(p->control);
    }
    return result_;
  }
  // Whether the gang has failed by itself: not asked to end, not unable to start.
  bool may_restart() const { return result_ != 0 && stops_ == 0 && !cannot_start_said_ && !reader_gone_; }

 private:
  void start(int id, Process& process) {
    Pipe failure, control;
    bool elsewhere = !plan_.hosts.empty();
    std::vector<std::string> command = words_of(plan_, id);
    pid_t launcher = ::getpid();
    pid_t pid = ::fork();
    if (pid < 0) throw_error(ErrorCode::io, "lockstep run", "no process: {}", std::strerror(errno));
    if (pid == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != launcher) ::_exit(cannot_start);
      ::sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
      ::signal(SIGPIPE, SIG_DFL);
      if (elsewhere) {
        ::dup2(control.read, 0);
      } else if (id != 0 || ::isatty(0)) {
        int null = ::open("/dev/null", O_RDONLY);
        ::dup2(null, 0);
        ::close(null);
      }
      ::dup2(process.out.write, 1);
      ::dup2(process.err.write, 2);
      if (!elsewhere) {
        for (auto& [name, value] : variables_of(plan_, id)) ::setenv(name.c_str(), value.c_str(), 1);
        if (!plan_.token.empty()) ::setenv("LOCKSTEP_TOKEN", plan_.token.c_str(), 1);
      }
      std::vector<char*> words;
      for (auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::execvp(words[0], words.data());
      int error = errno;
      [[maybe_unused]] ssize_t n = ::write(failure.write, &error, sizeof error);
      ::_exit(cannot_start);
    }
    ::setpgid(pid, pid);
    guardian_.add(pid);
    process.pid = pid;
    Pipe::close(process.out.write);
    Pipe::close(process.err.write);
    Pipe::close(failure.write);
    if (elsewhere) {
      process.control = std::exchange(control.write, -1);
      tell(process, plan_.token);
    }
    int error = 0;
    if (::read(failure.read, &error, sizeof error) == sizeof error && !cannot_start_said_) {
      cannot_start_said_ = true;
      say(fmt::format("can't start '{}': {}", command[0], std::strerror(error)));
    }
  }

  static void tell(Process& process, const std::string& line) {
    std::string text = line + "\n";
    if (process.control >= 0 && ::write(process.control, text.data(), text.size()) < 0) Pipe::close(process.control);
  }

  bool running() const {
    return std::any_of(processes_.begin(), processes_.end(), [](auto& p) { return !p->status; });
  }
  bool open_streams() const {
    if (drain_until_ && Clock::now() >= *drain_until_) return false;
    return std::any_of(processes_.begin(), processes_.end(),
                       [](auto& p) { return p->out.read >= 0 || p->err.read >= 0; });
  }

  void step() {
    std::vector<pollfd> waits{{.fd = signals_, .events = POLLIN}};
    for (auto& p : processes_) {
      waits.push_back({.fd = p->out.read, .events = POLLIN});
      waits.push_back({.fd = p->err.read, .events = POLLIN});
    }
    bool partial = false;
    for (auto& p : processes_) partial = partial || p->lines[0]->partial() || p->lines[1]->partial();
    Clock::time_point wake = Clock::time_point::max();
    for (auto& t : {kill_at_, term_at_, cut_at_, drain_until_})
      if (t) wake = std::min(wake, *t);
    if (partial) wake = std::min(wake, Clock::now() + partial_line_time);
    int timeout = -1;
    if (wake != Clock::time_point::max())
      timeout = std::max(0, static_cast<int>(std::chrono::ceil<milliseconds>(wake - Clock::now()).count()));
    if (::poll(waits.data(), waits.size(), timeout) == 0)
      for (auto& p : processes_)
        for (auto& l : p->lines) l->flush_partial();
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (waits[1 + 2 * i].revents) read(processes_[i]->out.read, *processes_[i]->lines[0]);
      if (waits[2 + 2 * i].revents) read(processes_[i]->err.read, *processes_[i]->lines[1]);
    }
    if (waits[0].revents) take_signals();
    if (term_at_ && Clock::now() >= *term_at_) {
      term_at_.reset();
      if (!cannot_start_said_)
        say(fmt::format("ending the others (SIGTERM, then SIGKILL after {:.0f} s)", options_.grace.count() / 1e3));
      ended_the_rest_ = true;
      signal_all(SIGTERM);
      kill_at_ = Clock::now() + options_.grace;
    }
    if (kill_at_ && Clock::now() >= *kill_at_) {
      kill_at_.reset();
      signal_all(SIGKILL);
    }
    if (cut_at_ && Clock::now() >= *cut_at_) {
      cut_at_ = Clock::time_point::max();
      for (auto& p : processes_)
        if (!p->status) ::kill(-p->pid, SIGKILL);
    }
    if ((out_.broken() || err_.broken()) && !reader_gone_) {
      reader_gone_ = true;
      if (result_ == 0) result_ = 128 + SIGPIPE;
      signal_all(SIGTERM);
      kill_at_ = Clock::now() + options_.grace;
    }
  }

  void read(int& fd, LineStream& lines) {
    char buffer[1 << 16];
    ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n > 0) return lines.add({buffer, static_cast<std::size_t>(n)});
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    lines.close();
    Pipe::close(fd);
  }

  void take_signals() {
    signalfd_siginfo info;
    while (::read(signals_, &info, sizeof info) == sizeof info) {
      int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        reap();
        continue;
      }
      bool again = (signal == SIGINT || signal == SIGTERM) && ++stops_ > 1;
      signal_all(again ? SIGKILL : signal);
    }
  }

  void reap() {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      Process& p = *processes_[i];
      siginfo_t info{};
      // It stays a zombie until all have ended, so that its group's number belongs to nobody else.
      if (p.status || ::waitid(P_PID, p.pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) continue;
      bool signalled = info.si_code != CLD_EXITED;
      p.status = signalled ? 128 + info.si_status : info.si_status;
      note_end(static_cast<int>(i), signalled);
    }
    if (!running() && !drain_until_) drain_until_ = Clock::now() + drain_time;
  }

  void note_end(int id, bool signalled) {
    int status = *processes_[id]->status;
    if (status == 0) return;
    // A process that ends because its gang has failed may be faster than the one at fault.
    auto follows = [](int s) { return distributed::describe_exit_code(s) != nullptr; };
    bool first = result_ == 0, tolerated = options_.recoverable && id != 0;
    if (!first && !tolerated && (!follows(result_) || follows(status) || ended_the_rest_)) return;
    if (!tolerated || cannot_start_said_) result_ = status;
    if (!cannot_start_said_ && (plan_.processes > 1 || !plan_.hosts.empty())) {
      std::string how = signalled ? fmt::format("was ended by signal {} ({})", status - 128, ::strsignal(status - 128))
                                  : fmt::format("exited with status {}", status);
      if (const char* meaning = signalled ? nullptr : distributed::describe_exit_code(status))
        how += fmt::format(" ({})", meaning);
      if (plan_.hosts.empty()) {
        say(fmt::format("process {} (pid {}) {}", id, processes_[id]->pid, how));
      } else {
        constexpr int ssh_failed = 255;
        if (status == ssh_failed) how += fmt::format(" (of {}: no connection, or it broke)", options_.ssh);
        say(fmt::format("process {} on {} {}", id, plan_.hosts[static_cast<std::size_t>(id)], how));
      }
    }
    if (!first || (tolerated && !cannot_start_said_)) return;
    if (!running() || stops_ > 0) return;
    if (cannot_start_said_)
      term_at_ = Clock::now();
    else
      term_at_ = Clock::now() + options_.linger;
  }

  void signal_all(int signal) {
    for (auto& p : processes_) {
      if (p->status && signal != SIGKILL) continue;
      if (p->control < 0)
        ::kill(-p->pid, signal);
      else if (signal != SIGKILL)
        tell(*p, ::sigabbrev_np(signal));
      else
        Pipe::close(p->control);  // which kills over there; what is left of the connection goes a little later
    }
    if (signal == SIGKILL && !plan_.hosts.empty() && !cut_at_) cut_at_ = Clock::now() + time_to_kill_elsewhere;
  }

  const Plan& plan_;
  const LaunchOptions& options_;
  sigset_t old_mask_;
  int signals_ = -1;
  Guardian guardian_;
  Sink out_{1}, err_{2};
  std::vector<std::unique_ptr<Process>> processes_;
  int result_ = 0, stops_ = 0;
  bool cannot_start_said_ = false, reader_gone_ = false, ended_the_rest_ = false;
  std::optional<Clock::time_point> term_at_, kill_at_, cut_at_, drain_until_;
};

std::string new_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw_error(ErrorCode::io, "lockstep run", "no random numbers: {}", std::strerror(errno));
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

// As one would type them; without the token, which is made at each start.
void print_commands(const Plan& plan) {
  for (int p = 0; p < plan.processes; ++p) {
    std::string line;
    if (plan.hosts.empty())
      for (auto& [name, value] : variables_of(plan, p)) line += fmt::format("{}={} ", name, shell_quoted(value));
    const char* space = "";
    for (auto& word : words_of(plan, p)) line += space + shell_quoted(word), space = " ";
    fmt::print("{}\n", line);
  }
}

}  // namespace

int launch(const LaunchOptions& options) {
  Plan plan{.options = options};
  if (options.hosts.empty()) {
    plan.processes = options.processes;
  } else {
    plan.hosts = place_processes(options.hosts, options.processes);
    plan.processes = static_cast<int>(plan.hosts.size());
  }
  if (plan.processes < 1)
    throw_error(ErrorCode::invalid_argument, "lockstep run", "say how many processes (-n) or on which hosts (--hosts)");
  if (std::getenv("LOCKSTEP_TOKEN") == nullptr && std::getenv("LOCKSTEP_TOKEN_FILE") == nullptr)
    plan.token = new_token();
  else if (const char* token = std::getenv("LOCKSTEP_TOKEN"))
    plan.token = token;
  std::string coordinator = options.coordinator;
  if (coordinator.empty()) {
    coordinator = plan.hosts.empty() ? "127.0.0.1" : plan.hosts.front();
    coordinator = coordinator.substr(coordinator.find('@') + 1);  // of user@host
  }
  for (;; ++plan.attempt) {
    plan.address = fmt::format("{}:{}", coordinator, options.port != 0 ? options.port : distributed::free_port());
    if (options.dry_run) {
      print_commands(plan);
      return 0;
    }
    Launcher launcher(plan);
    int status = launcher.run();
    if (!launcher.may_restart() || plan.attempt >= options.restarts) return status;
    say(fmt::format("starting again, {} of {} times", plan.attempt + 1, options.restarts));
    std::this_thread::sleep_for(pause_before_restart);
  }
}

}  // namespace lockstep::tools

#include "tools/remote.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include "lockstep/support/error.h"

namespace lockstep::tools {
namespace {

struct Host {
  std::string name;
  int processes;  // 0: not said
};

Host parse_host(const std::string& text) {
  std::size_t colon = text.find(':');
  Host host{text.substr(0, colon), 0};
  if (colon != std::string::npos) {
    const char* end = text.data() + text.size();
    auto parsed = std::from_chars(text.data() + colon + 1, end, host.processes);
    if (parsed.ec != std::errc() || parsed.ptr != end || host.processes < 1) host.name.clear();
  }
  if (host.name.empty() || host.name.starts_with('-'))
    throw_error(ErrorCode::invalid_argument, "lockstep run",
                "--hosts: '{}' is neither a host nor HOST:PROCESSES, for example node1 or node1:4", text);
  return host;
}

std::vector<std::string> words_of_ssh(const std::string& ssh) {
  std::vector<std::string> words;
  std::istringstream stream(ssh);
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.empty()) throw_error(ErrorCode::invalid_argument, "lockstep run", "--ssh names no command");
  return words;
}

// A command whose output is kept; it ends with this object, or with this process.
class Probe {
 public:
  explicit Probe(std::vector<std::string> words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_error(ErrorCode::io, "lockstep run", "no pipe: {}", std::strerror(errno));
    pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(127);
      int null = ::open("/dev/null", O_RDWR);
      ::dup2(null, 0);
      ::dup2(ends[1], 1);
      ::dup2(ends[1], 2);
      std::vector<char*> arguments;
      for (auto& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      ::execvp(arguments[0], arguments.data());
      ::dprintf(2, "%s: %s\n", arguments[0], std::strerror(errno));
      ::_exit(127);
    }
    ::close(ends[1]);
    output_ = ends[0];
    if (pid_ < 0) throw_error(ErrorCode::io, "lockstep run", "no process: {}", std::strerror(errno));
    ::setpgid(pid_, pid_);
  }
  ~Probe() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(output_);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // "" if it ends with status 0 before the deadline, else what it said.
  std::string reason(std::chrono::steady_clock::time_point deadline) {
    std::string said;
    for (;;) {
      auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
      pollfd wait{.fd = output_, .events = POLLIN};
      if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) == 0) return "no answer";
      char buffer[512];
      ssize_t n = ::read(output_, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      said.append(buffer, static_cast<std::size_t>(n));
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
    while (!said.empty() && said.back() == '\n') said.pop_back();
    said = said.substr(said.rfind('\n') + 1);  // npos + 1 is 0
    return said.empty() ? fmt::format("{} {}", WIFEXITED(status) ? "exit status" : "signal",
                                      WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status))
                        : said;
  }

 private:
  pid_t pid_ = -1;
  int output_ = -1;
};

}  // namespace

std::string host_name(const std::string& host) { return parse_host(host).name; }

std::vector<UnreachedHost> unreached_hosts(const std::string& ssh, const std::vector<std::string>& hosts,
                                           std::chrono::milliseconds limit) {
  auto deadline = std::chrono::steady_clock::now() + limit;
  std::vector<std::unique_ptr<Probe>> probes;
  for (auto& host : hosts) {
    std::vector<std::string> words = words_of_ssh(ssh);
    words.insert(words.end(), {host_name(host), "true"});
    probes.push_back(std::make_unique<Probe>(std::move(words)));
  }
  std::vector<UnreachedHost> result;
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (std::string reason = probes[i]->reason(deadline); !reason.empty()) result.push_back({hosts[i], reason});
  return result;
}

std::string shell_quoted(const std::string& word) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string text = "'";
  for (char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

std::vector<std::string> place_processes(const std::vector<std::string>& hosts, int processes) {
  std::vector<Host> parsed;
  int said = 0, unsaid = 0;
  for (auto& text : hosts) {
    parsed.push_back(parse_host(text));
    said += parsed.back().processes;
    unsaid += parsed.back().processes == 0;
  }
  if (processes == 0) processes = said + unsaid;
  int rest = processes - said;
  if (rest < unsaid || (unsaid == 0 && rest != 0))
    throw_error(ErrorCode::invalid_argument, "lockstep run",
                "{} processes do not fit {}: {} are placed by HOST:PROCESSES, and {} more host{} without a number "
                "take{} at least one each",
                processes, fmt::join(hosts, ","), said, unsaid, unsaid == 1 ? "" : "s", unsaid == 1 ? "s" : "");
  std::vector<std::string> result;
  for (auto& host : parsed) {
    int count = host.processes;
    if (count == 0) {
      count = (rest + unsaid - 1) / unsaid;
      rest -= count;
      --unsaid;
    }
    result.insert(result.end(), static_cast<std::size_t>(count), host.name);
  }
  return result;
}

std::vector<std::string> remote_words(const RemoteCommand& remote) {
  std::string script = "IFS= read -r LOCKSTEP_TOKEN; [ -z \"$LOCKSTEP_TOKEN\" ] || export LOCKSTEP_TOKEN\n";
  script += fmt::format("cd {} || exit 127\n", shell_quoted(remote.directory));
  if (remote.share_cores > 0)
    script += fmt::format("n=$(($(nproc) / {})); [ $n -gt 0 ] || n=1; export PJRT_NPROC=$n\n", remote.share_cores);
  for (auto& [name, value] : remote.variables) script += fmt::format("export {}={}\n", name, shell_quoted(value));
  script += "exec 3<&0 </dev/null\nsetsid";
  for (auto& word : remote.command) script += " " + shell_quoted(word);
  script +=
      " 3<&- &\n"
      "p=$!\n"
      "(while read -r s <&3; do kill -s \"$s\" -- -$p || kill -s \"$s\" $p; done; kill -s KILL -- -$p $p) "
      ">/dev/null 2>&1 &\n"
      "wait $p; c=$?\n"
      "kill $! 2>/dev/null; kill -s KILL -- -$p 2>/dev/null\n"
      "exit $c";
  std::vector<std::string> words = words_of_ssh(remote.ssh);
  words.insert(words.end(), {remote.host, "exec sh -c " + shell_quoted(script)});
  return words;
}

Variables forwarded_variables(const std::vector<std::string>& asked) {
  Variables result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const char* equals = std::strchr(*entry, '=');
    if (equals == nullptr) continue;
    std::string name(*entry, static_cast<std::size_t>(equals - *entry));
    bool secret = name == "LOCKSTEP_TOKEN";
    if (!secret && (name.starts_with("JAX_") || name.starts_with("LOCKSTEP_") || name == "XLA_FLAGS"))
      result.emplace_back(name, equals + 1);
  }
  for (auto& text : asked) {
    std::size_t equals = text.find('=');
    std::string name = text.substr(0, equals);
    if (name.empty() ||
        name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
      throw_error(ErrorCode::invalid_argument, "lockstep run", "--env: '{}' is neither NAME nor NAME=VALUE", text);
    if (equals != std::string::npos)
      result.emplace_back(name, text.substr(equals + 1));
    else if (const char* value = std::getenv(name.c_str()))
      result.emplace_back(name, value);
  }
  return result;
}

}  // namespace lockstep::tools

#include "tests/distributed/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

void read_into(int& fd, std::string& text) {
  char buffer[4096];
  ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n > 0) {
    text.append(buffer, static_cast<std::size_t>(n));
  } else {
    ::close(fd);
    fd = -1;
  }
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& command, const Variables& variables) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::dup2(out[1], 1);
    ::dup2(err[1], 2);
    for (auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    std::vector<char*> words;
    for (auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_fd_ = out[0];
  err_fd_ = err[0];
}

Subprocess::Subprocess(Subprocess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_fd_(std::exchange(other.out_fd_, -1)),
      err_fd_(std::exchange(other.err_fd_, -1)),
      status_(other.status_),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)) {}

Subprocess::~Subprocess() {
  if (pid_ > 0 && status_ < 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) ::close(out_fd_);
  if (err_fd_ >= 0) ::close(err_fd_);
}

void Subprocess::signal(int number) const { ::kill(pid_, number); }

// Reads what there is within the time; false once both streams have ended.
bool Subprocess::pump(std::chrono::milliseconds time) {
  pollfd waits[2] = {{.fd = out_fd_, .events = POLLIN}, {.fd = err_fd_, .events = POLLIN}};
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  ::poll(waits, 2, static_cast<int>(time.count()));
  if (waits[0].revents) read_into(out_fd_, out_);
  if (waits[1].revents) read_into(err_fd_, err_);
  return true;
}

bool Subprocess::wait_for(const std::string& text, std::chrono::milliseconds time) {
  auto end = Clock::now() + time;
  while (out_.find(text) == std::string::npos && err_.find(text) == std::string::npos) {
    if (Clock::now() >= end || !pump(std::chrono::milliseconds(20))) return false;
  }
  return true;
}

int Subprocess::wait(std::chrono::milliseconds time) {
  auto end = Clock::now() + time;
  while (status_ < 0 && Clock::now() < end) {
    if (!pump(std::chrono::milliseconds(10))) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    int status;
    if (::waitpid(pid_, &status, WNOHANG) == pid_)
      status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  auto rest = Clock::now() + std::chrono::milliseconds(500);  // descendants may hold the streams open
  while (status_ >= 0 && Clock::now() < rest && pump(std::chrono::milliseconds(10))) {
  }
  return status_;
}

bool alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  if (!std::getline(file, stat)) return false;
  std::size_t paren = stat.rfind(')');
  return paren != std::string::npos && stat.substr(paren + 2, 1) != "Z";
}

}  // namespace lockstep

// A child process of a test, with its output.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class Subprocess {
 public:
  using Variables = std::vector<std::pair<std::string, std::string>>;
  Subprocess(const std::vector<std::string>& command, const Variables& variables = {});
  ~Subprocess();  // kills
  Subprocess(Subprocess&&) noexcept;
  Subprocess(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // What it has written so far; until it has ended, or has written `text`, or the time is up.
  const std::string& out() const { return out_; }
  const std::string& err() const { return err_; }
  bool wait_for(const std::string& text, std::chrono::milliseconds time = std::chrono::seconds(20));
  // Its exit status, 128 + n if signal n ended it, -1 if it has not ended in time.
  int wait(std::chrono::milliseconds time = std::chrono::seconds(20));

 private:
  bool pump(std::chrono::milliseconds time);

  pid_t pid_ = -1;
  int out_fd_ = -1, err_fd_ = -1, status_ = -1;
  std::string out_, err_;
};

// Whether there is such a process (zombies don't count).
bool alive(pid_t pid);

}  // namespace lockstep

// A fixed set of threads that run tasks in the order in which they were posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::collectives {

class WorkerPool {
 public:
  WorkerPool(const std::string& name, int threads);  // the name is the threads', 15 characters at most
  ~WorkerPool() { close(); }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs what has been posted, then ends the threads; what is posted later never runs. Idempotent.
  void close();
  // From any thread. Tasks must not throw.
  void post(std::function<void()> task);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::collectives

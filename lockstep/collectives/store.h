// The small key-value store through which transports find their peers. The gang's control plane implements it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

namespace lockstep::collectives {

inline constexpr std::chrono::seconds kCheckInterval{1};

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there; throws Error(timeout) at the deadline.
  virtual std::string get(const std::string& key, std::chrono::steady_clock::time_point deadline) = 0;
  // Throws if waiting has become vain: a process that is to come has died, say. Who waits for processes calls it each
  // kCheckInterval.
  virtual void check() {}
  // A process, and what it is doing if that is known, for the error that it has not come.
  virtual std::string describe(int process) { return "process " + std::to_string(process); }
};

// A store for ranks that are threads of one process.
class MemoryStore : public Store {
 public:
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::steady_clock::time_point deadline) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

}  // namespace lockstep::collectives

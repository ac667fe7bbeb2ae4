// A store in a directory, for transports between the processes of a test or benchmark.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

#include "lockstep/collectives/store.h"
#include "lockstep/support/error.h"

namespace lockstep::collectives::testing {

class FileStore : public Store {
 public:
  explicit FileStore(std::string directory) : directory_(std::move(directory)) {}
  void set(const std::string& key, const std::string& value) override {
    std::ofstream(path(key) + ".new") << value;
    std::filesystem::rename(path(key) + ".new", path(key));
  }
  std::string get(const std::string& key, std::chrono::steady_clock::time_point deadline) override {
    while (!std::filesystem::exists(path(key))) {
      if (std::chrono::steady_clock::now() > deadline) throw_error(ErrorCode::timeout, "store", "no key {}", key);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ostringstream text;
    text << std::ifstream(path(key)).rdbuf();
    return text.str();
  }

 private:
  std::string path(std::string key) const {
    std::replace(key.begin(), key.end(), '/', '.');
    return directory_ + "/" + key;
  }
  std::string directory_;
};

}  // namespace lockstep::collectives::testing

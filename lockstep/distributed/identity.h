// What a process tells the others of itself when it joins.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::distributed {

struct Identity {
  std::string host;
  int pid = 0;
  int local_devices = 0;
  std::string build;                            // of lockstep; has to be equal on all processes
  std::string plugin;                           // of the PJRT plugin; has to be equal
  std::map<std::string, std::string> settings;  // those that change programs; have to be equal
  std::string machine;                          // equal for processes that can share memory
};

// Host, pid, build and machine of this process.
Identity local_identity();

// "0-2, 5"; the processes have to be sorted
std::string process_ranges(const std::vector<int>& processes);

// "0.1.0"
const char* version();
// The version and the linker's build id of this library: "0.1.0 4a5b...".
const std::string& build_id();

}  // namespace lockstep::distributed

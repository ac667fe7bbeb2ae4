// `lockstep doctor`: whether a cluster can carry a gang, without its devices. A process on every host joins a gang
// (which shows that names resolve, the coordinator is reached and the builds are equal), then every pair connects and
// measures.
#pragma once

#include <chrono>
#include <iosfwd>
#include <string>
#include <vector>

namespace lockstep::tools {

struct DoctorOptions {
  std::chrono::milliseconds timeout = std::chrono::seconds(30);  // to join, and for each step after that
  std::chrono::milliseconds transfer{150};                       // how long each direction of a pair is measured
};

struct HostReport {
  std::string host, address;
  int pid = 0, cores = 0;
  double clock_offset = 0;  // seconds ahead of process 0's
  double clock_error = 0;   // the offset is known to that
};
struct PairReport {
  int a = 0, b = 0;
  double latency = 0;          // seconds there and back
  double there = 0, back = 0;  // bytes per second
  std::string error;           // why there is no connection
};
struct ClusterReport {
  std::vector<HostReport> hosts;
  std::vector<PairReport> pairs;
  std::vector<std::string> problems;  // found while the gang was formed
};

// What is wrong, in sentences; empty: nothing.
std::vector<std::string> diagnose(const ClusterReport& report);
// The table and what is wrong.
std::string to_text(const ClusterReport& report);

// What each process of the gang does. Process 0 prints the report. Returns 0, or 1 if something is wrong. A process
// that is alone says how to start more. Throws what initialize() throws.
int examine(const DoctorOptions& options);

}  // namespace lockstep::tools

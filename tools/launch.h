// Starts the processes of a gang, on this machine or on others over ssh, and stands for them: their output, their
// signals, their status.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace lockstep::tools {

struct LaunchOptions {
  int processes = 0;            // 0: one on each host
  int devices_per_process = 0;  // 0: the program's own default
  int port = 0;                 // of the coordinator; 0: a free one
  bool prefix = true;           // of lines of output with the process's id
  bool dry_run = false;
  bool recoverable = false;  // the others go on when one other than process 0 fails; the status is process 0's then
  int restarts = 0;          // how often the gang is started again after it has failed
  // After the first process has failed, the others have `linger` to end by themselves (they learn of it and say what
  // they know), then they get SIGTERM, and after `grace` SIGKILL.
  std::chrono::milliseconds linger = std::chrono::seconds(5);
  std::chrono::milliseconds grace = std::chrono::seconds(5);
  std::vector<std::string> command;

  std::vector<std::string> hosts;        // NAME or NAME:PROCESSES; none: this machine
  std::string coordinator;               // what the others call the first host, if not by its name here
  std::string ssh = "ssh";               // the command that reaches a host, with options
  std::vector<std::string> environment;  // for other hosts: NAME (as it is here) or NAME=VALUE
};

// Runs them to the end. Returns the status of the first process that failed (128 + n if signal n ended it), 0 if none
// did, 127 if the program can't be started. One that failed by itself goes before one that ended because its gang had
// failed (81 to 86).
//
// Each process is in a process group of its own. All of them end with the launcher, however it ends. SIGINT, SIGTERM,
// SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on; a second SIGINT or SIGTERM kills. Standard input goes to process
// 0 if it runs here, unless it is a terminal; the others have none.
//
// Unless LOCKSTEP_TOKEN or LOCKSTEP_TOKEN_FILE is set, the gang gets a token of its own.
//
// Throws Error(invalid_argument) for options that do not fit each other.
int launch(const LaunchOptions& options);

}  // namespace lockstep::tools

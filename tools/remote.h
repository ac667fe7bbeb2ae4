// Processes on other machines, over ssh.
//
// What runs there is a few lines of shell: they read the gang's token and then names of signals from standard input,
// start the program in a session of its own, pass the signals on to its process group, and kill that group when the
// input ends, which it does when the launcher or the connection ends. So nothing has to be installed there but the
// program, and no secret stands on a command line.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::tools {

using Variables = std::vector<std::pair<std::string, std::string>>;

// A word for a shell, in quotes if it needs them.
std::string shell_quoted(const std::string& word);

// The host of each process, in blocks. `processes` of 0: as many as the hosts take, one where no number is given.
// Error(invalid_argument) if the numbers contradict each other.
std::vector<std::string> place_processes(const std::vector<std::string>& hosts, int processes);

// The name in HOST or HOST:PROCESSES.
std::string host_name(const std::string& host);

struct UnreachedHost {
  std::string host;    // as it was given
  std::string reason;  // what ssh said
};
// Those of the hosts that can't be reached now. A command that does nothing is run on each, all at once; it may take
// `limit`.
std::vector<UnreachedHost> unreached_hosts(const std::string& ssh, const std::vector<std::string>& hosts,
                                           std::chrono::milliseconds limit);

struct RemoteCommand {
  std::string ssh;  // "ssh -p 222"
  std::string host;
  std::string directory;  // where the program runs
  Variables variables;
  int share_cores = 1;  // with so many processes on that host; 0: threads are not limited
  std::vector<std::string> command;
};
// The words to execute here. Their standard input takes the token, a line, and then lines with names of signals: TERM.
std::vector<std::string> remote_words(const RemoteCommand& remote);

// This environment's variables that a gang's processes should have in common: JAX_*, LOCKSTEP_*, XLA_FLAGS; and those
// asked for, NAME or NAME=VALUE.
Variables forwarded_variables(const std::vector<std::string>& asked);

}  // namespace lockstep::tools

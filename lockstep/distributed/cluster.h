// Who this process is in its cluster: options, then environment, then what the launcher has left.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/distributed/initialize.h"

namespace lockstep::distributed {

// As getenv: nullptr if unset.
using Environment = std::function<const char*(const char* name)>;

// What one launcher's traces say; what they don't say is empty.
struct Detected {
  std::string method;  // "slurm"
  std::string reason;  // "Slurm: SLURM_JOB_ID=17"
  std::optional<std::string> address;
  std::optional<int> count, id, local_id;
  bool launchers_host = false;  // the address is that of the host where the launcher was started
};
// All launchers whose traces are there, in the order in which they are believed.
std::vector<Detected> detect_clusters(const Environment& environment);

struct Place {
  std::string address;          // "" if alone; may be several, separated by commas
  std::string bind_address;     // of process 0; "" if alone, or if it depends on which of the addresses is its own
  bool launchers_host = false;  // see Detected
  int count = 1, id = 0;
  std::vector<int> local_device_ids;
  std::string reason;  // where this was taken from
};
// Error(invalid_argument) if something is missing, doesn't parse or is out of range, or if two launchers disagree and
// neither the options nor the environment decide.
Place find_place(const InitializeOptions& options, const Environment& environment);
// On process 0, of several addresses, takes the first that is this machine's, and where to listen. Error(distributed)
// if none is, with the reasons. A single one may be another's, which forwards it, unless it is the launcher's.
void settle_coordinator(Place& place);

}  // namespace lockstep::distributed

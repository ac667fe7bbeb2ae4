// Adds shared memory between the processes of one host to another transport.
//
// Frames to a process of the same host go through a ring in its memory and are read there by a thread of ours. All
// other frames, and the news that a peer is gone, come by the transport below. The memory has no name, so nothing
// stays behind whoever dies. A process that gets none keeps to the transport below, with a warning.
#pragma once

#include <memory>
#include <string>

#include "lockstep/collectives/store.h"
#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

// Every process that the transport below connects calls this, with keys of the store that begin with `prefix`, a new
// one for each gang.
std::unique_ptr<Transport> with_shared_memory(std::unique_ptr<Transport> below, Store& store, TimePoint deadline,
                                              const std::string& prefix = "shared");

}  // namespace lockstep::collectives

// A transport between ranks that are threads of one process: for tests; and one for a process alone.
#pragma once

#include <memory>

#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

// Of a process that meets nobody: it reaches no peer.
std::unique_ptr<Transport> solitary_transport(int rank, int size);

class LocalFabric {
 public:
  explicit LocalFabric(int size);
  // The transport of one rank; once per rank. It may outlive the fabric.
  std::unique_ptr<Transport> transport(int rank);
  // Ends the connection between two ranks, as a broken network would.
  void cut(int a, int b);

  class Hub;

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace lockstep::collectives

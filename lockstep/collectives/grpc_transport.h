// A transport over gRPC's streams, encrypted where there is TLS. Slower than the one on Gloo's device: gRPC copies, and
// hands each chunk from thread to thread.
//
// Every process but that of the highest rank has a listener, which stays for the life of the transport. Callers who
// don't know the gang's secret, which the store hands out, are refused; with TLS so are those without a certificate of
// the gang's CA and name, and nobody can read or change what the connections carry.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/collectives/store.h"
#include "lockstep/collectives/transport.h"
#include "lockstep/support/tls.h"

namespace lockstep::collectives {

struct GrpcOptions {
  std::string address, interface, towards;  // where this process listens, as in GlooOptions
  std::string prefix = "grpc";              // of the store's keys; a new one for each gang
  std::optional<Tls> tls;                   // on all processes or on none
  std::vector<int> members;                 // that are to be connected, sorted; empty: all
};

// Connects the processes 0 ... size - 1, or the members, each of which calls this. Throws Error(timeout) naming the
// processes that have not come by the deadline, Error(peer) naming one that refuses the connection, with its reason.
std::unique_ptr<Transport> connect_grpc(Store& store, int rank, int size, TimePoint deadline, GrpcOptions options);

}  // namespace lockstep::collectives

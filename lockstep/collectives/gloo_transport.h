// The transport between hosts: TCP on Gloo's device, which looks up interfaces and addresses and runs the event loop
// that is our progress thread.
//
// Gloo's own pairs are not used. A receive on them needs a thread that waits for it, each message costs three packets,
// the first stranger to connect becomes the peer, and a malformed byte ends the process. Here a process has one
// listener and one connection to each other process, set up with a handshake that strangers fail without disturbing
// anybody, and frames go out from the thread that sends them and come in on the progress thread.
//
// TCP is neither encrypted nor authenticated: the handshake's token, handed out by the store, keeps out who cannot read
// the store, not who can read or change the network's traffic.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/store.h"
#include "lockstep/collectives/transport.h"

namespace lockstep::collectives {

struct GlooOptions {
  // Where this process listens: an address or host name, or an interface; with neither, the address that this machine
  // uses to reach `towards` (a host, usually the coordinator's), or the loopback address without that.
  std::string address, interface, towards;
  std::string prefix = "gloo";  // of the store's keys; a new one for each gang
  std::vector<int> members;     // that are to be connected, sorted; empty: all
};

// Connects the processes 0 ... size - 1, or the members, each of which calls this. Throws Error(timeout) naming the
// processes that have not come by the deadline.
std::unique_ptr<Transport> connect_gloo(Store& store, int rank, int size, TimePoint deadline, GlooOptions options);

}  // namespace lockstep::collectives

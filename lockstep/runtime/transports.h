// How the processes of the gang carry frames to each other: which transport is used is set by the environment.
//
// LOCKSTEP_TRANSPORT      "gloo" (plain TCP; the default) or "grpc" (encrypted with TLS if that is set, and then the
//                         default)
// LOCKSTEP_SHARED_MEMORY  processes of one host share memory for it (default 1)
// LOCKSTEP_INTERFACE      the interface, or one of this machine's addresses, that the listener binds to; by default the
//                         address from which the coordinator is reached, or the loopback's if all are on one host
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/collectives/transport.h"

namespace lockstep::runtime {

// Between the processes `members`, sorted, each of which calls it; once in a gang for the same processes. Ranks are the
// processes' ids. Error(timeout), Error(peer) as the transport's connect function.
std::unique_ptr<collectives::Transport> connect_processes(const std::vector<int>& members,
                                                          std::chrono::steady_clock::time_point deadline);

// Throws if the gang has failed, Error(peer) if one of these processes has died in a gang that goes on without it.
void expect_all_there(const std::vector<int>& processes);

// The choices that have to be equal on all processes. Error(invalid_argument) for one that there is not.
std::map<std::string, std::string> transport_settings();

}  // namespace lockstep::runtime

// TLS for the gang's connections: every process shows a certificate, and believes those that the gang's CA has issued
// for the gang's name. The name stands for the gang and not for a host, because a process, the coordinator too, may run
// anywhere; it keeps out other certificates of a CA that serves more than one gang.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/support/tls.h"

namespace lockstep::distributed {

struct Endpoint;

// PEM files. All three or none; those that are not given are taken from the environment.
struct TlsFiles {
  std::string cert;  // LOCKSTEP_TLS_CERT: this process's certificate, and those between it and the CA if there are any
  std::string key;   // LOCKSTEP_TLS_KEY: its private key, not encrypted
  std::string ca;    // LOCKSTEP_TLS_CA: the certificates of who may issue a process's
  std::string name;  // LOCKSTEP_TLS_NAME: the DNS name that every process's certificate has ("lockstep")
};

// Nothing if nothing is set. Error(invalid_argument) for settings that are incomplete or contradict each other (a key
// of another certificate, a certificate of another CA or name, or out of date); Error(io) for an unreadable file.
std::optional<Tls> load_tls(const TlsFiles& given);

// After a connection has failed: why TLS can't succeed with the coordinator there, or "" if it is not TLS's fault, as
// far as this process can tell. Takes at most about twice `timeout`.
std::string tls_trouble(const Endpoint& endpoint, const std::optional<Tls>& tls, std::chrono::milliseconds timeout);

// What initialize() has loaded, for the other connections of this process.
void set_process_tls(std::optional<Tls> tls);
std::optional<Tls> process_tls();

}  // namespace lockstep::distributed

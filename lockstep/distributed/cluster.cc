#include "lockstep/distributed/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/identity.h"
#include "lockstep/support/error.h"

namespace lockstep::distributed {
namespace {

constexpr int first_port = 61440, ports = 4096;  // above the ports that connections take on Linux by default

std::optional<long> to_number(std::string_view text) {
  long value = 0;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// Of processes, devices, ports.
std::optional<int> to_count(std::string_view text) {
  auto value = to_number(text);
  if (!value || *value < 0 || *value > (1 << 24)) return std::nullopt;
  return static_cast<int>(*value);
}

std::optional<int> number(const Environment& environment, const char* name) {
  const char* text = environment(name);
  if (text == nullptr) return std::nullopt;
  auto value = to_count(text);
  if (!value)
    throw_error(ErrorCode::invalid_argument, "initialize", "the environment has {}='{}', which is no valid number",
                name, text);
  return value;
}

std::string at_port(const std::string& host, long port, const Environment& environment) {
  if (auto given = number(environment, "JAX_COORDINATOR_PORT")) port = *given;
  return Address{host, static_cast<int>(port)}.text();
}

long job_port(std::string_view job) {
  std::string digits;
  for (char c : job)
    if (c >= '0' && c <= '9') digits += c;
  if (digits.size() > 15) digits = digits.substr(digits.size() - 15);
  return first_port + to_number(digits).value_or(0) % ports;
}

// The first host of a Slurm list: "node[03-07,9]-ib,other" is "node03-ib".
std::string first_host(const std::string& list) {
  std::size_t end = list.find_first_of(",[");
  if (end == std::string::npos || list[end] == ',') return list.substr(0, end);
  std::size_t close = list.find(']', end);
  std::size_t first_end = std::min(list.find_first_of(",-]", end + 1), list.size());
  std::string host = list.substr(0, end) + list.substr(end + 1, first_end - end - 1);
  if (close != std::string::npos) host += list.substr(close + 1, list.find(',', close) - close - 1);
  return host;
}

std::optional<Detected> slurm(const Environment& environment) {
  const char* job = environment("SLURM_JOB_ID");
  const char* nodes = environment("SLURM_STEP_NODELIST");
  if (!job || !nodes || !environment("SLURM_NTASKS") || !environment("SLURM_PROCID") || !environment("SLURM_LOCALID"))
    return std::nullopt;
  return Detected{.method = "slurm",
                  .reason = fmt::format("Slurm: SLURM_JOB_ID={}", job),
                  .address = at_port(first_host(nodes), job_port(job), environment),
                  .count = number(environment, "SLURM_NTASKS"),
                  .id = number(environment, "SLURM_PROCID"),
                  .local_id = number(environment, "SLURM_LOCALID")};
}

// "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911" or "...;tcp6://[fe80::b9b:ac5d,2620:10d::4]:34911": the addresses of
// mpirun's own host, of which not all have to be in a network of the others. A link-local one says nothing elsewhere.
std::string hosts_of_uri(const std::string& uri, long port, const Environment& environment) {
  std::size_t begin = uri.find("://");
  if (begin == std::string::npos) return "";
  begin += 3;
  bool ipv6 = uri.compare(begin, 1, "[") == 0;
  std::size_t end = ipv6 ? uri.find(']', ++begin) : uri.find_first_of(":;", begin);
  std::string_view rest = std::string_view(uri).substr(begin, end == std::string::npos ? end : end - begin);
  std::string all;
  while (!rest.empty()) {
    std::size_t comma = std::min(rest.find(','), rest.size());
    std::string host(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (!host.empty() && !host.starts_with("fe80:")) all += (all.empty() ? "" : ",") + at_port(host, port, environment);
  }
  return all;
}

std::optional<Detected> ompi(const Environment& environment) {
  const char* uri_text = environment("OMPI_MCA_orte_hnp_uri");
  if (uri_text == nullptr) return std::nullopt;
  std::string uri = uri_text;
  Detected found{.method = "ompi",
                 .reason = "Open MPI: OMPI_MCA_orte_hnp_uri",
                 .count = number(environment, "OMPI_COMM_WORLD_SIZE"),
                 .id = number(environment, "OMPI_COMM_WORLD_RANK"),
                 .local_id = number(environment, "OMPI_COMM_WORLD_LOCAL_RANK"),
                 .launchers_host = true};
  if (auto job = to_number(uri.substr(0, uri.find('.'))))
    if (auto hosts = hosts_of_uri(uri, first_port + *job / 4096 % ports, environment); !hosts.empty())
      found.address = hosts;
  return found;
}

// PRRTE (Open MPI 5) names its jobs prterun-HOST-PID@JOB; other PMIx launchers say no more than the rank.
std::optional<Detected> pmix(const Environment& environment) {
  const char* space = environment("PMIX_NAMESPACE");
  if (space == nullptr || environment("PMIX_RANK") == nullptr) return std::nullopt;
  Detected found{.method = "pmix",
                 .reason = fmt::format("PMIx: PMIX_NAMESPACE={}", space),
                 .count = number(environment, "OMPI_COMM_WORLD_SIZE"),
                 .id = number(environment, "PMIX_RANK"),
                 .local_id = number(environment, "OMPI_COMM_WORLD_LOCAL_RANK"),
                 .launchers_host = true};
  std::string name = space;
  std::size_t at = name.rfind('@'), dash = name.rfind('-', at), begin = name.find('-');
  if (name.starts_with("prte") && at != std::string::npos && dash != std::string::npos && begin < dash)
    found.address =
        at_port(name.substr(begin + 1, dash - begin - 1), job_port(name.substr(dash + 1, at - dash - 1)), environment);
  return found;
}

// An Indexed Job numbers its pods; the rest would have to be asked of the cluster's API, so it has to be said.
std::optional<Detected> kubernetes(const Environment& environment) {
  if (environment("KUBERNETES_SERVICE_HOST") == nullptr) return std::nullopt;
  auto index = number(environment, "JOB_COMPLETION_INDEX");
  if (!index) return std::nullopt;
  return Detected{.method = "k8s", .reason = fmt::format("Kubernetes: JOB_COMPLETION_INDEX={}", *index), .id = index};
}

std::string said(const std::optional<int>& value) { return value ? std::to_string(*value) : "?"; }

std::optional<Detected> choose(std::vector<Detected> found, const std::string& method, bool count_known,
                               bool id_known) {
  if (method == "deactivate") return std::nullopt;
  if (!method.empty()) {
    for (auto& d : found)
      if (d.method == method) return d;
    throw_error(ErrorCode::invalid_argument, "initialize",
                "the cluster detection method '{}' finds nothing here; there are slurm, ompi, pmix and k8s, and "
                "'deactivate'",
                method);
  }
  if (found.empty()) return std::nullopt;
  for (auto& d : found) {
    const Detected& first = found.front();
    bool differ = (!count_known && d.count && first.count && *d.count != *first.count) ||
                  (!id_known && d.id && first.id && *d.id != *first.id);
    if (differ)
      throw_error(ErrorCode::invalid_argument, "initialize",
                  "two launchers disagree on who this process is: process {} of {} by {} ('{}'), process {} of {} by "
                  "{} ('{}'). Name the one to believe as cluster_detection_method or in "
                  "LOCKSTEP_CLUSTER_DETECTION_METHOD, or set JAX_NUM_PROCESSES and JAX_PROCESS_ID.",
                  said(first.id), said(first.count), first.reason, first.method, said(d.id), said(d.count), d.reason,
                  d.method);
  }
  return found.front();
}

// A host's own name often stands for a loopback address on that host (Debian's 127.0.1.1), though others reach it by
// another; so only what means the loopback interface everywhere is taken for it.
std::string default_bind_address(const Address& address) {
  bool loopback = address.host == "localhost" || address.host == "::1" || address.host.starts_with("127.");
  return Address{loopback ? address.host : "::", address.port}.text();
}

}  // namespace

std::vector<Detected> detect_clusters(const Environment& environment) {
  std::vector<Detected> found;
  for (auto* detector : {ompi, slurm, pmix, kubernetes})
    if (auto d = detector(environment)) found.push_back(std::move(*d));
  return found;
}

Place find_place(const InitializeOptions& options, const Environment& environment) {
  std::optional<std::string> address;
  std::optional<int> count, id;
  std::vector<std::string> reasons;
  auto because = [&](const char* reason) {
    if (reasons.empty() || reasons.back() != reason) reasons.push_back(reason);
  };
  auto text = [&](const char* name) {
    const char* value = environment(name);
    return value == nullptr ? "" : value;
  };
  if (!options.coordinator_address.empty()) address = options.coordinator_address;
  if (options.num_processes != -1) count = options.num_processes;
  if (options.process_id != -1) id = options.process_id;
  if (address || count || id) because("options");
  if (!address && *text("JAX_COORDINATOR_ADDRESS")) address = text("JAX_COORDINATOR_ADDRESS"), because("environment");
  if (!count)
    if ((count = number(environment, "JAX_NUM_PROCESSES"))) because("environment");
  if (!id)
    if ((id = number(environment, "JAX_PROCESS_ID"))) because("environment");

  Place place;
  place.local_device_ids = options.local_device_ids;
  std::string_view ids = text("JAX_LOCAL_DEVICE_IDS");
  while (place.local_device_ids.empty() && !ids.empty()) {
    std::vector<int> parsed;
    for (std::string_view rest = ids; !rest.empty();) {
      std::size_t comma = std::min(rest.find(','), rest.size());
      auto value = to_count(rest.substr(0, comma));
      if (!value)
        throw_error(ErrorCode::invalid_argument, "initialize",
                    "the environment has JAX_LOCAL_DEVICE_IDS='{}', which is no list of numbers such as 0,1", ids);
      parsed.push_back(*value);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    place.local_device_ids = std::move(parsed);
  }

  if (!address || !count || !id) {
    std::string method = options.cluster_detection_method;
    if (method.empty()) method = text("LOCKSTEP_CLUSTER_DETECTION_METHOD");
    if (auto found = choose(detect_clusters(environment), method, count.has_value(), id.has_value())) {
      because(found->reason.c_str());
      if (!address) {
        address = found->address;
        place.launchers_host = found->launchers_host;
      }
      if (!count) count = found->count;
      if (!id) id = found->id;
      if (place.local_device_ids.empty() && found->local_id && count.value_or(1) > 1)
        place.local_device_ids = {*found->local_id};
    }
  }
  if (count && *count < 1)
    throw_error(ErrorCode::invalid_argument, "initialize", "the number of processes is {}, it has to be at least 1",
                *count);
  if (count && id && (*id < 0 || *id >= *count))
    throw_error(ErrorCode::invalid_argument, "initialize",
                "the process id is {}, it has to lie between 0 and {} (the number of processes less one)", *id,
                *count - 1);
  place.reason = fmt::format("{}", fmt::join(reasons, ", then "));
  bool alone = (!address && !count && !id) || (count && *count == 1);
  if (alone) {
    place.id = 0;
    return place;
  }
  std::string missing;
  auto need = [&](bool there, const char* what) {
    if (!there) missing += (missing.empty() ? "" : ", ") + std::string(what);
  };
  need(address.has_value(), "the coordinator's address (coordinator_address, JAX_COORDINATOR_ADDRESS)");
  need(count.has_value(), "the number of processes (num_processes, JAX_NUM_PROCESSES)");
  need(id.has_value(), "this process's id (process_id, JAX_PROCESS_ID)");
  if (!missing.empty())
    throw_error(ErrorCode::invalid_argument, "initialize", "missing: {}; the rest was taken from: {}", missing,
                place.reason);
  std::vector<Address> addresses = parse_addresses(*address, "initialize");
  place.address = *address;
  place.count = *count;
  place.id = *id;
  place.bind_address = options.coordinator_bind_address;
  if (place.bind_address.empty()) place.bind_address = text("JAX_COORDINATOR_BIND_ADDRESS");
  if (place.bind_address.empty() && place.id == 0 && addresses.size() == 1 && !place.launchers_host)
    place.bind_address = default_bind_address(addresses.front());
  return place;
}

void settle_coordinator(Place& place) {
  std::vector<Address> addresses = parse_addresses(place.address, "initialize");
  // A single one need not be one of this machine's own: it may be forwarded.
  if (addresses.size() == 1 && !place.launchers_host) return;
  std::string reasons;
  for (const Address& address : addresses) {
    std::string reason = why_foreign(address);
    if (reason.empty()) {
      place.address = address.text();
      if (place.bind_address.empty()) place.bind_address = default_bind_address(address);
      return;
    }
    reasons += fmt::format("\n  {}: {}", address.text(), reason);
  }
  if (!place.bind_address.empty()) return;  // they are forwarded ones
  if (place.launchers_host)
    throw_error(
        ErrorCode::distributed, "initialize",
        "process 0, which runs the coordinator, has to run on the host on which mpirun was started, since mpirun "
        "tells no addresses but those of its own host; this machine has none of them:{}\nStart mpirun on this "
        "machine ({}), or say JAX_COORDINATOR_ADDRESS={}:PORT on every process.",
        reasons, local_identity().host, local_identity().host);
  throw_error(ErrorCode::distributed, "initialize",
              "process 0, which runs the coordinator, has to run on a machine that one of the coordinator's addresses "
              "names; this machine has none of them:{}",
              reasons);
}

}  // namespace lockstep::distributed

// Addresses, the environment that launchers leave, and invitations: any text is a place or an error.
#include <map>
#include <vector>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/cluster.h"
#include "lockstep/distributed/invitation.h"
#include "lockstep/support/error.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using namespace distributed;  // NOLINT

constexpr const char* names[] = {"JAX_COORDINATOR_ADDRESS",
                                 "JAX_NUM_PROCESSES",
                                 "JAX_PROCESS_ID",
                                 "JAX_LOCAL_DEVICE_IDS",
                                 "JAX_COORDINATOR_PORT",
                                 "JAX_COORDINATOR_BIND_ADDRESS",
                                 "SLURM_JOB_ID",
                                 "SLURM_STEP_NODELIST",
                                 "SLURM_NTASKS",
                                 "SLURM_PROCID",
                                 "SLURM_LOCALID",
                                 "OMPI_MCA_orte_hnp_uri",
                                 "OMPI_COMM_WORLD_SIZE",
                                 "OMPI_COMM_WORLD_RANK",
                                 "OMPI_COMM_WORLD_LOCAL_RANK",
                                 "PMIX_NAMESPACE",
                                 "PMIX_RANK",
                                 "KUBERNETES_SERVICE_HOST",
                                 "JOB_COMPLETION_INDEX",
                                 "LOCKSTEP_CLUSTER_DETECTION_METHOD"};
constexpr const char* texts[] = {"0",
                                 "1",
                                 "2",
                                 "node[03-07,9]-ib,x",
                                 "a[",
                                 "]",
                                 "[::1]:5",
                                 "127.0.0.1:80,[::1]:5",
                                 "17.0;tcp://a,b:1",
                                 "17.0;tcp6://[::1]:1",
                                 "prterun-h-1@2",
                                 "prterun-@",
                                 "slurm",
                                 "-1",
                                 "99999999999999999999",
                                 "0,1,"};

template <class F>
void an_error_if_any(F f) {
  try {
    f();
  } catch (const Error& e) {
    check(e.code() == ErrorCode::invalid_argument, e.what());
  }
}

void addresses(const std::string& text) {
  an_error_if_any([&] {
    std::string again;
    for (const Address& a : parse_addresses(text, "fuzz")) {
      check(!a.host.empty() && a.port >= 0 && a.port <= 65535, "a part of an address");
      again += (again.empty() ? "" : ",") + a.text();
    }
    auto first = parse_addresses(text, "fuzz"), second = parse_addresses(again, "fuzz");
    check(first.size() == second.size(), "as many addresses after printing");
    for (std::size_t i = 0; i < first.size(); ++i)
      check(first[i].host == second[i].host && first[i].port == second[i].port, "the same address after printing");
  });
}

void invitations(const std::string& text) {
  an_error_if_any([&] { check(Invitation::parse(text).text() == text, "the same invitation after printing"); });
}

void environment(Choices& choices) {
  std::map<std::string, std::string> variables;
  while (!choices.empty()) {
    std::string& text = variables[names[choices.byte() % std::size(names)]];
    text = texts[choices.below(std::size(texts))];
    if (choices.one_in(2)) text = choices.bytes(40);
    text = text.c_str();  // an environment has no zeros
  }
  an_error_if_any([&] {
    Place place = find_place({}, [&](const char* name) -> const char* {
      auto it = variables.find(name);
      return it == variables.end() ? nullptr : it->second.c_str();
    });
    check(place.id >= 0 && place.id < place.count, "an id among the processes");
    for (int id : place.local_device_ids) check(id >= 0, "a device's id");
    if (place.count > 1) parse_addresses(place.address, "fuzz");
  });
}

}  // namespace

void places(Input input) {
  Choices choices(input);
  int what = choices.below(3);
  if (what == 2) return environment(choices);
  Input rest = choices.rest();
  (what == 0 ? addresses : invitations)(std::string(rest.begin(), rest.end()));
}

}  // namespace lockstep::fuzz

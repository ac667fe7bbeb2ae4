#include "lockstep/distributed/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>

#include "lockstep/distributed/failure.h"
#include "lockstep/distributed/health.h"
#include "lockstep/distributed/identity.h"
#include "lockstep/support/error.h"

namespace lockstep::distributed {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Place place(const Variables& variables, const InitializeOptions& options = {}) {
  return find_place(options, [&](const char* name) -> const char* {
    auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}
std::string refusal(const Variables& variables, const InitializeOptions& options = {}) {
  try {
    Place p = place(variables, options);
    ADD_FAILURE() << "process " << p.id << " of " << p.count << " at " << p.address;
    return "";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.what();
  }
}

const Variables plain{
    {"JAX_COORDINATOR_ADDRESS", "10.0.0.1:1234"}, {"JAX_NUM_PROCESSES", "4"}, {"JAX_PROCESS_ID", "2"}};
const Variables slurm{{"SLURM_JOB_ID", "4242"},
                      {"SLURM_STEP_NODELIST", "node[03-07]"},
                      {"SLURM_NTASKS", "8"},
                      {"SLURM_PROCID", "5"},
                      {"SLURM_LOCALID", "1"}};
const Variables ompi{{"OMPI_MCA_orte_hnp_uri", "1531576320.0;tcp://10.96.0.1,10.148.0.1,10.108.0.1:34911"},
                     {"OMPI_COMM_WORLD_SIZE", "8"},
                     {"OMPI_COMM_WORLD_RANK", "5"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};

Variables with(Variables base, const Variables& more) {
  for (auto& [name, value] : more) base[name] = value;
  return base;
}

TEST(ClusterTest, NothingMeansAlone) {
  Place p = place({});
  EXPECT_EQ(p.count, 1);
  EXPECT_EQ(p.id, 0);
  EXPECT_EQ(p.address, "");
  EXPECT_EQ(place({}, {.num_processes = 1}).count, 1);
}

TEST(ClusterTest, TheEnvironmentSuffices) {
  Place p = place(with(plain, {{"JAX_LOCAL_DEVICE_IDS", "0,3"}}));
  EXPECT_EQ(p.address, "10.0.0.1:1234");
  EXPECT_EQ(p.count, 4);
  EXPECT_EQ(p.id, 2);
  EXPECT_THAT(p.local_device_ids, ElementsAre(0, 3));
  EXPECT_EQ(p.reason, "environment");
}

TEST(ClusterTest, OptionsWin) {
  Place p = place(with(plain, slurm),
                  {.coordinator_address = "h:1", .num_processes = 3, .process_id = 1, .local_device_ids = {7}});
  EXPECT_EQ(p.address, "h:1");
  EXPECT_EQ(p.count, 3);
  EXPECT_EQ(p.id, 1);
  EXPECT_THAT(p.local_device_ids, ElementsAre(7));
  EXPECT_EQ(p.reason, "options");
}

TEST(ClusterTest, SourcesComplementEachOther) {
  Place p = place(slurm, {.coordinator_address = "h:1"});
  EXPECT_EQ(p.address, "h:1");
  EXPECT_EQ(p.count, 8);
  EXPECT_EQ(p.id, 5);
  EXPECT_EQ(p.reason, "options, then Slurm: SLURM_JOB_ID=4242");
}

TEST(ClusterTest, TheBindAddress) {
  auto zero = [](const std::string& address, const Variables& more = {}) {
    return place(
               with({{"JAX_COORDINATOR_ADDRESS", address}, {"JAX_NUM_PROCESSES", "2"}, {"JAX_PROCESS_ID", "0"}}, more))
        .bind_address;
  };
  EXPECT_EQ(zero("10.0.0.1:1234"), "[::]:1234");
  EXPECT_EQ(zero("127.0.0.1:1234"), "127.0.0.1:1234") << "loopback stays loopback";
  EXPECT_EQ(zero("[::1]:1234"), "[::1]:1234");
  EXPECT_EQ(zero("localhost:1234"), "localhost:1234");
  EXPECT_EQ(zero("node1:1234"), "[::]:1234") << "whatever it stands for here";
  EXPECT_EQ(zero("10.0.0.1:1234", {{"JAX_COORDINATOR_BIND_ADDRESS", "0.0.0.0:99"}}), "0.0.0.0:99");
}

TEST(ClusterTest, SeveralAddresses) {
  Variables v = with(plain, {{"JAX_COORDINATOR_ADDRESS", "192.0.2.1:5,127.0.0.1:6,[::1]:7"}, {"JAX_PROCESS_ID", "0"}});
  Place p = place(v);
  EXPECT_EQ(p.address, "192.0.2.1:5,127.0.0.1:6,[::1]:7");
  EXPECT_EQ(p.bind_address, "") << "which is this machine's is not known yet";
  settle_coordinator(p);
  EXPECT_EQ(p.address, "127.0.0.1:6") << "192.0.2.1 is nobody's";
  EXPECT_EQ(p.bind_address, "127.0.0.1:6");

  v["JAX_COORDINATOR_BIND_ADDRESS"] = "0.0.0.0:9";
  p = place(v);
  settle_coordinator(p);
  EXPECT_EQ(p.address, "127.0.0.1:6");
  EXPECT_EQ(p.bind_address, "0.0.0.0:9");
  v.erase("JAX_COORDINATOR_BIND_ADDRESS");

  v["JAX_COORDINATOR_ADDRESS"] = "192.0.2.1:5,nowhere.invalid:6";
  p = place(v);
  try {
    settle_coordinator(p);
    ADD_FAILURE() << p.address;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("192.0.2.1:5: Cannot assign requested address"),
                                HasSubstr("nowhere.invalid:6: it can't be resolved")));
  }
  v["JAX_COORDINATOR_ADDRESS"] = "192.0.2.1:5";
  p = place(v);
  settle_coordinator(p);
  EXPECT_EQ(p.address, "192.0.2.1:5") << "a single one may be forwarded";
  for (const char* bad : {"10.0.0.1:5,", ",10.0.0.1:5", "10.0.0.1:5,,10.0.0.2:5", "10.0.0.1:5,x", "10.0.0.1:5;b:6"})
    EXPECT_THAT(refusal(with(plain, {{"JAX_COORDINATOR_ADDRESS", bad}})), HasSubstr("is no address")) << bad;
}

TEST(ClusterTest, Slurm) {
  Place p = place(slurm);
  EXPECT_EQ(p.address, "node03:" + std::to_string(61440 + 4242 % 4096));
  EXPECT_EQ(p.count, 8);
  EXPECT_EQ(p.id, 5);
  EXPECT_THAT(p.local_device_ids, ElementsAre(1));
  for (auto [list, host] : {std::pair{"a,b", "a"},
                            {"only", "only"},
                            {"n[9]", "n9"},
                            {"n[1,3-4],m", "n1"},
                            {"n[07-09]-ib,x", "n07-ib"},
                            {"n[5-6]", "n5"}})
    EXPECT_EQ(place(with(slurm, {{"SLURM_STEP_NODELIST", list}, {"JAX_COORDINATOR_PORT", "5"}})).address,
              std::string(host) + ":5");
}

TEST(ClusterTest, OpenMpi) {
  Place p = place(ompi);
  std::string port = ":" + std::to_string(61440 + 1531576320L / 4096 % 4096);
  EXPECT_EQ(p.address, "10.96.0.1" + port + ",10.148.0.1" + port + ",10.108.0.1" + port);
  EXPECT_EQ(p.count, 8);
  EXPECT_EQ(p.id, 5);
  auto address = [](const std::string& uri) {
    return place(with(ompi, {{"OMPI_MCA_orte_hnp_uri", uri}, {"JAX_COORDINATOR_PORT", "9"}})).address;
  };
  EXPECT_EQ(address("1.0;tcp6://[fe80::b9b:ac5d:9cf0:b858,2620:10d::4]:43370"), "[2620:10d::4]:9");
  EXPECT_EQ(address("1.0;tcp6://[2620::1,2620::2]:43370"), "[2620::1]:9,[2620::2]:9");
  EXPECT_EQ(address("1.0;tcp://10.0.0.1:1;tcp6://[2620::1]:2"), "10.0.0.1:9");
  for (const char* uri : {"1.0;tcp6://[fe80::b9b:ac5d]:43370", "1.0;tcp://:1", "1.0;tcp://", "1.0", ""})
    EXPECT_THAT(refusal(with(ompi, {{"OMPI_MCA_orte_hnp_uri", uri}})), HasSubstr("JAX_COORDINATOR_ADDRESS")) << uri;
}

TEST(ClusterTest, MpirunTellsItsOwnHost) {
  auto zero = [](const std::string& host, const Variables& more = {}) {
    Place p = place(with(with(ompi, {{"OMPI_MCA_orte_hnp_uri", "1.0;tcp://" + host + ":1"},
                                     {"OMPI_COMM_WORLD_RANK", "0"},
                                     {"JAX_COORDINATOR_PORT", "5"}}),
                         more));
    settle_coordinator(p);
    return p;
  };
  EXPECT_EQ(zero("192.0.2.1,127.0.0.1").address, "127.0.0.1:5");
  EXPECT_EQ(zero("127.0.0.1").bind_address, "127.0.0.1:5");
  EXPECT_EQ(zero("192.0.2.1", {{"JAX_COORDINATOR_BIND_ADDRESS", "[::]:6"}}).bind_address, "[::]:6")
      << "it is forwarded";
  EXPECT_EQ(zero("192.0.2.1", {{"JAX_COORDINATOR_ADDRESS", "192.0.2.2:6"}}).address, "192.0.2.2:6") << "told otherwise";
  for (const char* elsewhere : {"192.0.2.1", "192.0.2.1,198.51.100.1"}) try {
      ADD_FAILURE() << zero(elsewhere).address;
    } catch (const Error& e) {
      EXPECT_THAT(e.what(), AllOf(HasSubstr("the host on which mpirun was started"), HasSubstr("192.0.2.1:5: Cannot"),
                                  HasSubstr("JAX_COORDINATOR_ADDRESS=" + local_identity().host)));
    }
}

TEST(ClusterTest, PmixOfOpenMpi5) {
  Place p = place({{"PMIX_NAMESPACE", "prterun-big-node-1234@1"},
                   {"PMIX_RANK", "3"},
                   {"OMPI_COMM_WORLD_SIZE", "4"},
                   {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  EXPECT_EQ(p.address, "big-node:" + std::to_string(61440 + 1234));
  EXPECT_EQ(p.count, 4);
  EXPECT_EQ(p.id, 3);
  EXPECT_THAT(refusal({{"PMIX_NAMESPACE", "slurm.pmix.1.0"}, {"PMIX_RANK", "3"}}),
              AllOf(HasSubstr("JAX_COORDINATOR_ADDRESS"), HasSubstr("JAX_NUM_PROCESSES"), HasSubstr("PMIx")));
}

TEST(ClusterTest, KubernetesNumbersThePods) {
  Variables pod{{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}, {"JOB_COMPLETION_INDEX", "3"}};
  EXPECT_THAT(refusal(pod),
              AllOf(HasSubstr("missing: the coordinator's address"), HasSubstr("JOB_COMPLETION_INDEX=3")));
  Place p = place(with(pod, {{"JAX_COORDINATOR_ADDRESS", "job-0.svc:1234"}, {"JAX_NUM_PROCESSES", "4"}}));
  EXPECT_EQ(p.id, 3);
}

TEST(ClusterTest, LaunchersThatDisagree) {
  EXPECT_EQ(place(with(slurm, ompi)).id, 5) << "they agree";
  auto both = with(with(slurm, ompi), {{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}});
  EXPECT_THAT(refusal(both),
              AllOf(HasSubstr("process 5 of 8 by Open MPI"), HasSubstr("process 1 of 2 by Slurm"),
                    HasSubstr("cluster_detection_method"), HasSubstr("LOCKSTEP_CLUSTER_DETECTION_METHOD")));
  EXPECT_EQ(place(both, {.cluster_detection_method = "slurm"}).id, 1);
  EXPECT_EQ(place(with(both, {{"LOCKSTEP_CLUSTER_DETECTION_METHOD", "ompi"}})).id, 5);
  EXPECT_EQ(place(both, {.cluster_detection_method = "deactivate"}).count, 1);
  EXPECT_EQ(place(with(both, plain)).id, 2) << "nothing is left to detect";
}

TEST(ClusterTest, Refusals) {
  EXPECT_THAT(refusal({{"JAX_NUM_PROCESSES", "2"}}),
              AllOf(HasSubstr("JAX_COORDINATOR_ADDRESS"), HasSubstr("JAX_PROCESS_ID")));
  EXPECT_THAT(refusal(with(plain, {{"JAX_PROCESS_ID", "4"}})), HasSubstr("between 0 and 3"));
  EXPECT_THAT(refusal(with(plain, {{"JAX_PROCESS_ID", "x"}})), HasSubstr("JAX_PROCESS_ID='x'"));
  EXPECT_THAT(refusal(plain, {.num_processes = 0}), HasSubstr("at least 1"));
  for (const char* ids : {"0,,1", "0,-1", "0,5995993290448383838"})
    EXPECT_THAT(refusal(with(plain, {{"JAX_LOCAL_DEVICE_IDS", ids}})),
                HasSubstr(std::string("JAX_LOCAL_DEVICE_IDS='") + ids + "'"));
  EXPECT_THAT(refusal(with(plain, {{"JAX_COORDINATOR_ADDRESS", "nowhere"}})), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refusal({}, {.cluster_detection_method = "slurm"}), HasSubstr("'slurm' finds nothing here"));
}

TEST(HealthTest, AGangFailsOnceAndEverybodyIsTold) {
  begin_health({.exit_on_failure = false});
  EXPECT_FALSE(health().has_value());
  throw_if_failed("op");
  std::atomic<int> told{0};
  auto first = on_failure([&](const Failure& f) { told += f.processes.front(); });
  {
    auto gone = on_failure([&](const Failure&) { told += 1000; });
  }
  fail({FailureKind::stalled, {3}, "stuck"});
  fail({FailureKind::peer_crashed, {4}, "later"});
  for (int i = 0; i < 500 && told == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(told, 3);
  auto late = on_failure([&](const Failure&) { told += 10; });
  EXPECT_EQ(told, 13) << "told at once";
  try {
    throw_if_failed("psum");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::timeout);
    EXPECT_STREQ(e.what(), "psum: stuck");
  }
  begin_health({.exit_on_failure = false});
  EXPECT_FALSE(health().has_value());
}

TEST(HealthTest, ExitCodes) {
  EXPECT_EQ(exit_code(FailureKind::peer_crashed), 81);
  EXPECT_EQ(exit_code(FailureKind::peer_unreachable), 82);
  EXPECT_EQ(exit_code(FailureKind::peer_preempted), 83);
  EXPECT_EQ(exit_code(FailureKind::coordinator_lost), 84);
  EXPECT_EQ(exit_code(FailureKind::diverged), 85);
  EXPECT_EQ(exit_code(FailureKind::stalled), 86);
  EXPECT_STREQ(describe_exit_code(84), "coordinator lost");
  EXPECT_EQ(describe_exit_code(1), nullptr);
}

}  // namespace
}  // namespace lockstep::distributed

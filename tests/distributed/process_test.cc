// Gangs of real processes (rank.cc), which are killed, stopped, started wrongly.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/failure.h"
#include "tests/distributed/subprocess.h"

namespace lockstep::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

class ProcessTest : public testing::Test {
 protected:
  Subprocess::Variables place(int process, int count) {
    return {{"JAX_COORDINATOR_ADDRESS", address_},
            {"JAX_NUM_PROCESSES", std::to_string(count)},
            {"JAX_PROCESS_ID", std::to_string(process)}};
  }
  Subprocess& start(int process, const std::string& act, Subprocess::Variables more = {}, int count = 2) {
    auto variables = place(process, count);
    variables.insert(variables.end(), more.begin(), more.end());
    ranks_.emplace_back(std::vector<std::string>{DISTRIBUTED_RANK, act}, variables);
    return ranks_.back();
  }
  void SetUp() override { ranks_.reserve(8); }
  void joined() {
    for (auto& r : ranks_) ASSERT_TRUE(r.wait_for("joined")) << r.out() << r.err();
  }
  static double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  std::string address_ = "127.0.0.1:" + std::to_string(free_port());
  std::vector<Subprocess> ranks_;
};

TEST_F(ProcessTest, TwoMeetAndLeave) {
  auto &a = start(0, "barrier"), &b = start(1, "barrier");
  EXPECT_EQ(a.wait(), 0) << a.err();
  EXPECT_EQ(b.wait(), 0) << b.err();
  EXPECT_THAT(b.out(), AllOf(HasSubstr("joined 1 of 2"), HasSubstr("passed")));
  EXPECT_THAT(b.err(), HasSubstr("process 1 of 2, coordinator " + address_ + " (environment), 2 local devices"));
}

TEST_F(ProcessTest, ReturningFromMainIsAnOrderlyShutdown) {
  auto &a = start(0, "return"), &b = start(1, "exit0");
  EXPECT_EQ(a.wait(), 0) << a.err();
  EXPECT_EQ(b.wait(), 0) << b.err();
  EXPECT_THAT(a.err(), Not(HasSubstr("died")));
}

TEST_F(ProcessTest, OneGangAfterAnother) {
  auto &a = start(0, "twice"), &b = start(1, "twice");
  EXPECT_EQ(a.wait(), 0) << a.err();
  EXPECT_EQ(b.wait(), 0) << b.err();
  EXPECT_THAT(b.out(), HasSubstr("twice"));
}

TEST_F(ProcessTest, TheFirstAddressIsDead) {
  std::string alive = address_, dead = "127.0.0.1:" + std::to_string(free_port());
  address_ = alive + "," + dead;
  auto& a = start(0, "barrier");  // both are this machine's: it takes the first
  address_ = dead + "," + alive;
  auto& b = start(1, "barrier");
  EXPECT_EQ(a.wait(), 0) << a.err();
  EXPECT_EQ(b.wait(), 0) << b.err();
  EXPECT_THAT(a.err(), HasSubstr("process 0 of 2, coordinator " + alive + " (environment)"));
  EXPECT_THAT(b.err(), HasSubstr("process 1 of 2, coordinator " + address_ + " (environment)"));
  EXPECT_THAT(b.out(), AllOf(HasSubstr("joined 1 of 2"), HasSubstr("passed")));
}

TEST_F(ProcessTest, AlonePassesSilently) {
  Subprocess p({DISTRIBUTED_RANK, "barrier"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  EXPECT_THAT(p.out(), AllOf(HasSubstr("joined 0 of 1"), HasSubstr("passed")));
  EXPECT_EQ(p.err(), "");
}

TEST_F(ProcessTest, AKilledPeerEndsTheOtherInASecondWithItsExitCode) {
  auto &a = start(0, "sleep"), &b = start(1, "sleep");
  joined();
  auto begin = Clock::now();
  b.signal(SIGKILL);
  ASSERT_TRUE(a.wait_for("died", seconds(5))) << a.err();
  EXPECT_LT(since(begin), 1.0);
  EXPECT_EQ(a.wait(), exit_peer_crashed);
  EXPECT_THAT(a.err(), AllOf(HasSubstr("process 1 ("), HasSubstr("pid " + std::to_string(b.pid())),
                             HasSubstr("exit code 81 (peer crashed)")));
}

TEST_F(ProcessTest, AWaitingMainGetsTheErrorAsAnException) {
  auto &a = start(0, "catch"), &b = start(1, "sleep");
  joined();
  b.signal(SIGKILL);
  EXPECT_EQ(a.wait(), 3) << a.err();
  EXPECT_THAT(a.out(), AllOf(HasSubstr("caught peer: kv.get: process 1 ("), HasSubstr("died")));
}

TEST_F(ProcessTest, AnUncaughtErrorOfTheGangHasItsExitCodeToo) {
  auto &a = start(0, "wait", {{"TEST_GRACE_MS", "10000"}}), &b = start(1, "sleep");
  joined();
  auto begin = Clock::now();
  b.signal(SIGKILL);
  EXPECT_EQ(a.wait(), exit_peer_crashed) << a.err();
  EXPECT_LT(since(begin), 3.0);
}

TEST_F(ProcessTest, SubscribersAreToldBeforeTheEnd) {
  auto &a = start(0, "subscribe"), &b = start(1, "sleep");
  joined();
  b.signal(SIGKILL);
  EXPECT_EQ(a.wait(), exit_peer_crashed);
  EXPECT_THAT(a.out(), HasSubstr("told: process 1 ("));
}

TEST_F(ProcessTest, ShutdownAfterAFailureKeepsTheProcess) {
  auto &a = start(0, "survive"), &b = start(1, "sleep");
  joined();
  b.signal(SIGKILL);
  EXPECT_EQ(a.wait(), 3) << a.err();
  EXPECT_THAT(a.out(), HasSubstr("survived"));
}

TEST_F(ProcessTest, AKilledCoordinator) {
  auto &d = start(0, "sleep", {}, 3), &e = start(1, "sleep", {}, 3), &f = start(2, "catch", {}, 3);
  joined();
  auto begin = Clock::now();
  d.signal(SIGKILL);
  ASSERT_TRUE(e.wait_for("is lost", seconds(5))) << e.err();
  EXPECT_LT(since(begin), 1.0);
  EXPECT_EQ(e.wait(), exit_coordinator_lost);
  EXPECT_THAT(e.err(), HasSubstr("run by process 0 ("));
  EXPECT_EQ(f.wait(), 3);
  EXPECT_THAT(f.out(), HasSubstr("the coordinator at " + address_));
}

TEST_F(ProcessTest, AStoppedPeerIsUnreachableAfterTheHeartbeatTimeout) {
  Subprocess::Variables beats{{"TEST_HEARTBEAT_MS", "2000"}};
  auto &a = start(0, "sleep", beats), &b = start(1, "sleep_known", beats);
  ASSERT_TRUE(b.wait_for("known")) << b.out() << b.err();
  b.signal(SIGSTOP);
  auto begin = Clock::now();
  ASSERT_TRUE(a.wait_for("does not answer", seconds(10))) << a.err();
  EXPECT_LT(since(begin), 2.5);
  EXPECT_EQ(a.wait(), exit_peer_unreachable);
  EXPECT_THAT(a.err(), HasSubstr("in 'napping'"));
  b.signal(SIGCONT);
  EXPECT_THAT(b.wait(), testing::AnyOf(exit_peer_unreachable, exit_coordinator_lost)) << b.err();
}

TEST_F(ProcessTest, AStoppedCoordinatorIsLostAfterTheHeartbeatTimeout) {
  Subprocess::Variables beats{{"TEST_HEARTBEAT_MS", "2000"}};
  auto &a = start(0, "sleep", beats), &b = start(1, "sleep", beats);
  joined();
  a.signal(SIGSTOP);
  EXPECT_EQ(b.wait(), exit_coordinator_lost) << b.err();
  EXPECT_THAT(b.err(), HasSubstr("no answer for 2.0 s"));
  a.signal(SIGCONT);  // it finds a closed connection, or, if it is slow to look, a long silence
  EXPECT_THAT(a.wait(), testing::AnyOf(exit_peer_crashed, exit_peer_unreachable)) << a.err();
}

struct End {
  const char* act;
  int process;
  int status;
  const char* said;
};
void PrintTo(const End& end, std::ostream* out) { *out << end.act << " on process " << end.process; }
class EndTest : public ProcessTest, public testing::WithParamInterface<End> {};
TEST_P(EndTest, TheOtherHearsHowItEnded) {
  const End& end = GetParam();
  auto &a = start(end.process, end.act, {{"TEST_AWAITS_SIGNAL", "1"}}), &b = start(1 - end.process, "sleep");
  joined();
  a.signal(SIGUSR1);
  EXPECT_EQ(a.wait(), end.status) << a.err();
  int expected = end.process == 0 && std::string(end.said) == "is lost" ? exit_coordinator_lost : exit_peer_crashed;
  EXPECT_EQ(b.wait(), expected) << b.err();
  EXPECT_THAT(b.err(), AllOf(HasSubstr("process " + std::to_string(end.process) + " ("), HasSubstr(end.said)));
}
INSTANTIATE_TEST_SUITE_P(Ends, EndTest,
                         testing::Values(End{"throw", 1, 128 + SIGABRT, "failed: uncaught exception: out of cheese"},
                                         End{"throw", 0, 128 + SIGABRT, "failed: uncaught exception: out of cheese"},
                                         End{"exit5", 1, 5, "exited with status 5 without shutdown()"},
                                         End{"exit5", 0, 5, "exited with status 5 without shutdown()"},
                                         End{"segfault", 1, 128 + SIGSEGV, "died: its connection closed"},
                                         End{"segfault", 0, 128 + SIGSEGV, "is lost"},
                                         End{"_exit0", 1, 0, "died: its connection closed"}));

TEST_F(ProcessTest, WhoDiesAfterItsNoticeWasPreempted) {
  auto &a = start(0, "sleep"), &b = start(1, "preempted");
  EXPECT_EQ(b.wait(), 128 + SIGKILL) << b.err();
  EXPECT_THAT(b.out(), HasSubstr("noticed")) << "SIGTERM does not end it";
  EXPECT_EQ(a.wait(), exit_peer_preempted) << a.err();
  EXPECT_THAT(a.err(), AllOf(HasSubstr("process 1 ("), HasSubstr("exit code 83 (peer preempted)")));
}

TEST_F(ProcessTest, SigtermEndsAProgramThatDoesNotAskForIt) {
  auto &a = start(0, "sleep"), &b = start(1, "sleep");
  joined();
  b.signal(SIGTERM);
  EXPECT_EQ(b.wait(), 128 + SIGTERM);
  EXPECT_EQ(a.wait(), exit_peer_crashed) << a.err();
}

TEST_F(ProcessTest, AllSaveAtOneStep) {
  for (int p = 0; p < 3; ++p) start(p, "saves", {}, 3);
  for (auto& r : ranks_) EXPECT_EQ(r.wait(), 0) << r.err();
  auto saved = [](const std::string& text) { return text.substr(text.find("saved at ")); };
  EXPECT_THAT(ranks_[0].out(), HasSubstr("saved at "));
  EXPECT_EQ(saved(ranks_[0].out()), saved(ranks_[1].out()));
  EXPECT_EQ(saved(ranks_[0].out()), saved(ranks_[2].out()));
}

TEST_F(ProcessTest, SigquitShowsWhereAllStand) {
  auto &a = start(0, "sleep_known", {{"TEST_IGNORES_SIGQUIT", "1"}}), &b = start(1, "sleep_known");
  ASSERT_TRUE(a.wait_for("known") && b.wait_for("known"));
  for (auto [asked, other] : {std::pair(&a, 1), std::pair(&b, 0)}) {
    asked->signal(SIGQUIT);
    ASSERT_TRUE(asked->wait_for(fmt::format("process {} (", other))) << asked->err();
    EXPECT_THAT(asked->err(), AllOf(HasSubstr(fmt::format("process {} of 2 is in 'napping' for ", 1 - other)),
                                    HasSubstr(": connected, in 'napping'")));
  }
  b.signal(SIGKILL);
  EXPECT_EQ(a.wait(), exit_peer_crashed) << "the signal has not ended it";
}

TEST_F(ProcessTest, ADivergence) {
  auto &a = start(0, "agree_a"), &b = start(1, "agree_b");
  EXPECT_EQ(a.wait(), exit_diverged) << a.err();
  EXPECT_EQ(b.wait(), exit_diverged) << b.err();
  for (auto* p : {&a, &b})
    EXPECT_THAT(p->err(), AllOf(HasSubstr("do different things as 'launch 1'"),
                                HasSubstr("line 2:\n    process 0: first\n    process 1: second")));
}

TEST_F(ProcessTest, AMissingProcessAtABarrier) {
  auto &a = start(0, "missing_at_barrier"), &b = start(1, "sleep");
  EXPECT_EQ(a.wait(), exit_stalled);
  EXPECT_THAT(a.err(),
              AllOf(HasSubstr("'save' timed out"), HasSubstr("missing: process 1"), HasSubstr("in 'napping'")));
  EXPECT_EQ(b.wait(), exit_stalled) << "an uncaught exception";
  EXPECT_THAT(b.err(), HasSubstr("rank.cc"));
}

TEST_F(ProcessTest, DifferentSettingsAreRefusedOnBoth) {
  auto &a = start(0, "barrier"), &b = start(1, "barrier", {{"TEST_X64", "true"}});
  EXPECT_EQ(a.wait(), 4);
  EXPECT_EQ(b.wait(), 4);
  for (auto* p : {&a, &b})
    EXPECT_THAT(p->out(),
                AllOf(HasSubstr("refused distributed: initialize: "), HasSubstr("jax_enable_x64: false on process 0 ("),
                      HasSubstr("; true on process 1 ("), HasSubstr("at rank.cc:")));
}

TEST_F(ProcessTest, DifferentCountsAreRefusedOnBoth) {
  auto &a = start(0, "barrier"), &b = start(1, "barrier", {}, 3);
  EXPECT_EQ(a.wait(), 4);
  EXPECT_EQ(b.wait(), 4);
  for (auto* p : {&a, &b}) EXPECT_THAT(p->out(), HasSubstr("num_processes = 3, the coordinator with 2"));
}

TEST_F(ProcessTest, DuplicatedIdsAreRefusedOnAll) {
  auto &c = start(0, "barrier", {}, 3), &d = start(1, "barrier", {}, 3), &e = start(1, "barrier", {}, 3);
  for (auto* p : {&c, &d, &e}) {
    EXPECT_EQ(p->wait(), 4);
    EXPECT_THAT(p->out(), HasSubstr("two processes have the process id 1"));
  }
}

TEST_F(ProcessTest, TheAddressIsInUse) {
  auto& a = start(0, "barrier");
  ASSERT_TRUE(a.wait_for("process 0 of 2"));
  std::this_thread::sleep_for(milliseconds(200));
  auto& b = start(0, "barrier");
  EXPECT_EQ(b.wait(), 4);
  EXPECT_THAT(b.out(), AllOf(HasSubstr("address already in use"), HasSubstr(address_), HasSubstr("at rank.cc:")));
}

TEST_F(ProcessTest, ProcessZeroIsNeverStarted) {
  auto begin = Clock::now();
  auto& b = start(1, "barrier", {{"TEST_INIT_MS", "700"}});
  EXPECT_EQ(b.wait(), 4);
  EXPECT_LT(since(begin), 3.0);
  EXPECT_THAT(b.out(), AllOf(HasSubstr("refused timeout: initialize: no coordinator at " + address_),
                             HasSubstr("process 0, which runs it, has not been started")));
}

TEST_F(ProcessTest, ProcessOneIsNeverStarted) {
  auto& a = start(0, "barrier", {{"TEST_INIT_MS", "700"}});
  EXPECT_EQ(a.wait(), 4);
  EXPECT_THAT(
      a.out(),
      AllOf(ContainsRegex("refused timeout: initialize: timed out after [0-9.]+ s; 1 of 2 processes have joined"),
            HasSubstr("missing: 1")));
}

TEST_F(ProcessTest, ProcessZeroGivesUpForAll) {
  auto& a = start(0, "barrier", {{"TEST_INIT_MS", "1000"}}, 3);
  auto& b = start(1, "barrier", {}, 3);
  EXPECT_EQ(a.wait(), 4);
  EXPECT_EQ(b.wait(seconds(5)), 4);
  EXPECT_THAT(b.out(), AllOf(HasSubstr("the coordinator (process 0) has given up"), HasSubstr("missing: 2")));
}

}  // namespace
}  // namespace lockstep::distributed

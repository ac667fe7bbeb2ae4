// `lockstep run` with small shell programs and with gangs of rank.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include "lockstep/distributed/failure.h"
#include "tests/distributed/subprocess.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

Subprocess run(std::vector<std::string> words, const Subprocess::Variables& variables = {}) {
  words.insert(words.begin(), LOCKSTEP_TOOL);
  return Subprocess(words, variables);
}
Subprocess run_shell(int n, const std::string& script, std::vector<std::string> options = {}) {
  std::vector<std::string> words{"run", "-n", std::to_string(n)};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"--", "/bin/sh", "-c", script});
  return run(words);
}

std::vector<pid_t> pids_in(const std::string& text) {
  std::vector<pid_t> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (std::size_t at = line.find("pid="); at != std::string::npos) result.push_back(std::stoi(line.substr(at + 4)));
  return result;
}
bool all_gone(const std::vector<pid_t>& pids, milliseconds time = seconds(5)) {
  for (auto end = Clock::now() + time; Clock::now() < end; std::this_thread::sleep_for(milliseconds(10)))
    if (std::none_of(pids.begin(), pids.end(), alive)) return true;
  return false;
}

TEST(LaunchTest, PrefixesKeepsStreamsApartAndSetsTheEnvironment) {
  auto p = run_shell(2,
                     "echo out $JAX_PROCESS_ID of $JAX_NUM_PROCESSES at $JAX_COORDINATOR_ADDRESS; "
                     "echo err $JAX_NUM_CPU_DEVICES >&2; printf 'no end'",
                     {"--devices-per-process", "3", "--port", "4567"});
  EXPECT_EQ(p.wait(), 0);
  EXPECT_THAT(p.out(),
              AllOf(HasSubstr("[0] out 0 of 2 at 127.0.0.1:4567\n"), HasSubstr("[1] out 1 of 2 at 127.0.0.1:4567\n"),
                    HasSubstr("[1] no end\n"), Not(HasSubstr("err"))));
  EXPECT_THAT(p.err(), AllOf(HasSubstr("[0] err 3\n"), HasSubstr("[1] err 3\n")));
}

TEST(LaunchTest, WithoutPrefix) {
  auto p = run_shell(1, "echo plain", {"--no-prefix"});
  EXPECT_EQ(p.wait(), 0);
  EXPECT_EQ(p.out(), "plain\n");
}

TEST(LaunchTest, OptionsAfterTheProgramAreItsOwn) {
  auto p = run({"run", "-n", "1", "/bin/echo", "-n", "--port", "x"});
  EXPECT_EQ(p.wait(), 0);
  EXPECT_EQ(p.out(), "[0] --port x\n");
}

TEST(LaunchTest, ProcessesShareTheCores) {
  auto p = run_shell(2, "echo threads=$PJRT_NPROC");
  EXPECT_EQ(p.wait(), 0);
  EXPECT_THAT(p.out(), testing::ContainsRegex("threads=[1-9]"));
  auto q = run({"run", "-n", "2", "--", "/bin/sh", "-c", "echo threads=$PJRT_NPROC"}, {{"PJRT_NPROC", "7"}});
  EXPECT_EQ(q.wait(), 0);
  EXPECT_THAT(q.out(), HasSubstr("[1] threads=7"));
}

TEST(LaunchTest, DryRunStartsNothing) {
  auto p = run({"run", "-n", "2", "--port", "4567", "--dry-run", "--", "/no/such/program", "a b"});
  EXPECT_EQ(p.wait(), 0);
  EXPECT_THAT(p.out(), HasSubstr("JAX_COORDINATOR_ADDRESS=127.0.0.1:4567 JAX_NUM_PROCESSES=2 JAX_PROCESS_ID=1 "));
  EXPECT_THAT(p.out(), HasSubstr("/no/such/program 'a b'\n"));
}

TEST(LaunchTest, AProgramThatIsNotThere) {
  auto p = run({"run", "-n", "2", "--", "/no/such/program"});
  EXPECT_EQ(p.wait(), 127);
  EXPECT_EQ(p.err(), "lockstep run: can't start '/no/such/program': No such file or directory\n");
}

TEST(LaunchTest, BadOptions) {
  EXPECT_NE(run({"run", "-n", "0", "--", "/bin/true"}).wait(), 0);
  EXPECT_NE(run({"run", "--", "/bin/true"}).wait(), 0);
  EXPECT_NE(run({"run", "-n", "2"}).wait(), 0);
  EXPECT_NE(run({}).wait(), 0);
  auto p = run({"version"});
  EXPECT_EQ(p.wait(), 0);
  EXPECT_THAT(p.out(), testing::MatchesRegex("lockstep [0-9.]+ [0-9a-f]+\n"));
}

TEST(LaunchTest, TheFirstFailureIsTheStatusAndEndsTheRest) {
  auto begin = Clock::now();
  auto p = run_shell(3, "echo pid=$$; [ $JAX_PROCESS_ID = 1 ] && exit 7; exec sleep 60", {"--linger", "0.2"});
  EXPECT_EQ(p.wait(), 7);
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - begin).count(), 3);
  EXPECT_THAT(p.err(), AllOf(HasSubstr("lockstep run: process 1 (pid "), HasSubstr("exited with status 7"),
                             HasSubstr("ending the others")));
  EXPECT_TRUE(all_gone(pids_in(p.out())));
}

TEST(LaunchTest, WhoIgnoresSigtermIsKilledAfterTheGrace) {
  // Process 1 does not die before process 0 ignores the signal and has said so.
  std::string ready = testing::TempDir() + "lockstep-ready-" + std::to_string(::getpid());
  auto p = run_shell(2,
                     "trap '' TERM; echo pid=$$; [ $JAX_PROCESS_ID = 0 ] && : >" + ready +
                         "; while [ $JAX_PROCESS_ID = 1 ]; do [ -e " + ready +
                         " ] && sleep 0.2 && kill -9 $$; sleep 0.02; done; while :; do sleep 0.1; done",
                     {"--linger", "0", "--grace", "0.3"});
  EXPECT_EQ(p.wait(), 128 + SIGKILL);
  EXPECT_THAT(p.err(), HasSubstr("was ended by signal 9 (Killed)"));
  EXPECT_EQ(pids_in(p.out()).size(), 2u);
  EXPECT_TRUE(all_gone(pids_in(p.out())));
  std::remove(ready.c_str());
}

TEST(LaunchTest, DescendantsDoNotOutliveTheRun) {
  auto p = run_shell(2, "sleep 60 & echo pid=$!; exit 0");
  EXPECT_EQ(p.wait(), 0);
  EXPECT_EQ(pids_in(p.out()).size(), 2u);
  EXPECT_TRUE(all_gone(pids_in(p.out())));
}

TEST(LaunchTest, SignalsArePassedOn) {
  for (int number : {SIGTERM, SIGINT, SIGUSR1}) {
    auto p = run_shell(2, "trap 'echo got it; exit 0' TERM INT USR1; echo ready; while :; do sleep 0.05; done");
    ASSERT_TRUE(p.wait_for("[0] ready") && p.wait_for("[1] ready"));
    p.signal(number);
    EXPECT_EQ(p.wait(), 0) << number;
    EXPECT_THAT(p.out(), AllOf(HasSubstr("[0] got it"), HasSubstr("[1] got it")));
  }
}

TEST(LaunchTest, ASecondSignalKills) {
  auto p = run_shell(2, "trap '' TERM INT; echo pid=$$; while :; do sleep 0.05; done");
  ASSERT_TRUE(p.wait_for("[0] pid") && p.wait_for("[1] pid"));
  p.signal(SIGINT);
  std::this_thread::sleep_for(milliseconds(300));
  p.signal(SIGINT);
  EXPECT_EQ(p.wait(), 128 + SIGKILL);
  EXPECT_TRUE(all_gone(pids_in(p.out())));
}

TEST(LaunchTest, AKilledLauncherLeavesNothingBehind) {
  auto p = run_shell(2, "sleep 60 & echo child pid=$!; echo pid=$$; wait");
  ASSERT_TRUE(p.wait_for("[0] pid") && p.wait_for("[1] pid"));
  p.signal(SIGKILL);
  p.wait();
  EXPECT_EQ(pids_in(p.out()).size(), 4u);
  EXPECT_TRUE(all_gone(pids_in(p.out())));
}

TEST(LaunchTest, AGang) {
  auto p = run({"run", "-n", "4", "--", DISTRIBUTED_RANK, "barrier"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  for (int i = 0; i < 4; ++i) EXPECT_THAT(p.out(), HasSubstr("[" + std::to_string(i) + "] passed"));
}

TEST(LaunchTest, AGangThatLosesAProcessSaysSoBeforeItIsEnded) {
  auto p = run({"run", "-n", "2", "--", "/bin/sh", "-c",
                std::string("[ $JAX_PROCESS_ID = 1 ] && exec ") + DISTRIBUTED_RANK + " segfault; exec " +
                    DISTRIBUTED_RANK + " sleep"});
  EXPECT_EQ(p.wait(), 128 + SIGSEGV);
  EXPECT_THAT(p.err(),
              AllOf(HasSubstr("process 1 (pid"), HasSubstr("signal 11"), HasSubstr("died: its connection closed"),
                    HasSubstr("exit code 81 (peer crashed)"), Not(HasSubstr("ending the others"))));
}

TEST(LaunchTest, AGangHasATokenOfItsOwn) {
  auto p = run_shell(2, "echo token=$LOCKSTEP_TOKEN");
  EXPECT_EQ(p.wait(), 0);
  EXPECT_THAT(p.out(), testing::ContainsRegex("token=[0-9a-f]{32}\n"));
  auto q = run({"run", "-n", "1", "--", "/bin/sh", "-c", "echo token=$LOCKSTEP_TOKEN"}, {{"LOCKSTEP_TOKEN", "mine"}});
  EXPECT_EQ(q.wait(), 0);
  EXPECT_THAT(q.out(), HasSubstr("token=mine\n"));
}

TEST(LaunchTest, TheProcessAtFaultGivesTheStatus) {
  // Process 0 ends as one does whose gang has failed, before the one that made it fail.
  auto p = run_shell(2, "[ $JAX_PROCESS_ID = 0 ] && exit 81; sleep 0.3; exit 9");
  EXPECT_EQ(p.wait(), 9);
  EXPECT_THAT(p.err(), AllOf(HasSubstr("exited with status 81 (peer crashed)"), HasSubstr("exited with status 9")));
}

TEST(LaunchTest, RestartsAGangThatFails) {
  auto p =
      run_shell(2, "echo attempt=$LOCKSTEP_RESTART at $JAX_COORDINATOR_ADDRESS; [ $LOCKSTEP_RESTART = 2 ] || exit 3",
                {"--restarts", "5"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  EXPECT_THAT(p.out(), AllOf(HasSubstr("[1] attempt=0"), HasSubstr("[0] attempt=2"), Not(HasSubstr("attempt=3"))));
  EXPECT_THAT(p.err(), HasSubstr("starting again, 2 of 5 times"));
  auto q = run_shell(1, "exit 3", {"--restarts", "1"});
  EXPECT_EQ(q.wait(), 3);
  auto missing = run({"run", "-n", "1", "--restarts", "5", "--", "/no/such/program"});
  EXPECT_EQ(missing.wait(), 127) << "is not tried again";
}

}  // namespace
}  // namespace lockstep

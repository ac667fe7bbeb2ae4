// `lockstep run --hosts`, with an `ssh` of the test's that runs the command on this machine, where `ssh` would have run
// it on the other: with a shell of its own, standard input and output passed on, and nothing of the environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/failure.h"
#include "lockstep/support/error.h"
#include "tests/distributed/subprocess.h"
#include "tools/remote.h"

namespace lockstep::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(PlaceProcessesTest, BlocksOnHosts) {
  EXPECT_THAT(place_processes({"a", "b"}, 0), ElementsAre("a", "b"));
  EXPECT_THAT(place_processes({"a", "b"}, 5), ElementsAre("a", "a", "a", "b", "b"));
  EXPECT_THAT(place_processes({"a:1", "b:2"}, 0), ElementsAre("a", "b", "b"));
  EXPECT_THAT(place_processes({"a:1", "b"}, 4), ElementsAre("a", "b", "b", "b"));
  EXPECT_THAT(place_processes({"u@a"}, 1), ElementsAre("u@a"));
  for (auto& [hosts, n] : std::vector<std::pair<std::vector<std::string>, int>>{
           {{"a", "b"}, 1}, {{"a:2", "b:2"}, 5}, {{"a:0"}, 0}, {{"a:x"}, 0}, {{""}, 0}, {{"-oProxyCommand=x"}, 0}})
    EXPECT_THROW(place_processes(hosts, n), Error) << hosts[0] << " " << n;
}

class RemoteTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "lockstep-remote-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
    std::ofstream(directory_ + "/ssh")
        << "#!/bin/sh\n"
           "[ \"$1\" = -x ] && shift\n"
           "[ \"$1\" = down ] || [ -e \"${0%/*}/$1-is-down\" ] && { echo 'No route to host' >&2; exit 255; }\n"
           "host=$1; shift\n"
           "exec setsid -w env -i PATH=\"$PATH\" HOST_IS=\"$host\" sh -c \"$*\"\n";
    ::chmod((directory_ + "/ssh").c_str(), 0755);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Subprocess run(std::vector<std::string> words, Subprocess::Variables more = {}) {
    std::vector<std::string> first{LOCKSTEP_TOOL, "run", "--ssh", directory_ + "/ssh -x"};
    if (std::ranges::find(words, "--coordinator") == words.end())
      first.insert(first.end(), {"--coordinator", "127.0.0.1"});
    words.insert(words.begin(), first.begin(), first.end());
    more.emplace_back("LOCKSTEP_TEST", "it's forwarded");
    return Subprocess(words, more);
  }
  Subprocess run_shell(const std::string& hosts, const std::string& script, std::vector<std::string> options = {}) {
    std::vector<std::string> words{"--hosts", hosts};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "/bin/sh", "-c", script});
    return run(words);
  }
  static std::vector<pid_t> pids_in(const std::string& text) {
    std::vector<pid_t> result;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
      if (std::size_t at = line.find("pid="); at != std::string::npos) result.push_back(std::stoi(line.substr(at + 4)));
    return result;
  }
  static bool all_gone(const std::vector<pid_t>& pids) {
    for (int i = 0; i < 1000; ++i, std::this_thread::sleep_for(milliseconds(10)))
      if (std::none_of(pids.begin(), pids.end(), alive)) return true;
    return false;
  }

  std::string directory_;
};

TEST_F(RemoteTest, ProcessesRunThereWithWhatTheyNeed) {
  auto p = run_shell(
      "a,b:2",
      "echo $JAX_PROCESS_ID of $JAX_NUM_PROCESSES on $HOST_IS: $LOCKSTEP_TEST, $GIVEN, n=$JAX_NUM_CPU_DEVICES; "
      "echo threads=$PJRT_NPROC token=$LOCKSTEP_TOKEN in $PWD; exit 0",
      {"--env", "GIVEN=a 'b'", "--devices-per-process", "2"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  EXPECT_THAT(p.out(), AllOf(HasSubstr("[0] 0 of 3 on a: it's forwarded, a 'b', n=2\n"),
                             HasSubstr("[2] 2 of 3 on b: it's forwarded, a 'b', n=2\n"),
                             testing::ContainsRegex("\\[1\\] threads=[1-9][0-9]* token=[0-9a-f]{32} in " +
                                                    std::filesystem::current_path().string() + "\n")));
}

TEST_F(RemoteTest, TheTokenStandsOnNoCommandLine) {
  auto p = run_shell("a", "echo token=$LOCKSTEP_TOKEN; cat /proc/*/cmdline 2>/dev/null | tr '\\0' ' '; echo");
  EXPECT_EQ(p.wait(), 0);
  std::size_t at = p.out().find("token=");
  ASSERT_NE(at, std::string::npos);
  std::string token = p.out().substr(at + 6, 32);
  EXPECT_EQ(p.out().find(token, at + 7), std::string::npos) << p.out();
}

TEST_F(RemoteTest, AGangOfTwoHosts) {
  auto p = run({"--hosts", "a,b", "--", DISTRIBUTED_RANK, "barrier"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  EXPECT_THAT(p.out(), AllOf(HasSubstr("[0] passed"), HasSubstr("[1] passed")));
}

TEST_F(RemoteTest, FailuresNameTheHost) {
  auto p = run_shell("a,b", "echo pid=$$; [ $JAX_PROCESS_ID = 1 ] && exit 7; exec sleep 60",
                     {"--linger", "0.1", "--grace", "1"});
  EXPECT_EQ(p.wait(), 7);
  EXPECT_THAT(p.err(), HasSubstr("process 1 on b exited with status 7"));
  EXPECT_TRUE(all_gone(pids_in(p.out())));
  auto q = run_shell("a,down", "echo pid=$$; exec sleep 60", {"--linger", "0.1"});
  EXPECT_EQ(q.wait(), 255);
  EXPECT_THAT(q.err(), AllOf(HasSubstr("[1] No route to host"),
                             HasSubstr("process 1 on down exited with status 255 (of"), HasSubstr("no connection")));
  EXPECT_TRUE(all_gone(pids_in(q.out())));
}

TEST_F(RemoteTest, SignalsArePassedOn) {
  auto p = run_shell("a,b", "trap 'echo got it; exit 0' USR1; echo ready; while :; do sleep 0.05; done");
  ASSERT_TRUE(p.wait_for("[0] ready") && p.wait_for("[1] ready")) << p.err();
  p.signal(SIGUSR1);
  EXPECT_EQ(p.wait(), 0);
  EXPECT_THAT(p.out(), AllOf(HasSubstr("[0] got it"), HasSubstr("[1] got it")));
}

TEST_F(RemoteTest, ASecondSignalKills) {
  auto p = run_shell("a,b", "trap '' TERM INT; echo pid=$$; while :; do sleep 0.05; done");
  ASSERT_TRUE(p.wait_for("[0] pid") && p.wait_for("[1] pid"));
  p.signal(SIGINT);
  std::this_thread::sleep_for(milliseconds(300));
  p.signal(SIGINT);
  EXPECT_EQ(p.wait(), 128 + SIGKILL) << p.err();
  EXPECT_TRUE(all_gone(pids_in(p.out())));
}

TEST_F(RemoteTest, AKilledLauncherLeavesNothingBehind) {
  auto p = run_shell("a,b", "sleep 60 & echo child pid=$!; echo pid=$$; wait");
  ASSERT_TRUE(p.wait_for("[0] pid") && p.wait_for("[1] pid"));
  p.signal(SIGKILL);
  p.wait();
  EXPECT_EQ(pids_in(p.out()).size(), 4u);
  EXPECT_TRUE(all_gone(pids_in(p.out())));
}

TEST_F(RemoteTest, DryRunShowsTheCommands) {
  auto p = run({"--hosts", "a,b", "--dry-run", "--", "/no/such/program", "a b"});
  EXPECT_EQ(p.wait(), 0);
  EXPECT_THAT(p.out(), AllOf(HasSubstr("/ssh -x a '"), HasSubstr("JAX_PROCESS_ID=1"), HasSubstr("/no/such/program")));
}

TEST_F(RemoteTest, HostsAndCountsThatDoNotFit) {
  auto p = run({"--hosts", "a:2,b:2", "-n", "5", "--", "/bin/true"});
  EXPECT_EQ(p.wait(), 1);
  EXPECT_THAT(p.err(), HasSubstr("5 processes do not fit a:2,b:2"));
}

TEST_F(RemoteTest, AHostThatIsLostIsLeftOutOfTheNextStart) {
  std::string script = "[ $LOCKSTEP_RESTART$HOST_IS = 0a ] && { : >" + directory_ +
                       "/a-is-down; exit 3; }; [ $LOCKSTEP_RESTART = 0 ] && sleep 60; "
                       "echo $JAX_PROCESS_ID of $JAX_NUM_PROCESSES on $HOST_IS, coordinator $JAX_COORDINATOR_ADDRESS";
  auto p = run_shell("a,b,c:1", script,
                     {"--coordinator", "10.0.0.1,10.0.0.2,10.0.0.3", "--port", "1234", "--restarts", "1", "--linger",
                      "0", "--grace", "0.1"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  EXPECT_THAT(p.out(), AllOf(HasSubstr("[0] 0 of 3 on b, coordinator 10.0.0.2:1234"), HasSubstr("[1] 1 of 3 on b"),
                             HasSubstr("[2] 2 of 3 on c")));
  EXPECT_THAT(p.err(), AllOf(HasSubstr("a can't be reached any more: No route to host"),
                             HasSubstr("going on with the other hosts, 3 processes as before: 2 on b, 1 on c"),
                             HasSubstr("process 0 and the coordinator move to b")));
}

TEST_F(RemoteTest, ALostHostWhoseProcessesFitNowhereElse) {
  std::string script = "[ $HOST_IS = b ] && sleep 60; : >" + directory_ + "/a-is-down; exit 3";
  auto p = run_shell("a:1,b:1", script, {"--restarts", "5", "--linger", "0", "--grace", "0.1"});
  EXPECT_EQ(p.wait(), 3) << p.err();
  EXPECT_THAT(p.err(),
              AllOf(HasSubstr("a can't be reached any more"), HasSubstr("the gang is not started again: b:1 is left"),
                    Not(HasSubstr("starting again"))));
  auto q = run_shell("a", "exit 0", {"--restarts", "5"});
  EXPECT_EQ(q.wait(), 255) << q.err();
  EXPECT_THAT(q.err(), HasSubstr("no host is left: the gang is not started again"));
}

// examples/cluster/*.sh, with launchers of the test's that do on this machine what the real ones do on their nodes.
class ClusterFilesTest : public RemoteTest {
 protected:
  void launcher(const std::string& name, const std::string& script) {
    std::ofstream(directory_ + "/" + name) << "#!/bin/sh\n" << script;
    ::chmod((directory_ + "/" + name).c_str(), 0755);
  }
  Subprocess run_file(const std::string& file, std::vector<std::string> words) {
    words.insert(words.begin(), {"/bin/bash", std::string(CLUSTER_FILES) + "/" + file});
    return Subprocess(words, {{"PATH", directory_ + ":" + std::getenv("PATH")},
                              {"JAX_COORDINATOR_PORT", std::to_string(distributed::free_port())}});
  }
};

// Starts two processes, the second with the words in SECOND if there are any. As srun does, it ends the others by
// SIGTERM at the first failure if --kill-on-bad-exit=1 says so, and exits with the highest status.
constexpr const char* fake_srun = R"(
while true; do
  case $1 in --kill-on-bad-exit=1) kill=yes ;; --*) ;; *) break ;; esac
  shift
done
export SLURM_JOB_ID=42 SLURM_STEP_NODELIST=localhost SLURM_NTASKS=2
SLURM_PROCID=0 SLURM_LOCALID=0 "$@" & first=$!
if [ -n "$SECOND" ]; then set -- "$1" $SECOND; fi
SLURM_PROCID=1 SLURM_LOCALID=1 "$@" & second=$!
wait $second; status=$?
[ $status = 0 ] || [ -z "$kill" ] || kill $first
wait $first; other=$?
exit $((status > other ? status : other))
)";

TEST_F(ClusterFilesTest, Slurm) {
  launcher("srun", fake_srun);
  auto p = run_file("slurm.sh", {DISTRIBUTED_RANK, "barrier"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  EXPECT_THAT(p.out(), AllOf(HasSubstr("joined 0 of 2"), HasSubstr("joined 1 of 2"), HasSubstr("passed")));
  EXPECT_THAT(p.err(), AllOf(HasSubstr("(Slurm: SLURM_JOB_ID=42)"), Not(HasSubstr("without a token"))));
  EXPECT_EQ(run_file("slurm.sh", {}).wait(), 2);
}

TEST_F(ClusterFilesTest, WhenAProcessFailsUnderSlurmTheOthersSayWho) {
  launcher("srun", "SECOND=_exit0\n" + std::string(fake_srun));
  auto p = run_file("slurm.sh", {DISTRIBUTED_RANK, "sleep"});
  EXPECT_EQ(p.wait(), distributed::exit_peer_crashed) << p.err();
  EXPECT_THAT(p.err(), ContainsRegex("process 1 .* died"));
  launcher("srun", "SECOND=segfault\n" + std::string(fake_srun));
  auto q = run_file("slurm.sh", {DISTRIBUTED_RANK, "sleep"});
  EXPECT_EQ(q.wait(), 128 + SIGSEGV) << q.err();
  EXPECT_THAT(q.err(), ContainsRegex("process 1 .* died"));
}

TEST_F(ClusterFilesTest, Mpirun) {
  launcher("mpirun",
           "while [ \"$1\" = -x ] || [ \"$1\" = -n ]; do shift 2; done\n"
           "export OMPI_MCA_orte_hnp_uri='1531576320.0;tcp://127.0.0.1:34911' OMPI_COMM_WORLD_SIZE=2\n"
           "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_LOCAL_RANK=1 \"$@\" &\n"
           "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0 \"$@\" && wait $!\n");
  auto p = run_file("mpirun.sh", {"-n", "2", DISTRIBUTED_RANK, "barrier"});
  EXPECT_EQ(p.wait(), 0) << p.err();
  EXPECT_THAT(p.out(), AllOf(HasSubstr("joined 0 of 2"), HasSubstr("joined 1 of 2"), HasSubstr("passed")));
  EXPECT_THAT(p.err(), HasSubstr("(Open MPI: OMPI_MCA_orte_hnp_uri)"));
}

}  // namespace
}  // namespace lockstep::tools

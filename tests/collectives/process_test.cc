// Real processes over every transport between processes, some of which are killed, stopped or leave.
//
// A child is this program again: the test Child.Run, with its part in the environment. It says on its standard output
// how its collectives ended.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/collectives/file_store.h"
#include "tests/collectives/gang.h"
#include "tests/support/certificates.h"

namespace lockstep::collectives::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

// Ranks as threads are what ThreadSanitizer is for; whole processes take minutes under it.
#ifdef __SANITIZE_THREAD__
#define PROCESS_TEST(name) TEST_P(ProcessTest, DISABLED_##name)
#define MEMORY_TEST(name) TEST(SharedMemoryTest, DISABLED_##name)
#else
#define MEMORY_TEST(name) TEST(SharedMemoryTest, name)
#define PROCESS_TEST(name) TEST_P(ProcessTest, name)
#endif

class Children {
 public:
  Children(Fabric fabric, int count, const std::string& what, double deadline_seconds = 60) {
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
    std::ofstream(directory_ + "/process.pem") << gang_certificate().certificate;
    std::ofstream(directory_ + "/process.key") << gang_certificate().key;
    std::ofstream(directory_ + "/process.ca") << gang_certificate().ca;
    for (int rank = 0; rank < count; ++rank) {
      pid_t pid = ::fork();
      if (pid == 0) {
        ::setenv("CHILD_FABRIC", to_string(fabric), 1);
        ::setenv("CHILD_DIRECTORY", directory_.c_str(), 1);
        ::setenv("CHILD_RANK", std::to_string(rank).c_str(), 1);
        ::setenv("CHILD_SIZE", std::to_string(count).c_str(), 1);
        ::setenv("CHILD_DOES", what.c_str(), 1);
        ::setenv("CHILD_DEADLINE", std::to_string(deadline_seconds).c_str(), 1);
        ::unsetenv("GTEST_OUTPUT");
        int out = ::open(output(rank).c_str(), O_CREAT | O_WRONLY, 0600);
        ::dup2(out, 1);
        ::dup2(out, 2);
        ::execl("/proc/self/exe", "child", "--gtest_also_run_disabled_tests", "--gtest_filter=Child.DISABLED_Run",
                static_cast<char*>(nullptr));
        ::_exit(127);
      }
      pids_.push_back(pid);
    }
  }
  ~Children() {
    for (int rank = 0; rank < static_cast<int>(pids_.size()); ++rank) {
      signal(rank, SIGKILL);
      wait(rank);
    }
    std::filesystem::remove_all(directory_);
  }
  void signal(int rank, int number) {
    if (pids_[rank] > 0) ::kill(pids_[rank], number);
  }
  // Waits until the rank has written the word.
  void await(int rank, const std::string& word) {
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (text(rank).find(word) == std::string::npos) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "rank " << rank << " wrote: " << text(rank);
      std::this_thread::sleep_for(5ms);
    }
  }
  // Waits for its end, and returns the time from now till then.
  double wait(int rank) {
    auto start = std::chrono::steady_clock::now();
    if (pids_[rank] > 0) ::waitpid(pids_[rank], nullptr, 0);
    pids_[rank] = -1;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::string text(int rank) const {
    std::ostringstream text;
    text << std::ifstream(output(rank)).rdbuf();
    return text.str();
  }

 private:
  std::string output(int rank) const { return fmt::format("{}/output.{}", directory_, rank); }
  std::string directory_;
  std::vector<pid_t> pids_;
};

class ProcessTest : public ::testing::TestWithParam<Fabric> {};

// The certificate that the test's process has made, for all of them.
Tls certificate_in(const std::string& directory) {
  std::string base = directory + "/process";
  return {file_text(base + ".pem"), file_text(base + ".key"), file_text(base + ".ca"), "lockstep"};
}

std::unique_ptr<Transport> connect(const std::string& fabric, Store& store, const std::string& directory, int rank,
                                   int size) {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  if (fabric.starts_with("Grpc")) {
    GrpcOptions options;
    if (fabric == to_string(Fabric::grpc_tls)) options.tls = certificate_in(directory);
    return connect_grpc(store, rank, size, deadline, options);
  }
  auto transport = connect_gloo(store, rank, size, deadline, {});
  return fabric == to_string(Fabric::shared) ? with_shared_memory(std::move(transport), store, deadline)
                                             : std::move(transport);
}

void say(const std::string& line) { std::fprintf(stdout, "%s\n", line.c_str()), std::fflush(stdout); }

TEST(Child, DISABLED_Run) {
  const char* directory = std::getenv("CHILD_DIRECTORY");
  ASSERT_NE(directory, nullptr) << "only other tests run this one";
  int rank = std::atoi(std::getenv("CHILD_RANK")), size = std::atoi(std::getenv("CHILD_SIZE"));
  std::string what = std::getenv("CHILD_DOES");
  ::alarm(120);
  FileStore store(directory);
  EngineOptions options;
  options.deadline = std::chrono::milliseconds(static_cast<int>(1000 * std::atof(std::getenv("CHILD_DEADLINE"))));
  options.report_grace = 300ms;
  if (what == "poor" && rank == 1) {
    rlimit few{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &few);
  }
  Engine engine(connect(std::getenv("CHILD_FABRIC"), store, directory, rank, size), options);
  Communicator mesh{kMesh, {}};
  CollectiveSpec spec{
      .op = CollectiveOp::all_reduce, .reduction = Reduction::add, .group_size = size, .name = "psum.1"};
  for (int p = 0; p < size; ++p) mesh.processes.push_back(p), spec.groups.push_back(p);
  engine.add_communicator(mesh);
  auto shared = std::make_shared<CollectiveSpec>(spec);
  std::int64_t count = what == "small" ? 4 : 1 << 18;
  Array in = make_array(DType::float32, {count}), out = in;
  for (std::uint64_t launch = 1;; ++launch) {
    for (std::int64_t i = 0; i < count; ++i) in.as<float>()[i] = static_cast<float>(rank + i % 7);
    Ticket ticket;
    InBuffer input{in.data.data(), in.data.size(), in.dtype, in.count(), {}};
    OutBuffer output{out.data.data(), out.data.size(), out.dtype, out.count(), {}};
    engine.start(shared, kMesh, launch, rank, {&input, 1}, {&output, 1}, ticket.done());
    if (auto error = ticket.wait()) {
      say(fmt::format("{}: {}", to_string(error->code()), error->what()));
      engine.fail(*error);  // as a gang does: who leaves without a word has left in good order
      break;
    }
    engine.end_launch(kMesh, launch, rank);
    for (std::int64_t i = 0; i < count; i += 1001) {
      ASSERT_EQ(out.as<float>()[i], size * (size - 1) / 2 + size * (i % 7));
    }
    if (launch == 20) say("running");
    if (what == "leave" && rank == 1 && launch == 30) break;
    if (what == "exit" && rank == 1 && launch == 30) ::_exit(3);
    if ((what == "finish" || what == "poor") && launch == 30) break;
  }
  say("ended");
}

PROCESS_TEST(AKilledPeerIsAnErrorWithinASecond) {
  for (const char* what : {"small", "large"}) {
    Children children(GetParam(), 3, what);
    for (int rank = 0; rank < 3; ++rank) children.await(rank, "running");
    children.signal(2, SIGKILL);
    EXPECT_LT(children.wait(0), 5);
    EXPECT_LT(children.wait(1), 5);
    for (int rank : {0, 1}) {
      EXPECT_THAT(children.text(rank), HasSubstr("peer: "));
      EXPECT_THAT(children.text(rank), HasSubstr("process 2 (127.0.0.1:"));
      EXPECT_THAT(children.text(rank), HasSubstr("closed the connection"));
      EXPECT_THAT(children.text(rank), HasSubstr("ended"));
    }
  }
}

PROCESS_TEST(AStoppedPeerIsFoundByTheDeadline) {
  Children children(GetParam(), 3, "large", 3);
  for (int rank = 0; rank < 3; ++rank) children.await(rank, "running");
  children.signal(1, SIGSTOP);
  children.await(0, "ended");
  children.await(2, "ended");
  std::string both = children.text(0) + children.text(2);
  EXPECT_THAT(both, HasSubstr("timeout: all_reduce"));
  EXPECT_THAT(both, ::testing::AnyOf(HasSubstr("partition 1 of process 1"), HasSubstr("data from process")));
}

PROCESS_TEST(APeerThatExitsOrLeavesIsNamed) {
  for (const char* what : {"exit", "leave"}) {
    Children children(GetParam(), 3, what);
    children.await(0, "ended");
    children.await(2, "ended");
    for (int rank : {0, 2}) {
      EXPECT_THAT(children.text(rank), HasSubstr("peer: "));
      EXPECT_THAT(children.text(rank), HasSubstr("process 1 ("));
    }
  }
}

PROCESS_TEST(AGangThatFinishesLeavesNoError) {
  Children children(GetParam(), 4, "finish");
  for (int rank = 0; rank < 4; ++rank) {
    children.wait(rank);
    EXPECT_THAT(children.text(rank), HasSubstr("ended"));
    EXPECT_THAT(children.text(rank), HasSubstr("PASSED"));
  }
}

MEMORY_TEST(AProcessThatGetsNoneWorksOnWithout) {
  Children children(Fabric::shared, 3, "poor");
  for (int rank = 0; rank < 3; ++rank) {
    children.wait(rank);
    EXPECT_THAT(children.text(rank), HasSubstr("PASSED"));
    EXPECT_EQ(
        children.text(rank).find("can't be had (files may have 4096 bytes here (ulimit -f))") != std::string::npos,
        rank == 1)
        << children.text(rank);
  }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, ProcessTest,
                         ::testing::Values(Fabric::gloo, Fabric::shared, Fabric::grpc, Fabric::grpc_tls),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace lockstep::collectives::testing

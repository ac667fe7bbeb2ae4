// lockstep as a guest of an MPI program. usage: mpirun -n N mpi_guest CASE; every rank prints "ok RANK".
//   whole    all ranks are one gang that computes
//   split    the ranks with even and odd numbers are two gangs, each of which computes
//   part     rank 0 stays out; the others are a gang
//   twice    a gang of all, then one for each half, which computes
//   busy     rank 1 is part of a gang already: an error on all, at once
//   nowhere  rank 0 names a host that nobody can reach: an error on all, in time
//   owner    initialize() as a program of its own calls it: what a guest must not do is seen here
#include <dirent.h>
#include <dlfcn.h>
#include <lockstep/lockstep.h>
#include <lockstep/mpi.h>
#include <unistd.h>
#include "lockstep/distributed/address.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/gang/expect.h"

namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::P;
using namespace std::chrono_literals;

namespace {

std::atomic<int> exit_functions{0};  // of the library's, handed to atexit or on_exit

bool is_lockstep(void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr &&
         std::strstr(info.dli_fname, "liblockstep") != nullptr;
}

}  // namespace

// atexit() is a call of __cxa_atexit without an argument; destructors of static objects come with one.
extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* object) {
  static auto* real = reinterpret_cast<decltype(&__cxa_atexit)>(::dlsym(RTLD_NEXT, "__cxa_atexit"));
  if (argument == nullptr && is_lockstep(reinterpret_cast<void*>(function))) ++exit_functions;
  return real(function, argument, object);
}
extern "C" int on_exit(void (*function)(int, void*), void* argument) noexcept {
  static auto* real = reinterpret_cast<int (*)(void (*)(int, void*), void*)>(::dlsym(RTLD_NEXT, "on_exit"));
  if (is_lockstep(reinterpret_cast<void*>(function))) ++exit_functions;
  return real(function, argument);
}

namespace {

struct Process {
  std::array<struct sigaction, 65> signals{};
  std::terminate_handler terminate = std::get_terminate();
  int exit_functions = ::exit_functions;

  Process() {
    for (int s = 1; s < 65; ++s)
      if (s < 32 || s > 33) ::sigaction(s, nullptr, &signals[static_cast<std::size_t>(s)]);  // 32 and 33 are glibc's
  }
  void expect_unchanged(const std::string& when) const {
    Process now;
    for (std::size_t s = 1; s < 65; ++s)
      expect(now.signals[s].sa_handler == signals[s].sa_handler && now.signals[s].sa_flags == signals[s].sa_flags,
             "the disposition of signal " + std::to_string(s) + " is another " + when);
    expect(now.terminate == terminate, "the terminate handler is another " + when);
    expect(now.exit_functions == exit_functions, "there are functions to call at exit " + when);
  }
};

int threads() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/task");
  while (dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.';
  ::closedir(folder);
  return count;
}

std::string thread_names() {
  std::string names;
  DIR* folder = ::opendir("/proc/self/task");
  while (dirent* entry = ::readdir(folder)) {
    std::string name;
    if (std::getline(std::ifstream(std::string("/proc/self/task/") + entry->d_name + "/comm"), name))
      names += " " + name;
  }
  ::closedir(folder);
  return names;
}

// Sums the ranks' numbers in the communicator by lockstep; MPI knows what is right.
void compute(MPI_Comm comm) {
  int rank = 0, size = 1, world = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  expect(ls::process_index() == rank && ls::process_count() == size, "the gang is the communicator");
  auto mesh = ls::make_mesh({{"rank", -1}});
  expect(ls::device_count() == size * ls::local_device_count(), "all devices of the communicator, no others");
  Array mine = np::full({ls::local_device_count()}, world + 1);
  Array all = ls::multihost_utils::process_allgather(mine, {.tiled = true});
  Array spread = ls::device_put(all, {mesh, P("rank")});
  int sum = ls::jit([](Array x) { return np::sum(x); })(spread).item<int>(),
      part = (world + 1) * ls::local_device_count(), right = 0;
  MPI_Allreduce(&part, &right, 1, MPI_INT, MPI_SUM, comm);
  expect(sum == right, "the sum is " + std::to_string(sum) + ", it should be " + std::to_string(right));
}

MPI_Comm split(int color) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, color, rank, &part);
  return part;
}

void talk(MPI_Comm comm, const std::string& word) {
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  expect(!ls::distributed::kv().try_get("word/0"), "a new gang has a store of its own");
  ls::distributed::barrier("empty", 30s);
  ls::distributed::kv().set("word/" + std::to_string(rank), word + std::to_string(rank));
  int next = (rank + 1) % size;
  expect(ls::distributed::kv().get("word/" + std::to_string(next), 30s) == word + std::to_string(next),
         "the next process's word");
  ls::distributed::barrier("all", 30s);
}

std::string error_of(int& code, MPI_Comm comm, const ls::mpi::Options& options = {}) {
  try {
    ls::mpi::initialize(comm, options);
  } catch (const ls::Error& e) {
    code = static_cast<int>(e.code());
    return e.operation() + ": " + e.message();
  }
  throw std::runtime_error("nothing was thrown");
}

void expect_same_everywhere(const std::string& text) {
  std::array<char, 4096> first{}, mine{};
  text.copy(mine.data(), mine.size() - 1);
  first = mine;
  MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  expect(first == mine, "another error than on rank 0: " + text);
}

void run(const std::string& what, int rank) {
  Process before;
  int threads_before = threads();
  auto began = std::chrono::steady_clock::now();
  auto expect_soon = [&](std::chrono::seconds time) {
    expect(std::chrono::steady_clock::now() - began < time, "that took too long");
  };
  if (what == "whole" || what == "split" || what == "part") {
    MPI_Comm comm = what == "whole" ? MPI_COMM_WORLD
                                    : split(what == "split" ? rank % 2
                                            : rank == 0     ? MPI_UNDEFINED
                                                            : 0);
    if (comm == MPI_COMM_NULL) {
      int code = 0;
      std::string error = error_of(code, comm);
      expect(error.find("MPI_COMM_NULL") != std::string::npos, error);
      return;
    }
    ls::mpi::initialize(comm);
    before.expect_unchanged("after initialize");
    talk(comm, "hello");
    compute(comm);
    before.expect_unchanged("after a computation");
    ls::distributed::shutdown();
    before.expect_unchanged("after shutdown");
  } else if (what == "twice") {
    ls::mpi::initialize(MPI_COMM_WORLD);
    talk(MPI_COMM_WORLD, "all");
    ls::distributed::shutdown();
    for (auto end = std::chrono::steady_clock::now() + 10s; threads() > threads_before;) {
      expect(std::chrono::steady_clock::now() < end, "after shutdown there are still the threads" + thread_names());
      std::this_thread::sleep_for(10ms);
    }
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm half = split(2 * rank < size ? 0 : 1);
    ls::mpi::initialize(half);
    talk(half, "half");
    compute(half);
    ls::distributed::shutdown();
    before.expect_unchanged("after two gangs");
  } else if (what == "busy") {
    if (rank == 1) ls::distributed::initialize({.num_processes = 1, .process_id = 0});
    int code = 0;
    std::string error = error_of(code, MPI_COMM_WORLD);
    expect(error.starts_with("mpi::initialize: process 1: it has been called before"), error);
    expect(code == static_cast<int>(ls::ErrorCode::distributed), error);
    expect_same_everywhere(error);
    expect_soon(20s);
    expect(ls::distributed::is_initialized() == (rank == 1), "nobody has joined");
    if (rank == 1) ls::distributed::shutdown();
    ls::mpi::initialize(MPI_COMM_WORLD);  // nothing is left of it
    talk(MPI_COMM_WORLD, "again");
    ls::distributed::shutdown();
  } else if (what == "nowhere") {
    int code = 0;
    std::string error = error_of(code, MPI_COMM_WORLD, {.host = "nowhere.invalid", .initialization_timeout = 2s});
    expect(error.find("nowhere.invalid") != std::string::npos, error);
    expect(code == static_cast<int>(ls::ErrorCode::timeout), error);
    expect_same_everywhere(error);
    expect_soon(40s);
    before.expect_unchanged("after an error");
  } else if (what == "owner") {
    int port = rank == 0 ? ls::distributed::free_port() : 0, size = 1;
    MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ls::distributed::initialize({.coordinator_address = "127.0.0.1:" + std::to_string(port),
                                 .num_processes = size,
                                 .process_id = rank,
                                 .token = "owner"});
    Process now;
    expect(now.exit_functions > before.exit_functions, "at_exit is seen");
    expect(now.terminate != before.terminate, "at_terminate is seen");
    expect(now.signals[SIGQUIT].sa_handler != before.signals[SIGQUIT].sa_handler, "the handler is seen");
    int after_initialize = now.exit_functions;
    compute(MPI_COMM_WORLD);
    expect(Process().exit_functions > after_initialize, "atexit is seen");
    ls::distributed::shutdown();
  } else {
    throw std::runtime_error("no case " + what);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    run(argc == 2 ? argv[1] : "", rank);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  std::printf("ok %d\n", rank);
  MPI_Finalize();
}

// lockstep inside an MPI program: a communicator's processes become a gang. Only MPI programs include this header
// (after it, link MPI::MPI_CXX); the library itself neither includes mpi.h nor links MPI.
//
//   MPI_Init(&argc, &argv);
//   lockstep::mpi::initialize(MPI_COMM_WORLD);   // or a part of it: each part is a gang of its own
//   ...                                          // process_index() is the rank in the communicator
//   lockstep::distributed::shutdown();           // collective; before MPI_Finalize or after it
//   MPI_Finalize();
//
// What the program owns stays the program's:
//
// - MPI. It is called inside initialize() alone, and there on the calling thread alone, on a duplicate of the
//   communicator that is freed before initialize() returns. So MPI_THREAD_FUNNELED suffices, even MPI_THREAD_SINGLE as
//   far as lockstep's own threads go: none of them ever calls MPI.
// - Signals. No handler is installed and no disposition is changed unless preemption_signal or report_signal says so.
// - The end of the process. Nothing is registered with atexit, on_exit or std::set_terminate, and a failure of the gang
//   ends the process only if exit_on_failure says so; otherwise calls throw, and distributed::health() and
//   on_failure() tell. A process that ends without shutdown() counts as dead for the others; one that ends while
//   programs are running on its devices has to have called shutdown() before, which waits for them.
//
// The library's threads, on each process:
//
// - while the gang lasts: one that listens to the coordinator and sends heartbeats; on rank 0 one that keeps the
//   coordinator's deadlines; one that waits for the next preemption notice once reached_preemption_sync_point() has
//   been called; after a failure, one that tells the program's subscribers; gRPC's own (a few per process, which sleep
//   while nothing comes).
// - from the first program over a mesh of several processes: one that reads from the other processes, and a pool that
//   reduces and copies.
// - from the first array on, gang or not: the PJRT plugin's pools (for CPUs sized by PJRT_NPROC or NPROC, by default a
//   thread for each core).
//
// After shutdown() those of the first two groups are gone (gRPC ends its own a moment later). Another initialize(),
// over this communicator or another one, may follow.
#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/distributed/initialize.h"
#include "lockstep/distributed/invitation.h"
#include "lockstep/support/error.h"
#include "lockstep/support/location.h"

namespace lockstep::mpi {

// As distributed::InitializeOptions, with the defaults of a guest. Address, token, number and id of the processes come
// from the communicator.
struct Options {
  // The name or address by which the others reach rank 0, if it is not to be one of the addresses of its interfaces.
  // Rank 0's counts.
  std::string host;
  std::vector<int> local_device_ids;  // the GPUs this process may use, by their number on the machine; empty: all
  std::chrono::milliseconds initialization_timeout = std::chrono::seconds(300);
  std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(100);  // rank 0's counts
  std::chrono::milliseconds shutdown_timeout = std::chrono::seconds(300);
  bool exit_on_failure = false;
  std::chrono::milliseconds failure_grace = std::chrono::seconds(2);
  int preemption_signal = 0, report_signal = 0;  // 0: none is taken
};

namespace internal {

constexpr const char* operation = "mpi::initialize";
constexpr std::size_t longest_message = 4096;  // of one process, told to all

inline void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw_error(ErrorCode::distributed, operation, "{}: {}", what, std::string(text, static_cast<std::size_t>(length)));
}

// The library's own copy of the program's communicator, whose errors are returned.
class Communicator {
 public:
  explicit Communicator(MPI_Comm given) {
    int initialized = 0, finalized = 0, inter = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized)
      throw_error(ErrorCode::invalid_argument, operation, "it has to be called after MPI_Init and before MPI_Finalize");
    if (given == MPI_COMM_NULL)
      throw_error(ErrorCode::invalid_argument, operation,
                  "the communicator is MPI_COMM_NULL: only processes that are part of it may call this");
    check(MPI_Comm_test_inter(given, &inter), "MPI_Comm_test_inter");
    if (inter)
      throw_error(ErrorCode::invalid_argument, operation,
                  "the communicator is an intercommunicator; merge it (MPI_Intercomm_merge) or give one of its sides");
    check(MPI_Comm_dup(given, &comm_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    check(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  }
  ~Communicator() {
    if (comm_ != MPI_COMM_NULL) MPI_Comm_free(&comm_);
  }
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  bool on_one_machine() const {
    MPI_Comm here = MPI_COMM_NULL;
    int size = 0;
    check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
    check(MPI_Comm_size(here, &size), "MPI_Comm_size");
    MPI_Comm_free(&here);
    return size == size_;
  }

  void broadcast(std::string& text) const {  // rank 0's
    int length = static_cast<int>(text.size());
    check(MPI_Bcast(&length, 1, MPI_INT, 0, comm_), "MPI_Bcast");
    text.resize(static_cast<std::size_t>(length));
    check(MPI_Bcast(text.data(), length, MPI_CHAR, 0, comm_), "MPI_Bcast");
  }

  // Every process does its part; if that throws on any, the same error is thrown on all.
  template <class Part>
  void together(Part&& part) const {
    distributed::Outcome mine;
    auto failed = [&](ErrorCode code, std::string message) {
      mine = {true, code, std::move(message)};
      if (mine.message.size() > longest_message) mine.message.resize(longest_message);
    };
    try {
      part();
    } catch (const Error& e) {
      failed(e.code(), e.message());
    } catch (const std::exception& e) {
      failed(ErrorCode::distributed, e.what());
    }
    // The length of the text, or -1 where all went well.
    int length[2] = {mine.failed ? static_cast<int>(mine.message.size()) : -1, static_cast<int>(mine.code)};
    std::vector<int> all(2 * static_cast<std::size_t>(size_));
    check(MPI_Allgather(length, 2, MPI_INT, all.data(), 2, MPI_INT, comm_), "MPI_Allgather");
    std::vector<distributed::Outcome> outcomes(static_cast<std::size_t>(size_));
    std::vector<int> lengths, places;
    int total = 0;
    bool any = false;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      outcomes[i] = {all[2 * i] >= 0, static_cast<ErrorCode>(all[2 * i + 1]), ""};
      any = any || outcomes[i].failed;
      lengths.push_back(outcomes[i].failed ? all[2 * i] : 0);
      places.push_back(total);
      total += lengths.back();
    }
    if (!any) return;
    std::string texts(static_cast<std::size_t>(total), ' ');
    check(MPI_Allgatherv(mine.message.data(), static_cast<int>(mine.message.size()), MPI_CHAR, texts.data(),
                         lengths.data(), places.data(), MPI_CHAR, comm_),
          "MPI_Allgatherv");
    for (std::size_t i = 0; i < outcomes.size(); ++i)
      outcomes[i].message = texts.substr(static_cast<std::size_t>(places[i]), static_cast<std::size_t>(lengths[i]));
    throw distributed::combined_error(operation, outcomes);
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

}  // namespace internal

// Collective over the communicator: its processes become a gang, rank by rank. The processes may be any part of the
// program's; those of different communicators become gangs that know nothing of each other. What
// distributed::initialize() throws on one process is thrown on all, with who says what; nobody is left waiting longer
// than initialization_timeout.
inline void initialize(MPI_Comm communicator, const Options& options = {},
                       std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  internal::Communicator comm(communicator);
  bool one_machine = comm.on_one_machine();
  std::string text;
  comm.together([&] {
    if (comm.rank() == 0) text = distributed::make_invitation(one_machine, options.host).text();
  });
  comm.broadcast(text);
  distributed::InitializeOptions full;
  comm.together([&] {
    distributed::Invitation invitation = distributed::Invitation::parse(text);
    full.coordinator_address = invitation.address;
    full.coordinator_bind_address = invitation.bind_address;
    full.token = invitation.token;
    full.num_processes = comm.size();
    full.process_id = comm.rank();
    full.local_device_ids = options.local_device_ids;
    full.initialization_timeout = options.initialization_timeout;
    full.heartbeat_timeout = options.heartbeat_timeout;
    full.shutdown_timeout = options.shutdown_timeout;
    full.exit_on_failure = options.exit_on_failure;
    full.failure_grace = options.failure_grace;
    full.watch_exit = false;
    full.preemption_signal = options.preemption_signal;
    full.report_signal = options.report_signal;
    distributed::check_initialize(full);  // what is wrong on one process alone, before the others wait for it
  });
  bool joined = false;
  try {
    comm.together([&] {
      distributed::initialize(std::move(full));
      joined = true;
    });
  } catch (...) {
    try {
      if (joined) distributed::shutdown();
    } catch (const Error&) {  // the first error is the one to tell
    }
    throw;
  }
}

}  // namespace lockstep::mpi

// The collectives of compiled programs, between the partitions of a gang of processes.
//
// A compiled program reaches a collective in one partition and calls Engine::start with that partition's buffers; when
// the other members of the group have done the same, here or in other processes, every one of them gets its `done`.
// Calls meet by (communicator, launch, operation, how-manieth call of it), never by the order in which they arrive, and
// only the members of a group meet.
//
// Order of reduction: within a process in the group's order, then over the processes in the order in which they first
// appear in the group. So all members get the same bits, and the same ones in every run.
//
// Errors: `done` gets the error of the launch. The first error of a launch, in any process, ends all its outstanding
// collectives in every process, and the ones that start later. A connection that breaks ends all launches of the
// communicators that the peer belongs to. Every collective has a deadline.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/collectives/launch_ledger.h"
#include "lockstep/core/dtype.h"
#include "lockstep/support/error.h"

namespace lockstep::collectives {

class Transport;

enum class CollectiveOp : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  collective_permute,
  collective_broadcast,
  ragged_all_to_all,
};
enum class Reduction : std::uint8_t { none, add, multiply, maximum, minimum, and_, or_, xor_ };

const char* to_string(CollectiveOp op);      // "all_reduce"
const char* to_string(Reduction reduction);  // "add"
// From HLO opcodes ("all-reduce", "maximum"); empty if it is none.
std::optional<CollectiveOp> parse_collective_op(std::string_view opcode);
std::optional<Reduction> parse_reduction(std::string_view opcode);

// One collective instruction of a program: the same in every process and partition.
struct CollectiveSpec {
  CollectiveOp op = CollectiveOp::all_reduce;
  Reduction reduction = Reduction::none;  // of all_reduce and reduce_scatter
  std::int64_t id = 0;                    // unique in the program
  std::vector<std::int64_t> groups;       // partition numbers, group after group; unused by collective_permute
  std::int64_t group_size = 0;
  // all_gather and reduce_scatter, for each result: the product of the physical dimensions before the one that is
  // gathered or scattered.
  std::vector<std::int64_t> outer;
  std::vector<std::int64_t> pairs;  // collective_permute: source, target, source, target ...
  std::string name;                 // for messages: the instruction and the user's line, "psum.3 (train.cc:42)"
};

// A dense buffer. Inputs and outputs of a call live until its `done` and do not overlap.
struct InBuffer {
  const void* data = nullptr;
  std::size_t bytes = 0;
  DType dtype{};
  std::size_t count = 0;               // elements
  std::span<const std::int64_t> dims;  // logical; read only during start()
};
struct OutBuffer {
  void* data = nullptr;
  std::size_t bytes = 0;
  DType dtype{};
  std::size_t count = 0;
  std::span<const std::int64_t> dims;
};

// What each operation takes and gives, per partition:
//   all_reduce            any number of inputs, as many outputs, alike
//   all_gather            each output holds the group's inputs in group order along the gathered dimension
//   reduce_scatter        each output is this member's part of the reduced input
//   all_to_all            group_size inputs and outputs: input j goes to member j, output j comes from member j
//   collective_permute    outputs like inputs; zeros where nothing is sent; a partition in no pair may call as well
//   collective_broadcast  outputs like inputs: the group's first member's inputs
//   ragged_all_to_all     operand, output's initial value, input_offsets, send_sizes, output_offsets, recv_sizes (s32
//   or
//                         s64, in rows of dimension 0, which is the major one); one output

// The partitions of one mesh, and the process that each belongs to.
struct Communicator {
  std::uint64_t id = 0;        // the same in every process
  std::vector<int> processes;  // of each partition; ranks of the transport
};

// Called once; null: success. From a standing pool, or inside start() if everything was there; never from the
// transport's progress thread. May run the rest of the program; must not throw.
using Done = std::function<void(const Error*)>;

// A collective that some local partition has started and that has not ended.
struct Outstanding {
  CollectiveOp op;
  std::string name;
  std::uint64_t communicator, launch;
  std::uint32_t occurrence;
  std::chrono::nanoseconds age;
  std::vector<std::int64_t> members;  // partitions
  std::vector<std::int64_t> arrived;  // local partitions that have called
  std::vector<int> waiting_for;       // processes from which something is still to come
};

// Totals over the calls of one collective instruction (by name), in this process.
struct OpStatistics {
  CollectiveOp op;
  std::string name;
  std::uint64_t calls = 0;           // by local partitions
  std::uint64_t bytes = 0;           // of their inputs
  std::uint64_t sent = 0;            // bytes that left this process
  std::chrono::nanoseconds time{0};  // from the first local call to the end, summed
};

struct EngineOptions {
  std::chrono::nanoseconds deadline = std::chrono::minutes(10);
  std::chrono::nanoseconds report_grace =
      std::chrono::seconds(1);          // for the others' answers when a deadline has passed
  int workers = 0;                      // threads that copy and reduce; 0: by the number of cores
  int completions = 0;                  // threads that call `done`; 0: by the number of cores
  std::size_t direct_bytes = 64 << 10;  // all_reduce: up to here everybody sends everything to everybody
  std::size_t chunk_bytes = 1 << 20;    // larger reductions move in chunks of this size
  std::size_t inline_bytes = 32 << 10;  // work up to this size is done by the thread at hand
  // The others go on when a process fails: its error ends only what it takes part in.
  bool recoverable = false;
  // What this process is doing ("compiling jit(step)"), told to peers whose collectives pass their deadline. Called
  // from the progress thread.
  std::function<std::string()> phase;
  // The processes launch different programs, as found here or by a peer: called from a thread of the engine before
  // everything outstanding ends with the error.
  std::function<void(const Error&)> on_diverged;
  // A deadline has passed, here or at a peer: called as on_diverged, before everything outstanding ends, everywhere,
  // with the error. Without it only the launch ends, and the processes go on.
  std::function<void(const Error&)> on_stalled;
};

class Engine {
 public:
  explicit Engine(std::unique_ptr<Transport> transport, EngineOptions options = {});
  // Closes.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const;
  int size() const;

  void add_communicator(Communicator communicator);
  // Outstanding collectives of it end with an error.
  void remove_communicator(std::uint64_t id);

  // The process's next launch on the communicator: what is launched is compared with what the others launch, by stamps
  // that their frames carry. A difference ends everything outstanding, everywhere, with Error(diverged). `name` is a
  // program with its call, for that error. Launches that are not begun so are not compared.
  void begin_launch(std::uint64_t communicator, LaunchedProgram program);
  // The program is about to be the next launch, but waits for something first.
  class [[nodiscard]] Intent {
   public:
    Intent(Engine& engine, std::uint64_t communicator, LaunchedProgram program);
    ~Intent();
    Intent(const Intent&) = delete;
    Intent& operator=(const Intent&) = delete;

   private:
    Engine& engine_;
    const std::uint64_t communicator_, program_;
  };

  // Begins `partition`'s part in a collective and returns at once. `launch` is the number of the program's launch on
  // this communicator, the same in every process. Whatever is wrong is reported through `done`.
  void start(std::shared_ptr<const CollectiveSpec> spec, std::uint64_t communicator, std::uint64_t launch,
             std::int64_t partition, std::span<const InBuffer> inputs, std::span<const OutBuffer> outputs, Done done);
  // The partition will start no more collectives in this launch. When all local partitions have said so the launch is
  // forgotten; its number must not come again.
  void end_launch(std::uint64_t communicator, std::uint64_t launch, std::int64_t partition);

  // A launch has failed outside a collective: ends its collectives everywhere.
  void cancel_launch(std::uint64_t communicator, std::uint64_t launch, const Error& error);
  // The gang has failed: everything outstanding ends with the error, and so does everything started later. Peers are
  // told, so that their error names the cause.
  void fail(const Error& error);

  // A peer is gone though its connection may still stand: everything of the communicators that it belongs to ends with
  // the error. The others go on.
  void lose(int peer, const Error& error);

  // This process takes part in nothing more: whatever of the others still needs it ends with an error at once. Its own
  // launches have to have ended.
  void leave();

  // Ends outstanding collectives with an error, says goodbye to the peers, closes the transport and ends the engine's
  // threads. What is started later ends with the error. Idempotent.
  void close();

  void set_deadline(std::chrono::nanoseconds deadline);  // of collectives that start from now on
  std::vector<Outstanding> snapshot() const;
  std::vector<OpStatistics> statistics() const;

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::collectives

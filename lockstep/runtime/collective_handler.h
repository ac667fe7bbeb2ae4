// What compiled programs call where XLA had a collective: one handler for all of them, which hands the buffers to the
// collectives engine and lets the program go on when the engine is done; and one that tells a program its partition.
//
// The calls are written by compile/rewrite.h. Their attributes: op, kind (HLO opcodes), id, inputs (how many operands
// count; a last one may be there for another reason), group_size, groups, outer, pairs, name; as in CollectiveSpec.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/pjrt/executable.h"
#include "lockstep/pjrt/ffi.h"

namespace lockstep::runtime {

inline constexpr const char* kCollectiveTarget = "lockstep_collective";
inline constexpr const char* kPartitionIdTarget = "lockstep_partition_id";

// For all clients of the plugin; again does nothing. Must precede the compile or load of rewritten programs.
void register_collective_handlers(const pjrt::Plugin& plugin);

// One loaded program of a gang: where its collectives go. Safe from several threads.
class CollectiveProgram {
 public:
  // The engine must outlive the program. The communicator must have been added to the engine. `names`: of the
  // collectives by id, for messages, where they are to have others than in the program.
  CollectiveProgram(collectives::Engine& engine, std::uint64_t communicator, std::vector<std::string> names = {})
      : engine(engine), communicator(communicator), names_(std::move(names)) {}

  collectives::Engine& engine;
  const std::uint64_t communicator;
  std::atomic<bool> has_run{false};

  // The collective `id`, decoded by the first call that comes to it.
  std::shared_ptr<const collectives::CollectiveSpec> spec(std::int64_t id, const pjrt::FfiCall& call);

 private:
  const std::vector<std::string> names_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<const collectives::CollectiveSpec>> specs_;  // by id
};

// Launches one partition of a rewritten program on a local device; see LoadedExecutable::launch. `number` is the
// launch's number on the communicator, the same in every process. When the launch has ended the engine is told so,
// and if it failed its other partitions are, here and elsewhere. `program` is kept until then.
void launch_partition(const pjrt::Plugin& plugin, const pjrt::LoadedExecutable& executable,
                      std::shared_ptr<CollectiveProgram> program, std::uint64_t number, std::int64_t partition,
                      const pjrt::Device& device, std::span<PJRT_Buffer* const> inputs, PJRT_Buffer** outputs,
                      std::span<const std::int64_t> non_donatable_inputs = {});

// Until all launches so far have ended, or the deadline; false if it passed.
bool wait_for_launches(std::chrono::steady_clock::time_point deadline);

}  // namespace lockstep::runtime

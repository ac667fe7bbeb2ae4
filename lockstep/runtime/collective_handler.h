// What compiled programs call where XLA had a collective: one handler for all of them, which hands the buffers to the
// collectives engine and lets the program go on when the engine is done; and one that tells a program its partition.
//
// The calls are written by compile/rewrite.h. Their attributes: op, kind (HLO opcodes), id, inputs (how many operands
// count; a last one may be there for another reason), group_size, groups, outer, pairs, name; as in CollectiveSpec.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/pjrt/ffi.h"

namespace lockstep::runtime {

inline constexpr const char* kCollectiveTarget = "lockstep_collective";
inline constexpr const char* kPartitionIdTarget = "lockstep_partition_id";

// The collectives of one loaded program. Must live until its last launch has ended. `start` is called from the
// plugin's threads, several at once; see collectives::Engine::start.
class CollectiveProgram {
 public:
  using Start = std::function<void(std::shared_ptr<const collectives::CollectiveSpec> spec, std::uint64_t launch,
                                   std::int64_t partition, std::span<const collectives::InBuffer> inputs,
                                   std::span<const collectives::OutBuffer> outputs, collectives::Done done)>;
  explicit CollectiveProgram(Start start);
  ~CollectiveProgram();

  const Start start;
  // The decoded instruction `id`, decoded by the first call that comes to it.
  template <class Decode>
  std::shared_ptr<const collectives::CollectiveSpec> spec(std::int64_t id, const Decode& decode);

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<const collectives::CollectiveSpec>> specs_;  // by id
};

// One launch of one partition: what the handlers find in the launch's context. Must live until the launch has ended.
struct CollectiveLaunch {
  CollectiveProgram* program = nullptr;
  std::uint64_t number = 0;
  std::int64_t partition = 0;
};

// For all clients of the plugin; again does nothing. Must precede the compile or load of rewritten programs.
void register_collective_handlers(const pjrt::Plugin& plugin);

// A context for launching rewritten programs; it and `launch` must live until the launch has ended.
pjrt::ExecuteContext collective_context(const pjrt::Plugin& plugin, CollectiveLaunch* launch);

}  // namespace lockstep::runtime

// The processes that carry a mesh's collectives: an engine for each set of processes that share a mesh, the
// communicators of meshes, and the order of launches.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lockstep/collectives/engine.h"
#include "lockstep/sharding/mesh.h"

namespace lockstep::runtime {

// One mesh's launches. Every process numbers its launches on a mesh from 0; launches of one number meet.
class MeshChannel {
 public:
  struct Agreements;
  // `description`: the mesh's axes and devices, in lines.
  MeshChannel(std::uint64_t communicator, std::vector<int> processes, std::string description,
              std::shared_ptr<Agreements> agreements)
      : communicator_(communicator),
        processes_(std::move(processes)),
        description_(std::move(description)),
        agreements_(std::move(agreements)) {}
  std::uint64_t communicator() const { return communicator_; }
  std::span<const int> processes() const { return processes_; }  // that have devices in the mesh, sorted
  // Calls `issue(number)` with the next launch number, one call at a time, so that all local partitions of a launch are
  // issued before the next launch. What is launched is compared with what the other processes launch, without waiting
  // for them (collectives/launch_ledger.h) where the engine carries the collectives; a difference fails the gang as
  // diverged.
  void launch(collectives::LaunchedProgram program, const std::function<void(std::uint64_t number)>& issue);
  // Before an executable first runs: all processes of the mesh compare what they are about to run: the mesh, the number
  // of the launch, and the program by its fingerprint. `program` is what launch() will be told; `text` is asked for
  // only to explain a difference. A program that they have agreed on before is not compared again: one process may make
  // it anew while another still has it. Error(diverged, peer); Error(timeout), with which the gang has failed as
  // stalled.
  void agree(const collectives::LaunchedProgram& program, const std::string& fingerprint,
             const std::function<std::string()>& text);
  void carry_by(collectives::Engine& engine) { engine_ = &engine; }
  collectives::Engine& engine() const { return *engine_; }  // if carried()
  void end() { ended_ = true; }                             // the gang was left: no launch any more
  bool carried() const { return engine_ != nullptr; }
  // For measurements of what the comparison of launches costs: without it, from before the first launch on.
  void do_not_compare() { compares_ = false; }

 private:
  const std::uint64_t communicator_;
  const std::vector<int> processes_;
  const std::string description_;
  const std::shared_ptr<Agreements> agreements_;
  bool compares_ = true;
  std::atomic<collectives::Engine*> engine_ = nullptr;  // that carries the collectives, if there is one
  std::atomic<bool> ended_ = false;
  std::uint64_t next_launch_ = 0;
  std::mutex mutex_;
};

// The collectives that wait for somebody, a line each: "all_reduce psum.3 (train.cc:42) in launch 17 for 3.2 s; not
// here yet: process 1".
std::vector<std::string> outstanding_collectives();

// `carries`: an engine is to carry the collectives of programs over the mesh, not the plugin. The first mesh of some
// processes connects them, and waits until each of them has come to its own first; other processes are not asked.
// Error(sharding) if this process has no device in it.
MeshChannel& channel(const Mesh& mesh, bool carries = true);

// The process has left its gang: connections and threads go, meshes made so far can't be used any more.
void end_gang();

// From now on the end of the process waits for the launches in flight before anything that exists now is taken down:
// the plugin's own statics, which may be made as late as during a compile, must outlive them. To be called after each
// compile. Where the exit is none of the library's business (watch_exit), shutdown() waits instead.
void drain_before_exit();

// The deadline of collectives and agreements: LOCKSTEP_COLLECTIVE_TIMEOUT in seconds (default 600).
std::chrono::milliseconds collective_timeout();

}  // namespace lockstep::runtime

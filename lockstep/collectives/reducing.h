// What all_reduce and reduce_scatter share: every site owns a part of the result, collects the other sites'
// contributions to it and folds them in site order.
//
// The result is cut into chunks of a bounded size, each owned by one site. A site's contribution to a chunk is the fold
// of its local members' elements in group order. Contributions go straight to the owner (S - 1 messages per chunk for S
// sites); the owner folds a chunk as soon as its last contribution is there, while the next ones are on their way. Only
// a window of chunks is in flight per site, which bounds the memory for contributions.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/collectives/meeting.h"
#include "lockstep/collectives/reduce.h"

namespace lockstep::collectives {

// Consecutive elements of one result (`leaf`), of the member at `position` where results differ by member.
struct Run {
  int leaf = 0, position = 0;
  std::size_t first = 0, count = 0;
};

struct Chunk {
  int site = 0;  // who owns it
  std::vector<Run> runs;
  std::size_t bytes = 0;
};

class Reducing : public Meeting {
 public:
  using Meeting::Meeting;

 protected:
  // That the reduction has a meaning for all inputs' types.
  void check_reduction() const;
  std::size_t run_bytes(const Run& run) const;

  // One member's elements for a run: in place if they are contiguous, else copied to `scratch`.
  virtual const std::byte* source(const Call& call, const Run& run, std::byte* scratch) const = 0;
  virtual bool contiguous(const Run& run) const = 0;
  // Where the reduced elements go.
  virtual std::byte* target(const Run& run) = 0;
  // An own chunk is complete.
  virtual void reduced(std::size_t chunk) = 0;

  // Collects, folds and sends contributions for all chunks, the same list at every site.
  void reduce(std::vector<Chunk> chunks);
  const Chunk& chunk(std::size_t index) const { return chunks_[index]; }
  std::size_t chunk_count() const { return chunks_.size(); }

  // Writes this site's contribution, run after run.
  void contribute(const Chunk& chunk, std::byte* to) const;
  // This site's contribution where it lies; empty if it must be computed or packed.
  std::vector<Piece> contribution_in_place(const Chunk& chunk) const;
  // Folds all sites' contributions into the targets. parts[s] is site s's, unused for this one.
  void fold(const Chunk& chunk, const std::vector<const std::byte*>& parts);

 private:
  struct Slot {  // receives the contributions to one own chunk at a time
    std::unique_ptr<std::byte[]> data;
    std::vector<const std::byte*> parts;  // by site
    std::atomic<int> missing{0};
  };

  class Folding;  // a chunk that is folded while the other site's contribution arrives

  void fold_local(const Run& run, std::byte* to) const;
  // This site's contribution to a run, in place or in scratch memory of the thread.
  const std::byte* contribution(const Run& run) const;
  bool aligned(const std::byte* at, const Run& run) const;
  void fold_while_arriving(std::size_t index);
  void collect(std::size_t slot, std::size_t own);
  void contribute_to(int site, std::size_t outgoing);

  std::vector<Chunk> chunks_;
  std::vector<std::size_t> own_;                    // indices of chunks
  std::vector<std::vector<std::size_t>> outgoing_;  // of the chunks of each other site
  std::vector<std::unique_ptr<Slot>> slots_;
};

// Cuts `leaves` (dtype and count of each) into chunks of about chunk_bytes; the sites own consecutive parts of nearly
// equal size.
std::vector<Chunk> cut(const std::vector<OutBuffer>& leaves, int sites, std::size_t chunk_bytes);

}  // namespace lockstep::collectives

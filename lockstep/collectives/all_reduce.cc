// all_reduce.
//
// Small (up to EngineOptions::direct_bytes in all): every site sends its contribution, the fold of its members' inputs,
// to every other site, and each folds all of them in site order: one message's latency.
//
// Large: the results, laid end to end, are cut into chunks owned by the sites in equal parts and reduced as described
// in reducing.h; the owner sends each reduced chunk to all other sites. Every site sends and receives 2 (S - 1) / S of
// the data. Unlike in a ring, elements are folded in the same order wherever they lie.
//
// Results are written to the first local member's outputs and copied from there to the others'.
#include <atomic>

#include "lockstep/collectives/reducing.h"

namespace lockstep::collectives {
namespace {

enum Item : std::uint32_t { kContribution, kResult };

class AllReduce final : public Reducing {
 public:
  using Reducing::Reducing;

 private:
  void check() const override {
    check_like(1, 1);
    check_reduction();
  }

  void run() override {
    const auto& leaves = local_calls().front().outputs;
    std::size_t total = 0;
    for (const OutBuffer& leaf : leaves) total += leaf.bytes;
    int sites = static_cast<int>(plan().sites.size());
    if (sites > 1 && total <= host().options().direct_bytes) {
      run_direct(total);
      return;
    }
    auto chunks = cut(leaves, sites, host().options().chunk_bytes);
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      if (chunks[c].site == plan().home) continue;
      receive(chunks[c].site, tag(kResult, static_cast<std::uint32_t>(c)), target_pieces(chunks[c]),
              [this, chunk = chunks[c]] { copy_to_other_members(chunk); });
    }
    reduce(std::move(chunks));
  }

  void run_direct(std::size_t total) {
    int sites = static_cast<int>(plan().sites.size());
    all_ = {.bytes = total};
    const auto& leaves = local_calls().front().outputs;
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      all_.runs.push_back({.leaf = static_cast<int>(k), .count = leaves[k].count});
    }
    memory_ = std::make_unique_for_overwrite<std::byte[]>(total * sites);
    missing_ = sites - 1;
    auto mine = contribution_in_place(all_);
    if (mine.empty()) {
      contribute(all_, memory_.get() + plan().home * total);
      mine = {{memory_.get() + plan().home * total, total}};
    }
    for (int s = 0; s < sites; ++s) parts_.push_back(memory_.get() + s * total);
    // The tag of the first chunk: a process that goes the other way, because its sizes differ, is found at site 0.
    Tag first = tag(kContribution, 0);
    for (int i = 1; i < sites; ++i) {
      int site = (plan().home + i) % sites;
      send(site, first, mine);
      receive(site, first, {{memory_.get() + site * total, total}}, [this] {
        if (--missing_ > 0) return;
        work(all_.bytes, [this] {
          fold(all_, parts_);
          copy_to_other_members(all_);
        });
      });
    }
  }

  const std::byte* source(const Call& call, const Run& run, std::byte*) const override {
    const InBuffer& input = call.inputs[run.leaf];
    return static_cast<const std::byte*>(input.data) + run.first * itemsize(input.dtype);
  }
  bool contiguous(const Run&) const override { return true; }
  std::byte* target(const Run& run) override { return target_in(local_calls().front(), run); }

  void reduced(std::size_t index) override {
    const Chunk& done = chunk(index);
    int sites = static_cast<int>(plan().sites.size());
    for (int i = 1; i < sites; ++i) {
      std::vector<Piece> pieces;
      for (const Run& run : done.runs) pieces.emplace_back(target(run), run_bytes(run));
      send((plan().home + i) % sites, tag(kResult, static_cast<std::uint32_t>(index)), std::move(pieces));
    }
    copy_to_other_members(done);
  }

  std::byte* target_in(Call& call, const Run& run) const {
    OutBuffer& output = call.outputs[run.leaf];
    return static_cast<std::byte*>(output.data) + run.first * itemsize(output.dtype);
  }
  std::vector<MutablePiece> target_pieces(const Chunk& chunk) {
    std::vector<MutablePiece> pieces;
    for (const Run& run : chunk.runs) pieces.emplace_back(target(run), run_bytes(run));
    return pieces;
  }
  void copy_to_other_members(const Chunk& chunk) {
    for (std::size_t i = 1; i < local_calls().size(); ++i) {
      for (const Run& run : chunk.runs) copy(target_in(local_calls()[i], run), target(run), run_bytes(run));
    }
  }

  // Of the direct algorithm.
  Chunk all_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<const std::byte*> parts_;
  std::atomic<int> missing_{0};
};

}  // namespace

std::shared_ptr<Meeting> make_all_reduce(MeetingInit init) { return std::make_shared<AllReduce>(std::move(init)); }

}  // namespace lockstep::collectives

#include "lockstep/collectives/reducing.h"

#include <algorithm>
#include <cstring>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kWindow = 4;  // chunks in flight from each site to each other

// Per thread and use, grown as needed.
std::byte* scratch(int use, std::size_t bytes) {
  thread_local std::vector<std::byte> buffers[3];
  if (buffers[use].size() < bytes) buffers[use].resize(bytes);
  return buffers[use].data();
}

}  // namespace

void Reducing::check_reduction() const {
  for (const InBuffer& input : calls().front().inputs) {
    if (!combine_function(input.dtype, spec().reduction)) {
      reject(ErrorCode::dtype,
             fmt::format("the reduction {} is not defined for {}", to_string(spec().reduction), name(input.dtype)));
    }
  }
}

std::size_t Reducing::run_bytes(const Run& run) const {
  return run.count * itemsize(calls().front().inputs[run.leaf].dtype);
}

std::vector<Piece> Reducing::contribution_in_place(const Chunk& chunk) const {
  std::vector<Piece> pieces;
  if (calls().size() > 1) return pieces;
  for (const Run& run : chunk.runs) {
    if (!contiguous(run)) return {};
    pieces.emplace_back(source(calls().front(), run, nullptr), run_bytes(run));
  }
  return pieces;
}

void Reducing::fold_local(const Run& run, std::byte* to) const {
  const auto& members = calls();
  Combine combine = combine_function(members.front().inputs[run.leaf].dtype, spec().reduction);
  const std::byte* first = source(members[0], run, to);
  if (members.size() == 1) {
    if (first != to && run_bytes(run) > 0) std::memcpy(to, first, run_bytes(run));
    return;
  }
  for (std::size_t i = 1; i < members.size(); ++i) {
    const std::byte* next = source(members[i], run, scratch(0, run_bytes(run)));
    combine(to, i == 1 ? first : to, next, run.count);
  }
}

void Reducing::contribute(const Chunk& chunk, std::byte* to) const {
  for (const Run& run : chunk.runs) {
    std::size_t bytes = run_bytes(run);
    bool direct = calls().size() == 1 || aligned(to, run);
    std::byte* folded = direct ? to : scratch(1, bytes);
    fold_local(run, folded);
    if (!direct && bytes > 0) std::memcpy(to, folded, bytes);
    to += bytes;
  }
}

bool Reducing::aligned(const std::byte* at, const Run& run) const {
  return reinterpret_cast<std::uintptr_t>(at) % itemsize(calls().front().inputs[run.leaf].dtype) == 0;
}

const std::byte* Reducing::contribution(const Run& run) const {
  std::byte* local = scratch(1, run_bytes(run));
  if (calls().size() == 1) return source(calls().front(), run, local);
  fold_local(run, local);
  return local;
}

void Reducing::fold(const Chunk& chunk, const std::vector<const std::byte*>& parts) {
  std::size_t offset = 0;
  for (const Run& run : chunk.runs) {
    std::byte* to = target(run);
    std::size_t bytes = run_bytes(run);
    if (bytes == 0) continue;
    if (parts.size() == 1) {
      fold_local(run, to);
      continue;
    }
    const std::byte* mine = contribution(run);
    Combine combine = combine_function(calls().front().inputs[run.leaf].dtype, spec().reduction);
    const std::byte* folded = nullptr;
    for (std::size_t s = 0; s < parts.size(); ++s) {
      const std::byte* part = static_cast<int>(s) == plan().home ? mine : parts[s] + offset;
      if (!aligned(part, run)) {  // in a chunk of several dtypes
        std::byte* straight = s == 0 ? to : scratch(0, bytes);
        std::memcpy(straight, part, bytes);
        part = straight;
      }
      if (s > 0) combine(to, folded, part, run.count);
      folded = s == 0 ? part : to;
    }
    offset += bytes;
  }
}

void Reducing::reduce(std::vector<Chunk> chunks) {
  chunks_ = std::move(chunks);
  std::size_t sites = plan().sites.size(), largest = 0;
  outgoing_.resize(sites);
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    if (chunks_[c].site == plan().home) {
      own_.push_back(c);
      largest = std::max(largest, chunks_[c].bytes);
    } else {
      outgoing_[chunks_[c].site].push_back(c);
    }
  }
  if (sites == 1) {
    for (std::size_t c : own_) {
      work(chunks_[c].bytes, [this, c] {
        fold(chunks_[c], std::vector<const std::byte*>(1));
        reduced(c);
      });
    }
    return;
  }
  if (sites == 2) {
    for (std::size_t index : own_) fold_while_arriving(index);
  }
  for (std::size_t i = 0; sites > 2 && i < std::min(kWindow, own_.size()); ++i) {
    auto slot = std::make_unique<Slot>();
    slot->data = std::make_unique_for_overwrite<std::byte[]>(largest * (sites - 1));
    slot->parts.resize(sites);
    slots_.push_back(std::move(slot));
  }
  for (std::size_t i = 0; i < slots_.size(); ++i) collect(i, i);
  for (std::size_t i = 1; i < sites; ++i) {
    int site = static_cast<int>((plan().home + i) % sites);
    for (std::size_t j = 0; j < std::min(kWindow, outgoing_[site].size()); ++j) contribute_to(site, j);
  }
}

// Takes the other site's contribution part by part, of any size and alignment.
class Reducing::Folding {
 public:
  Folding(Reducing& reducing, const Chunk& chunk) : reducing_(reducing), chunk_(chunk) {}

  void take(Piece bytes) {
    while (!bytes.empty()) {
      const Run& run = chunk_.runs[run_];
      std::size_t item = itemsize(reducing_.calls().front().inputs[run.leaf].dtype);
      if (held_ > 0 || bytes.size() < item) {  // an element that arrives in parts
        std::size_t n = std::min(item - held_, bytes.size());
        std::memcpy(element_ + held_, bytes.data(), n);
        held_ += n;
        bytes = bytes.subspan(n);
        if (held_ < item) return;
        held_ = 0;
        fold(run, element_, 1);
        continue;
      }
      std::size_t count = std::min(bytes.size() / item, run.count - done_);
      fold(run, bytes.data(), count);
      bytes = bytes.subspan(count * item);
    }
  }

 private:
  void fold(const Run& run, const std::byte* theirs, std::size_t count) {
    Run part{run.leaf, run.position, run.first + done_, count};
    std::size_t bytes = reducing_.run_bytes(part);
    if (!reducing_.aligned(theirs, part)) {
      theirs = static_cast<const std::byte*>(std::memcpy(scratch(2, bytes), theirs, bytes));
    }
    const std::byte* mine = reducing_.contribution(part);
    Combine combine = combine_function(reducing_.calls().front().inputs[run.leaf].dtype, reducing_.spec().reduction);
    bool first = reducing_.plan().home == 0;
    combine(reducing_.target(part), first ? mine : theirs, first ? theirs : mine, count);
    done_ += count;
    if (done_ == run.count) ++run_, done_ = 0;
  }

  Reducing& reducing_;
  const Chunk& chunk_;
  std::size_t run_ = 0, done_ = 0;  // elements of the run
  std::size_t held_ = 0;
  alignas(16) std::byte element_[16];
};

void Reducing::fold_while_arriving(std::size_t index) {
  auto folding = std::make_shared<Folding>(*this, chunks_[index]);
  receive(
      1 - plan().home, tag(0, static_cast<std::uint32_t>(index)), chunks_[index].bytes,
      [folding](Piece part) { folding->take(part); }, [this, index] { reduced(index); });
}

void Reducing::collect(std::size_t slot_index, std::size_t own) {
  Slot& slot = *slots_[slot_index];
  std::size_t index = own_[own], bytes = chunks_[index].bytes;
  int sites = static_cast<int>(plan().sites.size());
  slot.missing = sites - 1;
  std::byte* to = slot.data.get();
  for (int s = 0; s < sites; ++s) {
    if (s == plan().home) continue;
    slot.parts[s] = to;
    to += bytes;
  }
  for (int s = 0; s < sites; ++s) {
    if (s == plan().home) continue;
    auto* part = const_cast<std::byte*>(slot.parts[s]);
    receive(s, tag(0, static_cast<std::uint32_t>(index)), {{part, bytes}},
            [this, &slot, slot_index, own, index, bytes] {
              if (--slot.missing > 0) return;
              work(bytes, [this, &slot, slot_index, own, index] {
                fold(chunks_[index], slot.parts);
                reduced(index);
                if (own + kWindow < own_.size()) collect(slot_index, own + kWindow);
              });
            });
  }
}

void Reducing::contribute_to(int site, std::size_t outgoing) {
  std::size_t index = outgoing_[site][outgoing];
  const Chunk& chunk = chunks_[index];
  auto next = [this, site, outgoing] {
    if (outgoing + kWindow < outgoing_[site].size()) contribute_to(site, outgoing + kWindow);
  };
  auto in_place = contribution_in_place(chunk);
  if (!in_place.empty()) {
    send(site, tag(0, static_cast<std::uint32_t>(index)), std::move(in_place), next);
    return;
  }
  work(chunk.bytes, [this, site, index, next] {
    const Chunk& chunk = chunks_[index];
    std::shared_ptr<std::byte[]> packed(new std::byte[chunk.bytes]);
    contribute(chunk, packed.get());
    send(site, tag(0, static_cast<std::uint32_t>(index)), {{packed.get(), chunk.bytes}}, [packed, next] { next(); });
  });
}

std::vector<Chunk> cut(const std::vector<OutBuffer>& leaves, int sites, std::size_t chunk_bytes) {
  std::size_t total = 0;
  for (const OutBuffer& leaf : leaves) total += leaf.bytes;
  auto boundary = [&](int site) { return total / sites * site + total % sites * site / sites; };
  std::vector<Chunk> chunks;
  std::size_t at = 0;  // in the leaves laid end to end
  int site = 0;
  auto fresh = [&] {
    while (site + 1 < sites && at >= boundary(site + 1)) ++site;
    chunks.push_back({.site = site});
  };
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    std::size_t item = itemsize(leaves[k].dtype), first = 0;
    while (first < leaves[k].count) {
      if (chunks.empty() || chunks.back().bytes >= chunk_bytes || at >= boundary(chunks.back().site + 1)) fresh();
      Chunk& chunk = chunks.back();
      std::size_t room = std::min(chunk_bytes - chunk.bytes, boundary(chunk.site + 1) - at);
      std::size_t count = std::max<std::size_t>(1, room / item), line = std::max<std::size_t>(1, 64 / item);
      if (count > line) count -= count % line;
      count = std::min(count, leaves[k].count - first);
      chunk.runs.push_back({.leaf = static_cast<int>(k), .first = first, .count = count});
      chunk.bytes += count * item;
      at += count * item;
      first += count;
    }
  }
  return chunks;
}

}  // namespace lockstep::collectives

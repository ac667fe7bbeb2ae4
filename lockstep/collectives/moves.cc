// The collectives that only move whole buffers: nothing is computed, and every byte goes straight from the sender's
// buffer to the receiver's.
//
// all_to_all: one message from each site to each other, with the operands of all its members for all of the other's.
// collective_broadcast: the root's site sends to every other site; local members copy from the first of them.
// collective_permute: a partition meets nobody but its source and its target, one message each; local pairs too,
// through the exchange, so that a partition never waits for the others of its process.
#include "lockstep/collectives/meeting.h"

namespace lockstep::collectives {
namespace {

class AllToAll final : public Meeting {
 public:
  using Meeting::Meeting;

 private:
  void check() const override {
    check_like(1, 1);
    if (calls().front().inputs.size() != plan().members.size()) {
      reject(ErrorCode::invalid_argument, fmt::format("a group of {} needs as many operands, not {}",
                                                      plan().members.size(), calls().front().inputs.size()));
    }
  }

  void run() override {
    int sites = static_cast<int>(plan().sites.size());
    for (int i = 1; i < sites; ++i) {
      int site = (plan().home + i) % sites;
      std::vector<Piece> out;
      std::vector<MutablePiece> in;
      for (const Call& call : local_calls()) {
        for (int to : plan().sites[site].positions) out.push_back(piece(call.inputs[to].data, call.inputs[to].bytes));
      }
      for (int from : plan().sites[site].positions) {
        for (Call& call : local_calls()) in.push_back(mutable_piece(call.outputs[from].data, call.outputs[from].bytes));
      }
      send(site, tag(0, 0), std::move(out));
      receive(site, tag(0, 0), std::move(in), {});
    }
    for (const Call& from : local_calls()) {
      for (Call& to : local_calls()) {
        const InBuffer& input = from.inputs[to.position];
        copy(to.outputs[from.position].data, input.data, input.bytes);
      }
    }
  }
};

class Broadcast final : public Meeting {
 public:
  using Meeting::Meeting;

 private:
  void check() const override { check_like(1, 1); }

  void run() override {
    if (plan().home != 0) {
      std::vector<MutablePiece> pieces;
      for (OutBuffer& output : local_calls().front().outputs)
        pieces.push_back(mutable_piece(output.data, output.bytes));
      receive(0, tag(0, 0), std::move(pieces), [this] {
        for (std::size_t k = 0; k < local_calls().front().outputs.size(); ++k) {
          const OutBuffer& from = local_calls().front().outputs[k];
          for (std::size_t i = 1; i < local_calls().size(); ++i) {
            copy(local_calls()[i].outputs[k].data, from.data, from.bytes);
          }
        }
      });
      return;
    }
    const auto& root = call_at(0).inputs;
    std::vector<Piece> pieces;
    for (const InBuffer& input : root) pieces.push_back(piece(input.data, input.bytes));
    for (std::size_t site = 1; site < plan().sites.size(); ++site) send(static_cast<int>(site), tag(0, 0), pieces);
    for (Call& call : local_calls()) {
      for (std::size_t k = 0; k < root.size(); ++k) copy(call.outputs[k].data, root[k].data, root[k].bytes);
    }
  }
};

class Permute final : public Meeting {
 public:
  using Meeting::Meeting;

 private:
  void check() const override { check_like(1, 1); }

  void run() override {
    Call& call = local_calls().front();
    Route r = route(spec(), call.partition);
    std::vector<Piece> inputs;
    std::vector<MutablePiece> outputs;
    for (const InBuffer& input : call.inputs) inputs.push_back(piece(input.data, input.bytes));
    for (OutBuffer& output : call.outputs) outputs.push_back(mutable_piece(output.data, output.bytes));
    if (r.source == call.partition) {
      for (std::size_t k = 0; k < inputs.size(); ++k) copy(outputs[k].data(), inputs[k].data(), inputs[k].size());
      if (r.target == call.partition) return;
    } else if (r.source < 0) {
      for (MutablePiece output : outputs) {
        work(output.size(), [output] { std::fill(output.begin(), output.end(), std::byte{0}); });
      }
    } else {
      move(r.source, call.partition, outputs.empty() ? 0 : total_bytes(std::span<const MutablePiece>(outputs)),
           [this, outputs](int site, const Tag& tag) { receive(site, tag, outputs, {}); });
    }
    if (r.target >= 0 && r.target != call.partition) {
      move(call.partition, r.target, total_bytes(std::span<const Piece>(inputs)),
           [this, inputs](int site, const Tag& tag) { send(site, tag, inputs); });
    }
  }

  // The peer's site and the message's tag; a worker does it if a large copy between local partitions may follow.
  void move(std::int64_t source, std::int64_t target, std::size_t bytes, std::function<void(int, const Tag&)> start) {
    std::int64_t other = source == local_calls().front().partition ? target : source;
    Tag tag = this->tag(0, 0);
    tag.group = static_cast<std::uint32_t>(source);
    tag.item = static_cast<std::uint32_t>(target);
    for (std::size_t s = 0; s < plan().sites.size(); ++s) {
      for (int position : plan().sites[s].positions) {
        if (plan().members[position] != other) continue;
        int site = static_cast<int>(s);
        if (site == plan().home) {
          work(bytes, [start, site, tag] { start(site, tag); });
        } else {
          start(site, tag);
        }
      }
    }
  }
};

}  // namespace

std::shared_ptr<Meeting> make_all_to_all(MeetingInit init) { return std::make_shared<AllToAll>(std::move(init)); }
std::shared_ptr<Meeting> make_broadcast(MeetingInit init) { return std::make_shared<Broadcast>(std::move(init)); }
std::shared_ptr<Meeting> make_permute(MeetingInit init) { return std::make_shared<Permute>(std::move(init)); }

}  // namespace lockstep::collectives

// all_gather: every site sends its members' inputs, member after member and leaf after leaf, to every other site in one
// message. In memory an input is `outer` blocks; block x of member m is block x * G + m of the result, for a group of
// G. Messages land in the first local member's outputs directly if that takes few pieces, else they are unpacked. The
// other local members' outputs are copied from it.
#include <atomic>
#include <cstring>

#include "lockstep/collectives/meeting.h"

namespace lockstep::collectives {
namespace {

constexpr std::size_t kMaxPieces = 256;  // per message that lands directly

class AllGather final : public Meeting {
 public:
  using Meeting::Meeting;

 private:
  void check() const override {
    check_like(plan().members.size(), 1);
    const Call& call = calls().front();
    if (spec().outer.size() != call.outputs.size()) {
      reject(ErrorCode::invalid_argument,
             fmt::format("`outer` has {} entries for {} results", spec().outer.size(), call.outputs.size()));
    }
    for (std::size_t k = 0; k < call.inputs.size(); ++k) {
      if (call.inputs[k].count > 0 && (spec().outer[k] <= 0 || call.inputs[k].count % spec().outer[k] != 0)) {
        reject(ErrorCode::shape, fmt::format("input {} of {} elements does not divide into {} blocks", k,
                                             call.inputs[k].count, spec().outer[k]));
      }
    }
  }

  void run() override {
    int sites = static_cast<int>(plan().sites.size());
    missing_ = sites;  // the last one is this site's own
    std::vector<Piece> mine;
    for (const Call& call : local_calls()) {
      for (const InBuffer& input : call.inputs) mine.push_back(piece(input.data, input.bytes));
    }
    for (int i = 1; i < sites; ++i) {
      int site = (plan().home + i) % sites;
      send(site, tag(0, 0), mine);
      receive_from(site);
    }
    work(total_bytes(std::span<const Piece>(mine)), [this] {
      for (const Call& call : local_calls()) {
        for (std::size_t k = 0; k < call.inputs.size(); ++k) {
          place(k, call.position, static_cast<const std::byte*>(call.inputs[k].data));
        }
      }
      one_is_here();
    });
  }

  void receive_from(int site) {
    const auto& positions = plan().sites[site].positions;
    const auto& inputs = local_calls().front().inputs;
    std::size_t bytes = 0, blocks = 0;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      bytes += inputs[k].bytes * positions.size();
      if (inputs[k].bytes > 0) blocks += spec().outer[k] * positions.size();
    }
    if (blocks <= kMaxPieces) {
      std::vector<MutablePiece> pieces;
      for (int position : positions) {
        for (std::size_t k = 0; k < inputs.size(); ++k) {
          for (std::int64_t x = 0; inputs[k].bytes > 0 && x < spec().outer[k]; ++x) {
            pieces.emplace_back(block_at(k, position, x), block_bytes(k));
          }
        }
      }
      receive(site, tag(0, 0), std::move(pieces), [this] { one_is_here(); });
      return;
    }
    std::shared_ptr<std::byte[]> packed(new std::byte[bytes]);
    receive(site, tag(0, 0), {{packed.get(), bytes}}, [this, site, packed, bytes] {
      work(bytes, [this, site, packed] {
        const std::byte* from = packed.get();
        for (int position : plan().sites[site].positions) {
          for (std::size_t k = 0; k < local_calls().front().inputs.size(); ++k) {
            place(k, position, from);
            from += local_calls().front().inputs[k].bytes;
          }
        }
        one_is_here();
      });
    });
  }

  std::size_t block_bytes(std::size_t leaf) const {
    return calls().front().inputs[leaf].bytes / static_cast<std::size_t>(spec().outer[leaf]);
  }
  std::byte* block_at(std::size_t leaf, int position, std::int64_t x) {
    auto* result = static_cast<std::byte*>(local_calls().front().outputs[leaf].data);
    return result + (x * plan().members.size() + position) * block_bytes(leaf);
  }
  void place(std::size_t leaf, int position, const std::byte* input) {
    if (local_calls().front().inputs[leaf].bytes == 0) return;
    std::size_t n = block_bytes(leaf);
    for (std::int64_t x = 0; n > 0 && x < spec().outer[leaf]; ++x)
      std::memcpy(block_at(leaf, position, x), input + x * n, n);
  }
  void one_is_here() {
    if (--missing_ > 0) return;
    const auto& complete = local_calls().front().outputs;
    for (std::size_t i = 1; i < local_calls().size(); ++i) {
      for (std::size_t k = 0; k < complete.size(); ++k) {
        copy(local_calls()[i].outputs[k].data, complete[k].data, complete[k].bytes);
      }
    }
  }

  std::atomic<int> missing_{0};
};

}  // namespace

std::shared_ptr<Meeting> make_all_gather(MeetingInit init) { return std::make_shared<AllGather>(std::move(init)); }

}  // namespace lockstep::collectives

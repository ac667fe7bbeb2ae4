// reduce_scatter: a site owns the results of its members; they are cut into chunks and reduced as described in
// reducing.h. In memory a result is `outer` blocks, each of which lies in the input among the blocks of the other
// members: block x of member j is block x * G + j of the input, for a group of G.
#include <algorithm>
#include <cstring>

#include "lockstep/collectives/reducing.h"

namespace lockstep::collectives {
namespace {

class ReduceScatter final : public Reducing {
 public:
  using Reducing::Reducing;

 private:
  void check() const override {
    check_like(1, plan().members.size());
    check_reduction();
    const Call& call = calls().front();
    if (spec().outer.size() != call.outputs.size()) {
      reject(ErrorCode::invalid_argument,
             fmt::format("`outer` has {} entries for {} results", spec().outer.size(), call.outputs.size()));
    }
    for (std::size_t k = 0; k < call.outputs.size(); ++k) {
      if (call.outputs[k].count > 0 && (spec().outer[k] <= 0 || call.outputs[k].count % spec().outer[k] != 0)) {
        reject(ErrorCode::shape, fmt::format("result {} of {} elements does not divide into {} blocks", k,
                                             call.outputs[k].count, spec().outer[k]));
      }
    }
  }

  void run() override {
    std::vector<Chunk> chunks;
    const auto& leaves = local_calls().front().outputs;
    for (std::size_t s = 0; s < plan().sites.size(); ++s) {
      Chunk whole;  // small results of a site travel in one chunk
      for (int position : plan().sites[s].positions) {
        for (Chunk& part : cut(leaves, 1, host().options().chunk_bytes)) {
          for (Run& run : part.runs) run.position = position;
          part.site = static_cast<int>(s);
          if (whole.bytes > 0 && whole.bytes + part.bytes > host().options().chunk_bytes) {
            chunks.push_back(std::exchange(whole, {}));
          }
          whole.site = part.site;
          whole.bytes += part.bytes;
          whole.runs.insert(whole.runs.end(), part.runs.begin(), part.runs.end());
        }
      }
      if (whole.bytes > 0) chunks.push_back(std::move(whole));
    }
    reduce(std::move(chunks));
  }

  std::size_t block(int leaf) const { return calls().front().outputs[leaf].count / spec().outer[leaf]; }

  bool contiguous(const Run& run) const override {
    std::size_t n = block(run.leaf);
    return run.first / n == (run.first + run.count - 1) / n;
  }

  const std::byte* source(const Call& call, const Run& run, std::byte* scratch) const override {
    const InBuffer& input = call.inputs[run.leaf];
    std::size_t item = itemsize(input.dtype), n = block(run.leaf), group = plan().members.size();
    auto* data = static_cast<const std::byte*>(input.data);
    auto at = [&](std::size_t e) { return data + ((e / n * group + run.position) * n + e % n) * item; };
    if (contiguous(run)) return at(run.first);
    std::byte* to = scratch;
    for (std::size_t e = run.first, end = run.first + run.count; e < end;) {
      std::size_t count = std::min(n - e % n, end - e);
      if (count > 0) std::memcpy(to, at(e), count * item);
      to += count * item;
      e += count;
    }
    return scratch;
  }

  std::byte* target(const Run& run) override {
    OutBuffer& output = call_at(run.position).outputs[run.leaf];
    return static_cast<std::byte*>(output.data) + run.first * itemsize(output.dtype);
  }
  void reduced(std::size_t) override {}
};

}  // namespace

std::shared_ptr<Meeting> make_reduce_scatter(MeetingInit init) {
  return std::make_shared<ReduceScatter>(std::move(init));
}

}  // namespace lockstep::collectives

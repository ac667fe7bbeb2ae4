// ragged_all_to_all: member i sends rows [input_offsets[j], + send_sizes[j]) of its operand to member j, which puts
// them at row output_offsets[j], as the sender says. With u updates per member, entries j * u ... j * u + u - 1 are
// member j's.
//
// Two messages from each member to each other: where the rows go and how many they are, then the rows, which land in
// the output directly. The receiver knows from recv_sizes how many will come. Rows that nobody writes keep operand 1's
// value.
#include <cstring>

#include "lockstep/collectives/meeting.h"

namespace lockstep::collectives {
namespace {

enum Operand { kData, kInitial, kInputOffsets, kSendSizes, kOutputOffsets, kReceiveSizes, kOperands };
enum Chunk : std::uint32_t { kPlaces, kRows };

struct Place {
  std::int64_t row, rows;
};

std::int64_t number(const InBuffer& buffer, std::size_t i) {
  if (buffer.dtype == DType::int64) return static_cast<const std::int64_t*>(buffer.data)[i];
  return static_cast<const std::int32_t*>(buffer.data)[i];
}

class RaggedAllToAll final : public Meeting {
 public:
  using Meeting::Meeting;

 private:
  std::size_t members() const { return plan().members.size(); }
  std::size_t updates() const { return calls().front().inputs[kSendSizes].count / members(); }
  std::size_t row_bytes(const Call& call) const {
    if (call.rows_out > 0) return call.outputs[0].bytes / call.rows_out;
    return call.rows_in > 0 ? call.inputs[kData].bytes / call.rows_in : 0;
  }

  void check() const override {
    for (const Call& call : calls()) {
      if (call.inputs.size() != kOperands || call.outputs.size() != 1) {
        reject(ErrorCode::invalid_argument, fmt::format("six operands and one result are needed, not {} and {}",
                                                        call.inputs.size(), call.outputs.size()));
      }
      const OutBuffer& out = call.outputs[0];
      if (call.inputs[kInitial].bytes != out.bytes || call.inputs[kData].dtype != out.dtype ||
          call.inputs[kInitial].dtype != out.dtype) {
        reject(ErrorCode::shape, "the operand, the initial value and the result do not fit each other");
      }
      if (call.rows_in > 0 && call.rows_out > 0 && call.inputs[kData].bytes / call.rows_in != row_bytes(call)) {
        reject(ErrorCode::shape, "the operand's rows are not of the result's size");
      }
      for (int k = kInputOffsets; k < kOperands; ++k) {
        const InBuffer& in = call.inputs[k];
        if ((in.dtype != DType::int32 && in.dtype != DType::int64) || in.count % members() != 0 ||
            in.count != calls().front().inputs[kSendSizes].count) {
          reject(ErrorCode::shape, fmt::format("operand {} must hold the same number of s32 or s64 for each of the {} "
                                               "members, not {} {}",
                                               k, members(), in.count, short_name(in.dtype)));
        }
      }
    }
    for (const Call& call : calls()) {
      for (std::size_t i = 0; i < updates() * members(); ++i) {
        check_range(call, "the operand", number(call.inputs[kInputOffsets], i), number(call.inputs[kSendSizes], i),
                    call.rows_in);
      }
    }
  }

  void check_range(const Call& call, const char* what, std::int64_t row, std::int64_t rows, std::int64_t limit) const {
    if (row >= 0 && rows >= 0 && row <= limit && rows <= limit - row) return;
    reject(ErrorCode::shape, fmt::format("partition {}: {} rows from row {} are not within {}, which has {}",
                                         call.partition, rows, row, what, limit));
  }

  void run() override {
    for (Call& call : local_calls()) {
      // The rows follow the initial value.
      work(call.outputs[0].bytes, [this, &call] {
        if (call.outputs[0].bytes > 0)
          std::memcpy(call.outputs[0].data, call.inputs[kInitial].data, call.outputs[0].bytes);
        for (std::size_t s = 0; s < plan().sites.size(); ++s) {
          for (int from : plan().sites[s].positions) receive_from(call, static_cast<int>(s), from);
        }
      });
      for (std::size_t s = 0; s < plan().sites.size(); ++s) {
        for (int to : plan().sites[s].positions) send_to(call, static_cast<int>(s), to);
      }
    }
  }

  Tag pair_tag(int from, int to, std::uint32_t chunk) const {
    return tag(static_cast<std::uint32_t>(from * members() + to), chunk);
  }

  void send_to(const Call& call, int site, int to) {
    auto places = std::make_shared<std::vector<Place>>();
    std::vector<Piece> rows;
    for (std::size_t u = 0; u < updates(); ++u) {
      std::size_t i = to * updates() + u;
      std::int64_t count = number(call.inputs[kSendSizes], i);
      places->push_back({number(call.inputs[kOutputOffsets], i), count});
      auto* data = static_cast<const std::byte*>(call.inputs[kData].data);
      rows.emplace_back(data + number(call.inputs[kInputOffsets], i) * row_bytes(call), count * row_bytes(call));
    }
    send(site, pair_tag(call.position, to, kPlaces), {std::as_bytes(std::span<const Place>(*places))}, [places] {});
    send(site, pair_tag(call.position, to, kRows), std::move(rows));
  }

  void receive_from(Call& call, int site, int from) {
    auto places = std::make_shared<std::vector<Place>>(updates());
    receive(site, pair_tag(from, call.position, kPlaces), {std::as_writable_bytes(std::span(*places))},
            [this, &call, site, from, places] {
              std::vector<MutablePiece> rows;
              auto* data = static_cast<std::byte*>(call.outputs[0].data);
              for (std::size_t u = 0; u < places->size(); ++u) {
                auto [row, count] = (*places)[u];
                check_range(call, "the result", row, count, call.rows_out);
                std::int64_t expected = number(call.inputs[kReceiveSizes], from * updates() + u);
                if (count != expected) {
                  reject(ErrorCode::shape, fmt::format("partition {} expects {} rows from partition {}, which sends {}",
                                                       call.partition, expected, plan().members[from], count));
                }
                rows.emplace_back(data + row * row_bytes(call), count * row_bytes(call));
              }
              receive(site, pair_tag(from, call.position, kRows), std::move(rows), {});
            });
  }
};

}  // namespace

std::shared_ptr<Meeting> make_ragged_all_to_all(MeetingInit init) {
  return std::make_shared<RaggedAllToAll>(std::move(init));
}

}  // namespace lockstep::collectives

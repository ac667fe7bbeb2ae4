#include "lockstep/collectives/transport.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace lockstep::collectives {
namespace {

template <class P>
std::vector<P> slice_any(std::span<const P> pieces, std::size_t offset, std::size_t length) {
  std::vector<P> result;
  for (const P& piece : pieces) {
    if (length == 0) break;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    std::size_t n = std::min(length, piece.size() - offset);
    result.push_back(piece.subspan(offset, n));
    offset = 0;
    length -= n;
  }
  LS_CHECK(length == 0, "slice past the end of the pieces");
  return result;
}

template <class P>
std::size_t total_any(std::span<const P> pieces) {
  std::size_t n = 0;
  for (const P& piece : pieces) n += piece.size();
  return n;
}

}  // namespace

std::vector<int> everybody(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::size_t total_bytes(std::span<const Piece> pieces) { return total_any(pieces); }
std::size_t total_bytes(std::span<const MutablePiece> pieces) { return total_any(pieces); }
std::vector<Piece> slice(std::span<const Piece> pieces, std::size_t offset, std::size_t length) {
  return slice_any(pieces, offset, length);
}
std::vector<MutablePiece> slice(std::span<const MutablePiece> pieces, std::size_t offset, std::size_t length) {
  return slice_any(pieces, offset, length);
}

void copy_pieces(std::span<const MutablePiece> to, std::span<const Piece> from) {
  std::size_t i = 0, used = 0;
  for (Piece source : from) {
    while (!source.empty()) {
      while (i < to.size() && used == to[i].size()) ++i, used = 0;
      LS_CHECK(i < to.size(), "the destination is smaller than the source");
      std::size_t n = std::min(source.size(), to[i].size() - used);
      std::memcpy(to[i].data() + used, source.data(), n);
      used += n;
      source = source.subspan(n);
    }
  }
}

}  // namespace lockstep::collectives

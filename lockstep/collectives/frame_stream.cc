#include "lockstep/collectives/frame_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep::collectives {
namespace {

constexpr std::size_t kMaxVectors = 64;

}  // namespace

void notify(Notices& notices, bool sent) {
  for (auto& notice : notices) {
    if (notice) notice(sent);
  }
}

void FrameWriter::push(OutgoingFrame frame) { (frame.urgent ? urgent_ : bulk_).push_back(std::move(frame)); }

FrameWriter::Progress FrameWriter::write_some(const Write& write, std::size_t budget, bool urgent_only,
                                              Notices& written) {
  while (budget > 0) {
    if (!writing_) {
      auto& queue = urgent_.empty() ? bulk_ : urgent_;
      if (queue.empty() || (urgent_only && &queue == &bulk_)) return Progress::done;
      writing_.emplace(std::move(queue.front()));
      queue.pop_front();
    }
    Writing& w = *writing_;
    iovec vectors[kMaxVectors];
    std::size_t count = 0, offered = 0, skip = w.written;
    auto offer = [&](const std::byte* data, std::size_t size) {
      std::size_t skipped = std::min(skip, size);
      skip -= skipped;
      size = std::min(size - skipped, budget - offered);
      if (size == 0 || count == kMaxVectors) return;
      vectors[count++] = {const_cast<std::byte*>(data + skipped), size};
      offered += size;
    };
    offer(reinterpret_cast<const std::byte*>(&w.frame.header), sizeof(FrameHeader));
    for (std::size_t i = 0; i < w.frame.pieces.size() && count < kMaxVectors; ++i) {
      offer(w.frame.pieces[i].data(), w.frame.pieces[i].size());
    }
    ssize_t n = write(vectors, static_cast<int>(count));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? Progress::waiting : Progress::broken;
    w.written += static_cast<std::size_t>(n);
    budget -= static_cast<std::size_t>(n);
    if (w.written == sizeof(FrameHeader) + w.frame.header.length) {
      if (w.frame.sent) written.push_back(std::move(w.frame.sent));
      writing_.reset();
    }
  }
  return Progress::waiting;
}

void FrameWriter::revoke(std::uint64_t lease, Notices& dropped) {
  for (auto* queue : {&urgent_, &bulk_}) {
    for (OutgoingFrame& frame : *queue) {
      if (frame.lease == lease) dropped.push_back(std::move(frame.sent));
    }
    std::erase_if(*queue, [&](const OutgoingFrame& frame) { return frame.lease == lease; });
  }
  if (!writing_ || writing_->frame.lease != lease) return;
  Writing& w = *writing_;
  dropped.push_back(std::exchange(w.frame.sent, nullptr));
  w.copy.resize(w.frame.header.length);
  MutablePiece copy(w.copy);
  copy_pieces(std::span(&copy, 1), w.frame.pieces);
  w.frame.pieces = {Piece(w.copy)};
  w.frame.lease = 0;
}

void FrameWriter::clear(Notices& dropped) {
  if (writing_) dropped.push_back(std::move(writing_->frame.sent));
  writing_.reset();
  for (auto* queue : {&urgent_, &bulk_}) {
    for (OutgoingFrame& frame : *queue) dropped.push_back(std::move(frame.sent));
    queue->clear();
  }
}

void FrameReader::feed(Piece bytes) {
  for (;;) {
    if (!in_payload_) {
      std::size_t n = std::min(sizeof(FrameHeader) - header_bytes_, bytes.size());
      if (n > 0) std::memcpy(reinterpret_cast<std::byte*>(&header_) + header_bytes_, bytes.data(), n);
      header_bytes_ += n;
      bytes = bytes.subspan(n);
      if (header_bytes_ < sizeof(FrameHeader)) return;
      std::lock_guard lock(mutex_);
      landing_ = receiver_->landing(peer_, header_);
      landed_ = piece_ = used_ = 0;
      in_payload_ = true;
    }
    std::uint64_t token;
    {
      std::lock_guard lock(mutex_);
      place(bytes);
      if (landed_ < header_.length) return;
      in_payload_ = false;
      header_bytes_ = 0;
      token = landing_.token;
      landing_ = {};
    }
    FrameHeader header = header_;
    receiver_->landed(peer_, header, token);
  }
}

void FrameReader::place(Piece& bytes) {
  Piece part = bytes.first(std::min<std::size_t>(bytes.size(), header_.length - landed_));
  bytes = bytes.subspan(part.size());
  landed_ += part.size();
  if (landing_.sink && !part.empty()) {
    landing_.sink(part);
    return;
  }
  while (!part.empty() && piece_ < landing_.pieces.size()) {
    MutablePiece to = landing_.pieces[piece_].subspan(used_);
    std::size_t n = std::min(part.size(), to.size());
    if (n > 0) std::memcpy(to.data(), part.data(), n);
    part = part.subspan(n);
    used_ += n;
    if (n == to.size()) ++piece_, used_ = 0;
  }
}

std::size_t FrameReader::direct() const {
  std::lock_guard lock(mutex_);
  return in_payload_ && !landing_.pieces.empty() ? header_.length - landed_ : 0;
}

ssize_t FrameReader::read_direct(const std::function<ssize_t(const iovec*, int)>& read) {
  std::lock_guard lock(mutex_);
  iovec vectors[kMaxVectors];
  std::size_t count = 0, used = used_;
  for (std::size_t i = piece_; i < landing_.pieces.size() && count < kMaxVectors; ++i, used = 0) {
    MutablePiece to = landing_.pieces[i].subspan(used);
    if (!to.empty()) vectors[count++] = {to.data(), to.size()};
  }
  if (count == 0) {  // revoked a moment ago
    errno = EINTR;
    return -1;
  }
  ssize_t n = read(vectors, static_cast<int>(count));
  for (std::size_t done = n > 0 ? static_cast<std::size_t>(n) : 0; done > 0;) {
    std::size_t part = std::min(done, landing_.pieces[piece_].size() - used_);
    used_ += part;
    landed_ += part;
    done -= part;
    if (used_ == landing_.pieces[piece_].size()) ++piece_, used_ = 0;
  }
  return n;
}

void FrameReader::revoke(std::uint64_t lease) {
  std::lock_guard lock(mutex_);
  if (!in_payload_ || landing_.lease != lease) return;
  landing_.pieces.clear();
  landing_.sink = nullptr;
}

void FrameReader::reset() {
  std::lock_guard lock(mutex_);
  in_payload_ = false;
  landing_ = {};
}

}  // namespace lockstep::collectives

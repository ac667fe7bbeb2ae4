#include "tools/output.h"

#include <unistd.h>

#include <cerrno>

namespace lockstep::tools {

bool Sink::write(std::string_view text) {
  while (!text.empty() && !broken_) {
    ssize_t n = ::write(fd_, text.data(), text.size());
    if (n >= 0)
      text.remove_prefix(static_cast<std::size_t>(n));
    else if (errno != EINTR)
      broken_ = true;
  }
  return !broken_;
}

void LineStream::emit(std::string_view text, bool whole) {
  std::string out;
  if (sink_.open_ != nullptr && sink_.open_ != this) {
    out += '\n';
    sink_.open_ = nullptr;
  }
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end == std::string_view::npos ? text.size() : end + 1);
    if (sink_.open_ != this) out += prefix_;
    out += line;
    sink_.open_ = line.back() == '\n' ? nullptr : this;
    text.remove_prefix(line.size());
  }
  if (whole && sink_.open_ == this) {
    out += '\n';
    sink_.open_ = nullptr;
  }
  sink_.write(out);
}

void LineStream::add(std::string_view bytes) {
  constexpr std::size_t longest_line = 1 << 16;
  pending_ += bytes;
  std::size_t end = pending_.rfind('\n');
  if (end != std::string::npos) {
    emit(std::string_view(pending_).substr(0, end + 1), false);
    pending_.erase(0, end + 1);
  }
  if (pending_.size() > longest_line) flush_partial();
}

void LineStream::flush_partial() {
  if (pending_.empty()) return;
  emit(pending_, false);
  pending_.clear();
}

void LineStream::close() {
  if (!pending_.empty() || sink_.open_ == this) emit(pending_, true);
  pending_.clear();
}

}  // namespace lockstep::tools

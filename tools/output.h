// Lines of several processes on one stream, each whole and with its prefix.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::tools {

// Where lines go: the launcher's standard output or error. Remembers whose unfinished line stands there.
class Sink {
 public:
  explicit Sink(int fd) : fd_(fd) {}
  // False once writing has failed (the reader has gone).
  bool write(std::string_view text);
  bool broken() const { return broken_; }

 private:
  friend class LineStream;
  int fd_;
  bool broken_ = false;
  const void* open_ = nullptr;  // the stream whose unfinished line was written
};

// One stream of one process. Complete lines are passed on at once; an unfinished one (a prompt, a progress display)
// when `flush_partial` is called, and is then carried on without a new prefix as long as no other stream has written.
class LineStream {
 public:
  LineStream(Sink& sink, std::string prefix) : sink_(sink), prefix_(std::move(prefix)) {}
  void add(std::string_view bytes);
  void flush_partial();
  void close();  // ends an unfinished line
  bool partial() const { return !pending_.empty(); }

 private:
  void emit(std::string_view text, bool whole);

  Sink& sink_;
  std::string prefix_, pending_;
};

}  // namespace lockstep::tools

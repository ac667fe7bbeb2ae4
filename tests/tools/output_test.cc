#include "tools/output.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace lockstep::tools {
namespace {

class OutputTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe(pipe_), 0); }
  void TearDown() override { ::close(pipe_[0]); }
  std::string written() {
    ::close(pipe_[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = ::read(pipe_[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
    return text;
  }
  int pipe_[2];
};

TEST_F(OutputTest, LinesAreWholeWhateverThePieces) {
  Sink sink(pipe_[1]);
  LineStream a(sink, "[0] "), b(sink, "[1] ");
  a.add("one\ntw");
  b.add("eins\n");
  a.add("o\n\nthree\n");
  EXPECT_EQ(written(), "[0] one\n[1] eins\n[0] two\n[0] \n[0] three\n");
}

TEST_F(OutputTest, AnUnfinishedLineIsCarriedOnUnlessAnotherStreamWrites) {
  Sink sink(pipe_[1]);
  LineStream a(sink, "[0] "), b(sink, "[1] ");
  a.add("name? ");
  a.flush_partial();
  a.add("Ada\n");
  a.add("50%");
  a.flush_partial();
  b.add("hello\n");
  a.add(" 100%\n");
  EXPECT_EQ(written(), "[0] name? Ada\n[0] 50%\n[1] hello\n[0]  100%\n");
}

TEST_F(OutputTest, ClosingEndsAnUnfinishedLine) {
  Sink sink(pipe_[1]);
  LineStream a(sink, "[0] "), b(sink, "[1] ");
  a.add("last words");
  a.close();
  b.add("x");
  b.flush_partial();
  b.close();
  b.close();
  EXPECT_EQ(written(), "[0] last words\n[1] x\n");
}

TEST_F(OutputTest, AReaderThatHasGoneIsNoticed) {
  ::signal(SIGPIPE, SIG_IGN);
  Sink sink(pipe_[1]);
  LineStream a(sink, "");
  ::close(pipe_[0]);
  pipe_[0] = -1;
  a.add("line\n");
  EXPECT_TRUE(sink.broken());
  ::close(pipe_[1]);
}

}  // namespace
}  // namespace lockstep::tools

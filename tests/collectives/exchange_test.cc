// What peers may say without having been asked is bounded.
#include "lockstep/collectives/exchange.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep::collectives {
namespace {

// Two processes, of which the other is played by the test.
struct Wire final : Transport {
  Receiver* receiver = nullptr;
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string peer_name(int peer) const override { return "process " + std::to_string(peer); }
  bool reaches(int peer) const override { return peer != rank(); }
  void start(Receiver* to) override { receiver = to; }
  void send(int, OutgoingFrame) override {}
  void revoke(std::uint64_t) override {}
  void abort(const Error&) override {}
  void close(TimePoint) override {}
};
struct Log final : Exchange::Events {
  std::set<std::uint64_t> diverged;
  void on_control(int, const FrameHeader&, const std::string&) override {}
  void on_lost(int, const Error&) override {}
  void on_diverged(int, std::uint64_t communicator) override { diverged.insert(communicator); }
};

TEST(Exchange, ALaunchOnACommunicatorNotYetKnownIsRememberedWithinBounds) {
  auto wire = std::make_unique<Wire>();
  Wire& other = *wire;
  Log log;
  Exchange exchange(std::move(wire), {}, &log);
  exchange.start();
  auto launches = [&](std::uint64_t communicator, std::uint64_t program) {
    FrameHeader header;
    header.tag.communicator = communicator;
    header.launched = 1;
    header.program = program;
    other.receiver->landing(1, header);
    other.receiver->landed(1, header, 0);
  };
  for (std::uint64_t communicator = 1; communicator <= 100000; ++communicator) launches(communicator, 7);
  auto begin = [&](std::uint64_t communicator, std::uint64_t program) {
    exchange.begin_launch(communicator, {program, nullptr, 0});
  };
  begin(1, 7);
  EXPECT_TRUE(log.diverged.empty());
  begin(2, 8);
  EXPECT_EQ(log.diverged, (std::set<std::uint64_t>{2}));
  begin(99999, 8);  // nothing was kept of it; its next frame tells
  EXPECT_EQ(log.diverged, (std::set<std::uint64_t>{2}));
  launches(99999, 7);
  EXPECT_EQ(log.diverged, (std::set<std::uint64_t>{2, 99999}));
  // Those that were given up make room.
  exchange.forget_launches(2);
  for (std::uint64_t communicator = 3; communicator <= 300; ++communicator) exchange.forget_launches(communicator);
  launches(200001, 7);
  begin(200001, 8);
  EXPECT_TRUE(log.diverged.contains(200001));
}

}  // namespace
}  // namespace lockstep::collectives

// What goes wrong: every outstanding collective ends, with an error that says who and why, and nothing hangs.
#include <gmock/gmock.h>

#include <atomic>

#include "tests/collectives/gang.h"

namespace lockstep::collectives::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

CollectiveSpec all_reduce_over(std::vector<std::int64_t> group, std::int64_t id = 1) {
  auto size = static_cast<std::int64_t>(group.size());
  return {.op = CollectiveOp::all_reduce,
          .reduction = Reduction::add,
          .id = id,
          .groups = std::move(group),
          .group_size = size,
          .name = fmt::format("psum.{} (train.cc:42)", id)};
}
CollectiveSpec permute(std::vector<std::int64_t> pairs, std::int64_t id = 1) {
  return {.op = CollectiveOp::collective_permute,
          .id = id,
          .pairs = std::move(pairs),
          .name = fmt::format("ppermute.{} (train.cc:50)", id)};
}

// One partition's part: its buffers and its result.
struct Part {
  std::vector<Array> in, out;
  Ticket ticket;

  explicit Part(std::int64_t count, DType dtype = DType::float32) {
    in.push_back(make_array(dtype, {count}));
    out.push_back(make_array(dtype, {count}));
  }
  Part(Part&&) = default;
  std::string message() {
    auto error = ticket.wait();
    return error ? error->what() : "success";
  }
  ErrorCode code() {
    auto error = ticket.wait();
    return error ? error->code() : ErrorCode::invalid_argument;
  }
};
constexpr std::int64_t kSmall = 16, kLarge = 1 << 20;

class FailureTest : public ::testing::TestWithParam<Fabric> {
 protected:
  static EngineOptions patient(std::chrono::nanoseconds deadline) {
    EngineOptions options;
    options.deadline = deadline;
    options.report_grace = 2s;
    options.workers = options.completions = 2;
    return options;
  }
  Gang gang(int processes, int per_process, std::chrono::nanoseconds deadline = kPatience) {
    return Gang(GetParam(), processes, per_process, patient(deadline));
  }
};

TEST_P(FailureTest, OnePeerIsGivenUpWhileItsConnectionStands) {
  for (std::int64_t count : {kSmall, kLarge}) {
    Gang g = gang(3, 1);
    for (int p : {0, 1}) g.engines[static_cast<std::size_t>(p)]->add_communicator({.id = 77, .processes = {0, 1}});
    Part a(count), b(count), late(count), c(count), d(count);
    g.start(all_reduce_over({0, 1, 2}), 0, 0, a.in, a.out, a.ticket.done());
    g.start(all_reduce_over({0, 1, 2}), 0, 1, b.in, b.out, b.ticket.done());
    Error gone(ErrorCode::peer, "collective", "process 2 is gone", 0);
    for (int p : {0, 1}) g.engines[static_cast<std::size_t>(p)]->lose(2, gone);
    for (Part* part : {&a, &b}) {
      EXPECT_EQ(part->code(), ErrorCode::peer);
      EXPECT_THAT(part->message(), HasSubstr("process 2 is gone"));
    }
    g.start(all_reduce_over({0, 1, 2}), 1, 0, late.in, late.out, late.ticket.done());
    EXPECT_THAT(late.message(), HasSubstr("process 2 is gone"));
    // What the two have between them goes on; what the third says does not matter any more.
    g.engines[2]->fail(Error(ErrorCode::peer, "collective", "given up", 0));
    auto spec = std::make_shared<const CollectiveSpec>(all_reduce_over({0, 1}));
    for (auto [engine, part] : {std::pair(0, &c), std::pair(1, &d)}) {
      std::vector<InBuffer> in{
          {part->in[0].data.data(), part->in[0].data.size(), DType::float32, part->in[0].count(), {}}};
      std::vector<OutBuffer> out{
          {part->out[0].data.data(), part->out[0].data.size(), DType::float32, part->out[0].count(), {}}};
      g.engines[static_cast<std::size_t>(engine)]->start(spec, 77, 0, engine, in, out, part->ticket.done());
    }
    EXPECT_EQ(c.message(), "success");
    EXPECT_EQ(d.message(), "success");
  }
}

TEST_P(FailureTest, AProcessThatNeverComesIsNamedWithItsPhase) {
  for (std::int64_t count : {kSmall, kLarge}) {
    EngineOptions options = patient(300ms);
    options.phase = [] { return "loading data"; };
    Gang g(GetParam(), 3, 1, options);
    Part a(count), b(count);
    g.start(all_reduce_over({0, 1, 2}), 5, 0, a.in, a.out, a.ticket.done());
    g.start(all_reduce_over({0, 1, 2}), 5, 1, b.in, b.out, b.ticket.done());
    EXPECT_EQ(a.code(), ErrorCode::timeout);
    EXPECT_EQ(b.code(), ErrorCode::timeout);
    for (const std::string& text : {a.message(), b.message()}) {
      EXPECT_THAT(text, HasSubstr("all_reduce"));
      EXPECT_THAT(text, HasSubstr("psum.1 (train.cc:42) in launch 5"));
      EXPECT_THAT(text, HasSubstr("partitions 0, 1 arrived; missing: partition 2 of process 2"));
      EXPECT_THAT(text, HasSubstr("it has not come to launch 5, loading data"));
    }
    // The process that was late learns of it when it comes.
    std::this_thread::sleep_for(100ms);
    Part c(count);
    g.start(all_reduce_over({0, 1, 2}), 5, 2, c.in, c.out, c.ticket.done());
    EXPECT_THAT(c.message(), HasSubstr("missing: partition 2"));
  }
}

TEST_P(FailureTest, AStallEndsEverythingEverywhereWhereTheGangIsToFailOfIt) {
  std::atomic<int> told = 0;
  {
    EngineOptions options = patient(300ms);
    options.on_stalled = [&](const Error& e) {
      told += e.message().find("missing: partition 2 of") != std::string::npos;
    };
    Gang g(GetParam(), 3, 1, options);
    Part a(kSmall), b(kSmall), other(kSmall), later(kSmall);
    g.start(all_reduce_over({0, 1, 2}), 5, 0, a.in, a.out, a.ticket.done());
    g.start(all_reduce_over({0, 1, 2}), 5, 1, b.in, b.out, b.ticket.done());
    EXPECT_EQ(a.code(), ErrorCode::timeout);
    EXPECT_EQ(b.code(), ErrorCode::timeout);
    // The late one too, whatever it comes to: what it starts now can't end without the others, nor by its own deadline.
    g.engines[2]->set_deadline(kPatience);
    g.start(all_reduce_over({0, 1, 2}, 9), 4, 2, other.in, other.out, other.ticket.done());
    EXPECT_THAT(other.message(), HasSubstr("missing: partition 2 of"));
    g.start(all_reduce_over({0, 1, 2}), 6, 0, later.in, later.out, later.ticket.done());
    EXPECT_EQ(later.code(), ErrorCode::timeout);
  }
  EXPECT_GE(told, 3);
}

TEST_P(FailureTest, APartitionOfAProcessThatIsThereIsNamed) {
  Gang g = gang(2, 2, 300ms);
  Part a(kSmall), b(kSmall), c(kSmall), other(kSmall);
  g.start(all_reduce_over({0, 1, 2, 3}), 1, 0, a.in, a.out, a.ticket.done());
  g.start(all_reduce_over({0, 1, 2, 3}), 1, 1, b.in, b.out, b.ticket.done());
  g.start(all_reduce_over({0, 1, 2, 3}), 1, 2, c.in, c.out, c.ticket.done());
  std::this_thread::sleep_for(100ms);
  g.start(permute({1, 3}, 9), 1, 3, other.in, other.out, other.ticket.done());
  EXPECT_THAT(a.message(), HasSubstr("partitions 0, 1, 2 arrived; missing: partition 3 of"));
  EXPECT_EQ(c.code(), ErrorCode::timeout);
  EXPECT_EQ(other.code(), ErrorCode::timeout);
}

TEST_P(FailureTest, TheFirstErrorEndsTheLaunchEverywhereAndNoOther) {
  Gang g = gang(3, 1);
  Part a(kSmall), b(kLarge), c(kLarge), kept0(kSmall), kept1(kSmall);
  g.start(all_reduce_over({0, 1, 2}, 1), 4, 0, a.in, a.out, a.ticket.done());
  g.start(permute({2, 1}, 2), 4, 1, b.in, b.out, b.ticket.done());
  g.start(all_reduce_over({0, 1, 2}, 3), 4, 2, c.in, c.out, c.ticket.done());
  g.start(all_reduce_over({0, 1}, 1), 5, 0, kept0.in, kept0.out, kept0.ticket.done());
  g.engines[1]->cancel_launch(kMesh, 4, Error(ErrorCode::execution, "fft", "it does not converge", 0));
  for (Part* part : {&a, &b, &c}) {
    EXPECT_THAT(part->message(), HasSubstr("fft: it does not converge"));
    EXPECT_EQ(part->code(), ErrorCode::execution);
  }
  EXPECT_THAT(a.message(), HasSubstr("reported by process 1"));
  EXPECT_FALSE(kept0.ticket.ready());
  g.start(all_reduce_over({0, 1}, 1), 5, 1, kept1.in, kept1.out, kept1.ticket.done());
  EXPECT_EQ(kept0.message(), "success");
  EXPECT_EQ(kept1.message(), "success");
  Part late(kSmall);
  g.start(permute({2, 1}, 2), 4, 2, late.in, late.out, late.ticket.done());
  EXPECT_THAT(late.message(), HasSubstr("it does not converge"));
}

TEST_P(FailureTest, FailEndsEverythingAndTellsThePeersWhy) {
  Gang g = gang(3, 2);
  std::vector<Part> parts;
  for (int p = 0; p < 5; ++p) parts.emplace_back(p % 2 ? kSmall : kLarge);
  for (int p = 0; p < 5; ++p) {
    g.start(all_reduce_over({0, 1, 2, 3, 4, 5}, p), 1, p, parts[p].in, parts[p].out, parts[p].ticket.done());
  }
  g.engines[1]->fail(Error(ErrorCode::peer, "heartbeat", "process 7 is dead", 0));
  for (Part& part : parts) EXPECT_THAT(part.message(), HasSubstr("process 7 is dead"));
  Part later(kSmall);
  g.start(all_reduce_over({0, 1, 2, 3, 4, 5}, 3), 2, 4, later.in, later.out, later.ticket.done());
  EXPECT_THAT(later.message(), HasSubstr("process 7 is dead"));
}

TEST_P(FailureTest, AnEngineThatEndsCallsDoneAndLeavesThePeers) {
  Gang g = gang(2, 1);
  Part a(kLarge), b(kLarge), c(kSmall);
  g.start(all_reduce_over({0, 1}), 1, 0, a.in, a.out, a.ticket.done());
  g.start(permute({0, 1}, 2), 1, 1, b.in, b.out, b.ticket.done());
  g.engines[0].reset();
  EXPECT_THAT(a.message(), HasSubstr("the engine is shut down"));
  EXPECT_THAT(b.message(), HasSubstr("has left the gang, in good order"));
  EXPECT_EQ(b.code(), ErrorCode::peer);
  g.start(all_reduce_over({0, 1}), 2, 1, c.in, c.out, c.ticket.done());
  EXPECT_THAT(c.message(), HasSubstr("has left the gang"));
  EXPECT_EQ(a.ticket.calls() + b.ticket.calls() + c.ticket.calls(), 3);
}

TEST_P(FailureTest, WhatAPeerSentBeforeItLeftStillCounts) {
  Gang g = gang(2, 1);
  Part a(kSmall), b(kSmall);
  fill(a.in[0], 3);
  g.start(permute({0, 1}), 1, 0, a.in, a.out, a.ticket.done());
  EXPECT_EQ(a.message(), "success");
  g.engines[0].reset();
  std::this_thread::sleep_for(50ms);
  g.start(permute({0, 1}), 1, 1, b.in, b.out, b.ticket.done());
  EXPECT_EQ(b.message(), "success");
  EXPECT_TRUE(b.out[0].data == a.in[0].data);
}

TEST_P(FailureTest, DifferentProgramsAreFound) {
  struct Case {
    std::int64_t here, there;
    Reduction reduction;
  };
  for (const Case& c : {Case{kSmall, kSmall + 1, Reduction::add}, Case{kSmall, kLarge, Reduction::add},
                        Case{kLarge, kSmall, Reduction::add}, Case{kLarge, kLarge + 1, Reduction::add},
                        Case{kSmall, kSmall, Reduction::maximum}, Case{kLarge, kLarge, Reduction::maximum}}) {
    Gang g = gang(2, 1);
    Part a(c.here), b(c.there);
    CollectiveSpec other = all_reduce_over({0, 1});
    other.reduction = c.reduction;
    g.start(all_reduce_over({0, 1}), 1, 0, a.in, a.out, a.ticket.done());
    g.start(other, 1, 1, b.in, b.out, b.ticket.done());
    EXPECT_EQ(a.code(), ErrorCode::diverged) << a.message();
    EXPECT_EQ(b.code(), ErrorCode::diverged) << b.message();
    EXPECT_THAT(a.message(), HasSubstr("the processes run different programs"));
  }
}

TEST_P(FailureTest, CallsThatMakeNoSenseAreRefused) {
  Gang g = gang(2, 1);
  auto refused = [&, launch = std::uint64_t{10}](const CollectiveSpec& spec, Part&& part) mutable {
    g.start(spec, ++launch, 0, part.in, part.out, part.ticket.done());
    return part.message();
  };
  CollectiveSpec spec = all_reduce_over({1});
  EXPECT_THAT(refused(spec, Part(4)), HasSubstr("partition 0 is in no group"));
  spec = all_reduce_over({0, 5});
  EXPECT_THAT(refused(spec, Part(4)), HasSubstr("partition 5 is not one of the communicator's 2"));
  spec = all_reduce_over({0});
  spec.reduction = Reduction::maximum;
  EXPECT_THAT(refused(spec, Part(4, DType::complex64)), HasSubstr("maximum is not defined for complex64"));
  spec.reduction = Reduction::xor_;
  EXPECT_THAT(refused(spec, Part(4)), HasSubstr("xor is not defined for float32"));
  spec.op = CollectiveOp::all_to_all;
  spec.groups = {0, 1};
  spec.group_size = 2;
  EXPECT_THAT(refused(spec, Part(4)), HasSubstr("a group of 2 needs as many operands, not 1"));
  spec.group_size = 0;
  EXPECT_THAT(refused(spec, Part(4)), HasSubstr("do not make groups"));
  spec = all_reduce_over({0});
  Part uneven(4);
  uneven.out[0] = make_array(DType::float32, {5});
  EXPECT_THAT(refused(spec, std::move(uneven)), HasSubstr("input 0 is f32[4], output 0 is f32[5]"));
  Ticket ticket;
  g.engines[0]->start(std::make_shared<CollectiveSpec>(spec), 99, 1, 0, {}, {}, ticket.done());
  EXPECT_THAT(ticket.wait()->what(), HasSubstr("there is no communicator 99 here"));
}

TEST_P(FailureTest, BuffersAreNotTouchedAfterDone) {
  for (int round = 0; round < 10; ++round) {
    Gang g = gang(2, 1);
    Part a(kLarge), b(kLarge);
    Ticket ended;
    g.start(all_reduce_over({0, 1}), 1, 0, a.in, a.out, [&, done = ended.done()](const Error* error) {
      if (error) std::vector<Array>().swap(a.in), std::vector<Array>().swap(a.out);  // a sanitizer sees later uses
      done(error);
    });
    g.start(all_reduce_over({0, 1}), 1, 1, b.in, b.out, b.ticket.done());
    std::this_thread::sleep_for(round * 2ms);
    g.engines[round % 2]->cancel_launch(kMesh, 1, Error(ErrorCode::cancelled, "test", "enough", 0));
    ended.wait();
    b.ticket.wait();
    Part c(kLarge), d(kLarge);  // the connections still work
    g.start(all_reduce_over({0, 1}), 2, 0, c.in, c.out, c.ticket.done());
    g.start(all_reduce_over({0, 1}), 2, 1, d.in, d.out, d.ticket.done());
    EXPECT_EQ(c.message(), "success");
    EXPECT_EQ(d.message(), "success");
  }
}

TEST_P(FailureTest, EarlyMessagesAreKeptWithinBounds) {
  Gang g = gang(2, 1);
  constexpr int kMessages = 400;  // 24 MB, three times what one peer may leave with another
  std::vector<Part> from, to;
  for (int i = 0; i < kMessages; ++i) {
    from.emplace_back(15000);
    to.emplace_back(15000);
    fill(from[i].in[0], i);
    g.start(permute({0, 1}, i), 1, 0, from[i].in, from[i].out, from[i].ticket.done());
  }
  EXPECT_EQ(from[0].message(), "success");  // sent, though nobody has asked for it
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(from[kMessages - 1].ticket.ready());
  for (int i = kMessages - 1; i >= 0; --i) {
    g.start(permute({0, 1}, i), 1, 1, to[i].in, to[i].out, to[i].ticket.done());
  }
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(from[i].message(), "success");
    ASSERT_EQ(to[i].message(), "success");
    ASSERT_TRUE(to[i].out[0].data == from[i].in[0].data) << i;
  }
}

TEST_P(FailureTest, SnapshotAndStatistics) {
  Gang g = gang(2, 2);
  std::vector<Part> parts;
  for (int p = 0; p < 4; ++p) parts.emplace_back(kLarge);
  for (int p : {0, 2, 3}) {
    g.start(all_reduce_over({0, 1, 2, 3}), 1, p, parts[p].in, parts[p].out, parts[p].ticket.done());
  }
  auto here = g.engines[0]->snapshot(), there = g.engines[1]->snapshot();
  ASSERT_EQ(here.size(), 1);
  EXPECT_THAT(here[0].arrived, ::testing::ElementsAre(0));
  EXPECT_EQ(here[0].members.size(), 4);
  ASSERT_EQ(there.size(), 1);
  EXPECT_THAT(there[0].waiting_for, ::testing::ElementsAre(0));
  g.start(all_reduce_over({0, 1, 2, 3}), 1, 1, parts[1].in, parts[1].out, parts[1].ticket.done());
  for (Part& part : parts) EXPECT_EQ(part.message(), "success");
  auto totals = g.engines[0]->statistics();
  ASSERT_EQ(totals.size(), 1);
  EXPECT_EQ(totals[0].name, "psum.1 (train.cc:42)");
  EXPECT_EQ(totals[0].calls, 2);
  EXPECT_EQ(totals[0].bytes, 2 * kLarge * sizeof(float));
  EXPECT_EQ(totals[0].sent, kLarge * sizeof(float));
  EXPECT_TRUE(g.engines[0]->snapshot().empty());
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FailureTest,
                         ::testing::Values(Fabric::local, Fabric::gloo, Fabric::shared, Fabric::grpc, Fabric::grpc_tls),
                         [](const auto& info) { return to_string(info.param); });

TEST(CutTest, ABrokenConnectionEndsItsCommunicatorsOnly) {
  LocalFabric fabric(3);
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < 3; ++rank) transports.push_back(fabric.transport(rank));
  Gang g(std::move(transports), 1);
  for (auto& engine : g.engines) engine->add_communicator({8, {0, 1}});
  Part a(kSmall), b(kLarge), c(kLarge), d(kSmall), e(kSmall);
  g.start(all_reduce_over({0, 1, 2}), 1, 0, a.in, a.out, a.ticket.done());
  g.start(permute({1, 2, 2, 1}), 2, 1, b.in, b.out, b.ticket.done());
  g.start(all_reduce_over({0, 1, 2}, 3), 1, 2, c.in, c.out, c.ticket.done());
  fabric.cut(1, 2);
  EXPECT_EQ(b.code(), ErrorCode::peer);
  EXPECT_THAT(b.message(), HasSubstr("process 2 closed the connection: the network was cut"));
  EXPECT_THAT(c.message(), HasSubstr("process 1 closed the connection"));
  // Process 0 still has both connections; it learns of the failed launch from the others.
  Part f(kSmall);
  g.start(all_reduce_over({0, 1, 2}), 3, 1, f.in, f.out, f.ticket.done());
  EXPECT_THAT(f.message(), HasSubstr("process 2 closed the connection"));
  g.engines[0]->cancel_launch(kMesh, 1, Error(ErrorCode::peer, "test", "gone", 0));
  EXPECT_NE(a.message(), "success");
  auto spec = std::make_shared<CollectiveSpec>(all_reduce_over({0, 1}));
  auto start = [&](int rank, Part& part) {
    InBuffer in{part.in[0].data.data(), part.in[0].data.size(), DType::float32, part.in[0].count(), {}};
    OutBuffer out{part.out[0].data.data(), part.out[0].data.size(), DType::float32, part.out[0].count(), {}};
    g.engines[rank]->start(spec, 8, 1, rank, {&in, 1}, {&out, 1}, part.ticket.done());
  };
  start(0, d);
  start(1, e);
  EXPECT_EQ(d.message(), "success");
  EXPECT_EQ(e.message(), "success");
}

}  // namespace
}  // namespace lockstep::collectives::testing

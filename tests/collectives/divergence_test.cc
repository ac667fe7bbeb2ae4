// Processes that launch different programs, or in another order, or leave one out, are found out and told who differs.
#include <gmock/gmock.h>

#include <atomic>

#include "lockstep/collectives/launch_ledger.h"
#include "tests/collectives/gang.h"

namespace lockstep::collectives::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

LaunchedProgram program(std::uint64_t id) {
  return {id, std::make_shared<const std::string>(fmt::format("jit(f{})", id)), 0};
}
LaunchLedger ledger(std::vector<std::uint64_t> programs) {
  LaunchLedger out;
  for (std::uint64_t id : programs) EXPECT_EQ(out.begin(program(id)), std::nullopt);
  return out;
}

TEST(LaunchLedger, EqualLaunchesHaveEqualStamps) {
  LaunchLedger a = ledger({1, 2, 3}), b = ledger({1, 2, 3, 4});
  for (std::uint64_t n = 0; n < 3; ++n) EXPECT_TRUE(b.check(0, n, a.stamp(n)));
  EXPECT_TRUE(a.check(1, 3, b.stamp(3)));
  EXPECT_EQ(a.begin(program(4)), std::nullopt);
}

TEST(LaunchLedger, AnotherProgramOrOrderDiffersAtOnceAndEverAfter) {
  LaunchLedger a = ledger({1, 2, 3, 3}), b = ledger({1, 3, 2, 3}), c = ledger({1, 3, 3});
  EXPECT_TRUE(a.check(1, 0, b.stamp(0)));
  for (std::uint64_t n = 1; n < 4; ++n) EXPECT_FALSE(a.check(1, n, b.stamp(n))) << n;
  EXPECT_FALSE(a.check(2, 2, c.stamp(2)));  // the program is the same there, what came before is not
}

TEST(LaunchLedger, WhatPeersSaidIsComparedWhenTheLaunchComes) {
  LaunchLedger a = ledger({1}), b = ledger({1, 2, 3});
  EXPECT_TRUE(a.check(5, 1, b.stamp(1)));
  EXPECT_TRUE(a.check(5, 2, b.stamp(2)));
  EXPECT_EQ(a.begin(program(2)), std::nullopt);
  EXPECT_EQ(a.begin(program(4)), 5);
}

TEST(LaunchLedger, ALaunchLeftOutShowsInTheNextOne) {
  LaunchLedger a = ledger({1}), b = ledger({1, 2});
  EXPECT_FALSE(a.check(1, 1, {b.stamp(1).history + 1, 7}));  // he has launched something before that we have not
}

TEST(LaunchLedger, AnIntentCountsUntilItEnds) {
  LaunchLedger a = ledger({1}), b = ledger({1, 2});
  EXPECT_EQ(a.intend(program(9)), std::nullopt);
  EXPECT_FALSE(a.check(1, 1, b.stamp(1)));
  EXPECT_EQ(a.intend(program(2)), std::nullopt);
  EXPECT_TRUE(a.check(1, 1, b.stamp(1)));
  a.end_intent(9);
  a.end_intent(2);
  EXPECT_EQ(a.intend(program(8)), 1);  // which has said that it launches 2
}

TEST(LaunchLedger, ProgramsWithoutAnIdEqualEverything) {
  LaunchLedger a = ledger({1}), b = ledger({0});
  EXPECT_TRUE(a.check(1, 0, b.stamp(0)));
  EXPECT_TRUE(a.check(1, 0, {}));
  EXPECT_TRUE(a.check(1, 400, {}));
}

TEST(LaunchLedger, ExplainNamesTheFirstDifference) {
  std::vector<std::pair<std::string, std::string>> histories{{"process 0", ledger({1, 2, 3}).text()},
                                                             {"process 1", ledger({1, 3, 2, 2}).text()},
                                                             {"process 2", ledger({1, 2}).text()},
                                                             {"process 3", ledger({1}).text()}};
  EXPECT_EQ(explain(histories),
            "launch 1 differs: process 0, process 2 launch jit(f2); process 1 launches jit(f3); process 3 has not come "
            "so far");
  histories.resize(1);
  histories.emplace_back("process 1", "");
  EXPECT_THAT(explain(histories), HasSubstr("process 1 has launched nothing"));
  histories.back().second = "rubbish\n7\n8 zz\n9 1\n";  // from the network
  EXPECT_THAT(explain(histories), HasSubstr("process 1 has launched nothing"));
}

TEST(LaunchLedger, LongHistoriesStayShort) {
  std::vector<std::uint64_t> many(100000, 5);
  LaunchLedger a = ledger(many), b = ledger(many);
  EXPECT_LT(a.text().size(), std::size_t{64} << 10);
  EXPECT_TRUE(b.check(0, 99999, a.stamp(99999)));
  many[0] = 6;
  EXPECT_FALSE(ledger(many).check(0, 99999, a.stamp(99999)));
  EXPECT_THAT(explain({{"process 0", a.text()}, {"process 1", ledger(many).text()}}), HasSubstr("differ"));
}

class DivergenceTest : public ::testing::TestWithParam<Fabric> {
 protected:
  struct Part {
    std::vector<Array> in{make_array(DType::float32, {16})}, out{make_array(DType::float32, {16})};
    Ticket ticket;
    std::string message() {
      auto error = ticket.wait();
      return error ? error->what() : "success";
    }
  };
  CollectiveSpec sum(std::int64_t id) const {
    return {.op = CollectiveOp::all_reduce,
            .reduction = Reduction::add,
            .id = id,
            .groups = {0, 1},
            .group_size = 2,
            .name = "psum"};
  }
  Gang gang() {
    EngineOptions options;
    options.deadline = kPatience;
    options.report_grace = 2s;
    options.workers = options.completions = 2;
    options.on_diverged = [this](const Error& e) {
      if (e.code() == ErrorCode::diverged) ++told_;
    };
    return Gang(GetParam(), 2, 1, options);
  }
  void run(Gang& g, std::int64_t rank, std::uint64_t launch, std::uint64_t id, Part& part) {
    g.engines[rank]->begin_launch(kMesh, program(id));
    g.start(sum(static_cast<std::int64_t>(id)), launch, rank, part.in, part.out, part.ticket.done());
  }
  std::atomic<int> told_ = 0;
};

TEST_P(DivergenceTest, AnotherOrderEndsBothWithTheFirstDifference) {
  Part a, b, c, d;
  {
    Gang g = gang();
    run(g, 0, 0, 1, a);
    run(g, 1, 0, 1, b);
    EXPECT_EQ(a.message(), "success");
    EXPECT_EQ(b.message(), "success");
    run(g, 0, 1, 2, c);
    run(g, 1, 1, 3, d);  // another operation: the two would never meet
    for (Part* part : {&c, &d})
      EXPECT_THAT(part->message(), AllOf(HasSubstr("launch 1 differs"), HasSubstr("process 0 launches jit(f2)"),
                                         HasSubstr("process 1 launches jit(f3)"), Not(HasSubstr("psum"))));
  }
  EXPECT_GE(told_, 1);
}

TEST_P(DivergenceTest, AProgramWithoutCollectivesThatOneLeavesOut) {
  Part a, b, c;
  Gang g = gang();
  g.engines[1]->begin_launch(kMesh, program(7));
  run(g, 0, 0, 1, a);
  run(g, 1, 1, 1, b);
  EXPECT_THAT(a.message(), HasSubstr("launch 0 differs: process 0 launches jit(f1); process 1 launches jit(f7)"));
  EXPECT_NE(b.message(), "success");
}

TEST_P(DivergenceTest, OneThatStillPreparesAnotherProgram) {
  Part a;
  Gang g = gang();
  Engine::Intent intent(*g.engines[1], kMesh, program(2));
  run(g, 0, 0, 1, a);
  EXPECT_THAT(a.message(), HasSubstr("process 0 launches jit(f1); process 1 launches jit(f2)"));
}

TEST_P(DivergenceTest, ThousandsOfEqualLaunchesInAnyTiming) {
  Gang g = gang();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      for (std::uint64_t n = 0; n < 2000; ++n) {
        Part part;
        run(g, rank, n, 1 + n % 3, part);
        ASSERT_EQ(part.message(), "success");
        g.engines[rank]->end_launch(kMesh, n, rank);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(told_, 0);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, DivergenceTest,
                         ::testing::Values(Fabric::local, Fabric::gloo, Fabric::shared, Fabric::grpc, Fabric::grpc_tls),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace lockstep::collectives::testing

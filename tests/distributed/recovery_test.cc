// A coordinator whose gang goes on without processes that die.
#include "tests/distributed/coordinator_fixture.h"

namespace lockstep::distributed::coordinator {
namespace {

class RecoveryTest : public CoordinatorTest {
 protected:
  void start(int count) {
    CoordinatorTest::start(count, seconds(10), true);
    join_all();
  }
  void kill(int process) {
    gang_->listener_gone(process, &listeners_[process], now_);
    pass(milliseconds(500));
  }
  Answer<LiveResponse> live(int process, milliseconds timeout = seconds(5)) {
    LiveRequest request;
    *request.mutable_caller() = caller(process);
    request.set_timeout_ms(timeout.count());
    auto call = kept<LiveResponse>(process);
    Outbox out;
    gang_->live(request, call.get(), now_, out);
    out.run();
    return call;
  }
  void report(int process, Failure::Kind kind, const std::string& message) {
    ReportErrorRequest request;
    *request.mutable_caller() = caller(process);
    request.mutable_failure()->set_kind(kind);
    request.mutable_failure()->set_message(message);
    auto call = kept<ReportErrorResponse>(process);
    Outbox out;
    gang_->report_error(request, call.get(), now_, out);
    out.run();
  }
  const Failure* loss_told_to(int process) {
    for (auto& event : listeners_[process].events)
      if (event.has_lost()) return &event.lost().failure();
    return nullptr;
  }
};

TEST_F(RecoveryTest, TheOthersAreToldAndGoOn) {
  start(3);
  auto waits = barrier(0, "all"), pair = barrier(0, "pair", 0, {0, 2});
  kill(1);
  for (int p : {0, 2}) {
    EXPECT_EQ(failure_told_to(p), nullptr);
    ASSERT_NE(loss_told_to(p), nullptr);
    EXPECT_THAT(loss_told_to(p)->processes(), ElementsAre(1));
    EXPECT_THAT(loss_told_to(p)->message(), HasSubstr("process 1 (host1, pid 101) died"));
  }
  ASSERT_TRUE(waits->done);
  EXPECT_EQ(waits->answer.problem().code(), Problem::LEFT);
  EXPECT_THAT(waits->answer.problem().message(), HasSubstr("'all': process 1 (host1, pid 101) died"));
  EXPECT_FALSE(pair->done);
  barrier(2, "pair", 0, {0, 2});
  EXPECT_TRUE(pair->done && pair->answer.problem().code() == Problem::OK);

  barrier(2, "all");  // hears how the first use ended
  auto again = barrier(0, "all", 1);
  EXPECT_FALSE(again->done);
  barrier(2, "all", 1);
  ASSERT_TRUE(again->done);
  EXPECT_EQ(again->answer.problem().code(), Problem::OK) << "all are those who are left";
  auto a = shut_down(0), b = shut_down(2);
  EXPECT_TRUE(a->done && b->done && b->answer.problem().code() == Problem::OK);
  EXPECT_TRUE(gang_->everybody_left());
}

TEST_F(RecoveryTest, AllWhoAreLeftLearnTheSame) {
  start(4);
  kill(3);
  auto a = live(0), b = live(2);
  EXPECT_FALSE(a->done || b->done) << "process 1 has not called";
  kill(1);
  for (auto& answer : {a, b}) {
    ASSERT_TRUE(answer->done);
    EXPECT_THAT(answer->answer.processes(), ElementsAre(0, 2));
    EXPECT_EQ(answer->answer.round(), 1);
  }
  auto c = live(2);
  shut_down(0);
  ASSERT_TRUE(c->done) << "one that leaves is not waited for";
  EXPECT_THAT(c->answer.processes(), ElementsAre(2));
  EXPECT_EQ(c->answer.round(), 2);
}

TEST_F(RecoveryTest, WhoDoesNotSayThatItLivesIsNamed) {
  start(3);
  kill(2);
  beat_all();
  auto a = live(0, seconds(1));
  pass(milliseconds(2500));
  ASSERT_TRUE(a->done);
  EXPECT_EQ(a->answer.problem().code(), Problem::DEADLINE);
  EXPECT_THAT(a->answer.problem().message(),
              HasSubstr("arrived: 0; missing: process 1 (host1, pid 101): in 'host code'"));
  auto b = live(0), c = live(1);
  EXPECT_TRUE(b->done && c->done);
}

TEST_F(RecoveryTest, OneThatComesBackHearsThatTheGangHasGoneOn) {
  start(3);
  pass(seconds(6));
  beat(0);
  beat(2);
  pass(seconds(6));
  ASSERT_NE(loss_told_to(0), nullptr);
  EXPECT_EQ(loss_told_to(0)->kind(), Failure::UNREACHABLE);
  ASSERT_NE(failure_told_to(1), nullptr);
  EXPECT_THAT(failure_told_to(1)->message(), HasSubstr("gone on without this process: process 1"));
  HeartbeatRequest request;
  *request.mutable_caller() = caller(1);
  HeartbeatResponse response;
  gang_->heartbeat(request, &response, now_);
  EXPECT_THAT(response.failure().message(), HasSubstr("gone on without this process"));
  EXPECT_EQ(gang_->admit(caller(1)).code(), Problem::FAILED);
  EXPECT_EQ(gang_->admit(caller(2)).code(), Problem::OK);
  auto again = join(registration(1, 3, 5));
  ASSERT_TRUE(again->done);
  EXPECT_THAT(again->answer.problem().message(), HasSubstr("the gang has gone on without process 1"));
}

TEST_F(RecoveryTest, WhatConcernsEverybodyStillEndsTheGang) {
  start(3);
  report(2, Failure::CRASHED, "uncaught exception: bad day");
  EXPECT_EQ(failure_told_to(0), nullptr);
  ASSERT_NE(loss_told_to(0), nullptr);
  EXPECT_THAT(loss_told_to(0)->message(), HasSubstr("process 2 (host2, pid 102) failed: uncaught exception: bad day"));
  report(1, Failure::DIVERGED, "another program");
  ASSERT_NE(failure_told_to(0), nullptr);
  EXPECT_EQ(failure_told_to(0)->kind(), Failure::DIVERGED);
}

TEST_F(RecoveryTest, WithoutProcess0ItEnds) {
  start(2);
  kill(0);
  ASSERT_NE(failure_told_to(1), nullptr);
  EXPECT_EQ(loss_told_to(1), nullptr);
}

}  // namespace
}  // namespace lockstep::distributed::coordinator

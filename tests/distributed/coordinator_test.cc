// The coordinator as a state machine: no threads, no network, time that the test sets.
#include "tests/distributed/coordinator_fixture.h"

namespace lockstep::distributed::coordinator {
namespace {

TEST_F(CoordinatorTest, RegistrationIsABarrier) {
  start(3);
  auto a = join(0), b = join(2);
  EXPECT_FALSE(a->done || b->done);
  auto c = join(1);
  ASSERT_TRUE(a->done && b->done && c->done);
  EXPECT_EQ(a->answer.service(), 77u);
  Roster roster;
  ASSERT_TRUE(roster.ParseFromString(b->answer.roster()));
  EXPECT_EQ(roster.hosts(roster.host(2)), "host2");
  EXPECT_THAT(roster.pid(), ElementsAre(100, 101, 102));
  EXPECT_TRUE(join(1)->done) << "the same incarnation again";
}

TEST_F(CoordinatorTest, WhoListensAgainAfterAFailureHearsOfIt) {
  start(3);
  join_all();
  gang_->listener_gone(2, &listeners_[2], now_);
  ReportErrorRequest report;
  *report.mutable_caller() = caller(0);
  report.mutable_failure()->set_kind(Failure::CRASHED);
  report.mutable_failure()->set_message("out of cheese");
  Outbox out;
  gang_->report_error(report, kept<ReportErrorResponse>(0).get(), now_, out);
  ListenRequest request;
  *request.mutable_caller() = caller(2);
  gang_->listen(request, &listeners_[2], now_, out);
  gang_->stop("the coordinator (process 0) has ended", out);
  out.run();
  auto& events = listeners_[2].events;
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[0].has_welcome());
  EXPECT_THAT(events[1].failure().message(), HasSubstr("process 0 (host0, pid 100) failed: out of cheese"));
  EXPECT_TRUE(events[2].has_refused());
}

TEST_F(CoordinatorTest, DifferentCountsAreRefusedOnEveryProcess) {
  start(2);
  auto a = join(0);
  auto b = join(registration(1, 3, 5));
  EXPECT_FALSE(a->done) << "the others are given time to come and hear it";
  pass(milliseconds(2100));
  auto c = join(1);
  for (auto& answer : {a, b, c}) {
    ASSERT_TRUE(answer->done);
    EXPECT_EQ(answer->answer.problem().code(), Problem::REFUSED);
    EXPECT_THAT(answer->answer.problem().message(),
                AllOf(HasSubstr("process 1 (host1, pid 101) was started with num_processes = 3"),
                      HasSubstr("the coordinator with 2")));
  }
}

TEST_F(CoordinatorTest, DuplicatedIdsAreRefusedNamingBoth) {
  start(2);
  auto a = join(1), b = join(registration(1, 2, 5));
  auto c = join(0);
  for (auto& answer : {a, b, c}) {
    ASSERT_TRUE(answer->done);
    EXPECT_THAT(answer->answer.problem().message(), HasSubstr("two processes have the process id 1"));
  }
}

TEST_F(CoordinatorTest, DifferentSettingsBuildsAndPluginsAreRefusedWithTheDifference) {
  start(4);
  std::vector<Answer<RegisterResponse>> answers;
  for (int p = 0; p < 4; ++p) {
    auto request = registration(p, 4, p);
    request.mutable_identity()->set_plugin(p == 1 ? "cpu 2" : "cpu 1");
    if (p != 2) {
      auto* setting = request.mutable_identity()->add_settings();
      setting->set_name("jax_enable_x64");
      setting->set_value(p == 3 ? "true" : "false");
    }
    answers.push_back(join(request));
  }
  for (auto& answer : answers) {
    ASSERT_TRUE(answer->done);
    EXPECT_THAT(answer->answer.problem().message(),
                AllOf(HasSubstr("the setting jax_enable_x64: false on processes 0, 1; true on process 3 (host3, pid "
                                "103); unset on process 2 (host2, pid 102)"),
                      HasSubstr("the plugin: cpu 1 on processes 0, 2, 3; cpu 2 on process 1 (host1, pid 101)"),
                      Not(HasSubstr("the lockstep build"))));
  }
}

TEST_F(CoordinatorTest, AStrangerDoesNotDisturbACompleteGang) {
  start(2);
  join_all();
  auto late = join(registration(1, 2, 99));
  ASSERT_TRUE(late->done);
  EXPECT_EQ(late->answer.problem().code(), Problem::REFUSED);
  EXPECT_TRUE(join(registration(5, 6, 99))->done);
  EXPECT_EQ(failure_told_to(0), nullptr);
  EXPECT_EQ(gang_->admit(caller(0)).code(), Problem::OK);
}

TEST_F(CoordinatorTest, AProcessThatLeavesBeforeAllHaveComeMayComeAgain) {
  start(2);
  auto a = join(1);
  gang_->forget(a.get());
  auto b = join(registration(1, 2, 5)), c = join(0);
  EXPECT_TRUE(b->done && c->done);
  EXPECT_EQ(b->answer.problem().code(), Problem::OK);
}

TEST_F(CoordinatorTest, WhoHasJoinedListens) {
  start(2);
  join(1);
  EXPECT_TRUE(listeners_[1].events.empty());
  join(0);
  EXPECT_TRUE(listeners_[1].events.empty()) << "the answer to its registration says it";
  ReportErrorRequest report;
  *report.mutable_caller() = caller(0);
  report.mutable_failure()->set_message("out of cheese");
  Outbox out;
  gang_->report_error(report, kept<ReportErrorResponse>(0).get(), now_, out);
  ASSERT_NE(failure_told_to(1), nullptr);
}

TEST_F(CoordinatorTest, WhoRegistersAgainListensInTheNewSession) {
  start(2);
  join(0);
  auto first = join(1);
  EXPECT_TRUE(first->done) << "the last to come";
  FakeListener again;
  auto second = kept<RegisterResponse>(1);
  Outbox out;
  gang_->register_task(registration(1, 2, 1001), &again, second.get(), now_, out);
  EXPECT_TRUE(second->answered);
  EXPECT_TRUE(listeners_[1].closed);
  gang_->listener_gone(1, &listeners_[1], now_);
  pass(seconds(2));
  EXPECT_EQ(failure_told_to(0), nullptr) << "it listens";
}

TEST_F(CoordinatorTest, AClosedConnectionIsADeathWithinAHalfSecond) {
  start(3);
  join_all();
  beat(1, "compiling jit(step)");
  auto waiting = barrier(0, "b");
  gang_->listener_gone(1, &listeners_[1], now_);
  pass(milliseconds(250));
  EXPECT_EQ(failure_told_to(0), nullptr) << "it may come back";
  pass(milliseconds(150));
  for (int p : {0, 2}) {
    auto* failure = failure_told_to(p);
    ASSERT_NE(failure, nullptr);
    EXPECT_EQ(failure->kind(), Failure::CRASHED);
    EXPECT_THAT(failure->processes(), ElementsAre(1));
    EXPECT_THAT(failure->message(),
                AllOf(HasSubstr("process 1 (host1, pid 101) died"), HasSubstr("compiling jit(step)")));
  }
  ASSERT_TRUE(waiting->done);
  EXPECT_EQ(waiting->answer.problem().code(), Problem::FAILED);
  EXPECT_EQ(gang_->admit(caller(0)).code(), Problem::FAILED);
}

TEST_F(CoordinatorTest, AConnectionThatComesBackIsNoDeath) {
  start(2);
  join_all();
  gang_->listener_gone(1, &listeners_[1], now_);
  pass(milliseconds(200));
  ListenRequest request;
  *request.mutable_caller() = caller(1);
  FakeListener again;
  Outbox out;
  gang_->listen(request, &again, now_, out);
  pass(seconds(2));
  EXPECT_EQ(failure_told_to(0), nullptr);
}

TEST_F(CoordinatorTest, SilenceIsUnreachable) {
  start(2, seconds(1));
  join_all();
  for (int i = 0; i < 10; ++i) {
    pass(milliseconds(300));
    beat(0);
    if (i < 3) beat(1, "loading data");
  }
  auto* failure = failure_told_to(0);
  ASSERT_NE(failure, nullptr);
  EXPECT_EQ(failure->kind(), Failure::UNREACHABLE);
  EXPECT_THAT(failure->message(),
              AllOf(HasSubstr("process 1"), HasSubstr("no heartbeat for 1.0 s"), HasSubstr("loading data")));
}

TEST_F(CoordinatorTest, ACoordinatorThatStoodStillBlamesNobody) {
  start(2, seconds(1));
  join_all();
  now_ += seconds(30);
  pass(milliseconds(100));
  beat_all();
  EXPECT_EQ(failure_told_to(0), nullptr);
}

TEST_F(CoordinatorTest, AReportedErrorReachesAllAndItsAnswerComesAfterwards) {
  start(2);
  join_all();
  ReportErrorRequest request;
  *request.mutable_caller() = caller(1);
  request.mutable_failure()->set_kind(Failure::CRASHED);
  request.mutable_failure()->set_message("uncaught exception: no cheese");
  FakeCall<ReportErrorResponse> call(1);
  Outbox out;
  gang_->report_error(request, &call, now_, out);
  out.run();
  EXPECT_FALSE(call.done);
  ASSERT_NE(failure_told_to(0), nullptr);
  EXPECT_EQ(failure_told_to(0)->message(), "process 1 (host1, pid 101) failed: uncaught exception: no cheese");
  pass(milliseconds(100));
  EXPECT_TRUE(call.done);
  gang_->listener_gone(1, &listeners_[1], now_);
  pass(seconds(1));
  EXPECT_EQ(listeners_[0].events.size(), 1u) << "the first failure is the only one";
}

TEST_F(CoordinatorTest, BarriersCountTheirUses) {
  start(2);
  join_all();
  for (int counter = 0; counter < 3; ++counter) {
    auto a = barrier(0, "b", counter);
    EXPECT_FALSE(a->done);
    auto b = barrier(1, "b", counter);
    ASSERT_TRUE(a->done && b->done);
    EXPECT_EQ(a->answer.counter(), counter + 1);
    EXPECT_EQ(a->answer.problem().code(), Problem::OK);
  }
  auto again = barrier(0, "b", 2);
  ASSERT_TRUE(again->done);
  EXPECT_EQ(again->answer.problem().code(), Problem::OK) << "the result of the last use, again";
  EXPECT_EQ(barrier(0, "b", 7)->answer.problem().code(), Problem::PRECONDITION);
}

TEST_F(CoordinatorTest, ABarrierTimesOutForAllNamingTheMissingAndWhatTheyDo) {
  start(4);
  join_all();
  auto b = barrier(3, "save", 0, {}, seconds(60)), a = barrier(0, "save", 0, {}, seconds(2));
  auto other = barrier(1, "load", 0, {1, 2}, seconds(60));
  beat(2, "reading /data");
  pass(milliseconds(2000));
  EXPECT_TRUE(listeners_[1].events.back().has_tell_phase()) << "the missing are asked";
  EXPECT_TRUE(listeners_[0].events.empty());
  pass(milliseconds(50));
  beat(1, "compiling jit(f)");
  pass(milliseconds(500));
  EXPECT_FALSE(a->done) << "process 2 may still answer";
  pass(milliseconds(500));
  ASSERT_TRUE(a->done && b->done);
  EXPECT_EQ(a->answer.problem().code(), Problem::DEADLINE);
  EXPECT_THAT(a->answer.problem().processes(), ElementsAre(1, 2));
  EXPECT_THAT(a->answer.problem().message(), AllOf(HasSubstr("'save' timed out after 2."),
                                                   HasSubstr("arrived: 0, 3; missing: process 1 (host1, pid 101): "
                                                             "in 'compiling jit(f)'"),
                                                   HasSubstr("it waits for barrier 'load'"),
                                                   HasSubstr("process 2 (host2, pid 102): in 'reading /data'")));
  auto late = barrier(1, "save", 0);
  ASSERT_TRUE(late->done);
  EXPECT_EQ(late->answer.problem().code(), Problem::DEADLINE) << "the same result for who comes later";
  EXPECT_EQ(late->answer.counter(), 1);
}

TEST_F(CoordinatorTest, BarriersOfSomeAndBadParticipants) {
  start(3);
  join_all();
  auto a = barrier(0, "b", 0, {2, 0}), b = barrier(2, "b", 0, {0, 2});
  EXPECT_TRUE(a->done && b->done);
  EXPECT_EQ(barrier(1, "c", 0, {0, 2})->answer.problem().code(), Problem::INVALID);
  EXPECT_EQ(barrier(1, "c", 0, {1, 3})->answer.problem().code(), Problem::INVALID);
  auto c = barrier(0, "d", 0, {0, 1}), d = barrier(1, "d", 0, {0, 1, 2});
  ASSERT_TRUE(c->done && d->done);
  EXPECT_EQ(c->answer.problem().code(), Problem::INVALID);
  EXPECT_THAT(c->answer.problem().message(), HasSubstr("names the participants 0-2, process 0 named 0, 1"));
}

TEST_F(CoordinatorTest, CancelledBarriers) {
  start(2);
  join_all();
  auto a = barrier(0, "b");
  CancelBarrierRequest request;
  *request.mutable_caller() = caller(1);
  request.set_name("b");
  CancelBarrierResponse response;
  Outbox out;
  gang_->barriers().cancel(request, &response, out);
  out.run();
  EXPECT_EQ(response.problem().code(), Problem::OK);
  ASSERT_TRUE(a->done);
  EXPECT_EQ(a->answer.problem().code(), Problem::CANCELLED);
  EXPECT_EQ(barrier(1, "b", 0)->answer.problem().code(), Problem::CANCELLED);
  gang_->barriers().cancel(request, &response, out);
  EXPECT_EQ(response.problem().code(), Problem::PRECONDITION);
}

TEST_F(CoordinatorTest, AnAbandonedWaitIsTakenBack) {
  start(2);
  join_all();
  auto a = barrier(0, "b");
  gang_->forget(a.get());
  auto b = barrier(1, "b");
  EXPECT_FALSE(b->done);
  auto c = barrier(0, "b");
  EXPECT_TRUE(b->done && c->done);
  auto d = barrier(0, "e"), e = barrier(0, "e");
  EXPECT_TRUE(d->done) << "a second entry of the same process replaces the first";
  EXPECT_EQ(d->answer.problem().code(), Problem::CANCELLED);
  EXPECT_FALSE(e->done);
}

TEST_F(CoordinatorTest, ShutdownIsABarrierAndWhoHasCalledItTakesPartInNothingMore) {
  start(3);
  join_all();
  auto waiting = barrier(1, "b");
  auto a = shut_down(0);
  ASSERT_TRUE(waiting->done);
  EXPECT_EQ(waiting->answer.problem().code(), Problem::LEFT);
  EXPECT_THAT(waiting->answer.problem().message(), HasSubstr("process 0 (host0, pid 100) has called shutdown()"));
  EXPECT_EQ(barrier(1, "c")->answer.problem().code(), Problem::LEFT);
  EXPECT_EQ(agree(1, "k", "f")->answer.problem().code(), Problem::LEFT);
  EXPECT_FALSE(barrier(1, "c", 0, {1, 2})->done) << "the others may go on among themselves";
  ASSERT_TRUE(listeners_[1].events.back().has_leaving());
  EXPECT_EQ(listeners_[1].events.back().leaving().process_id(), 0);
  auto b = shut_down(1);
  EXPECT_FALSE(a->done || b->done);
  auto c = shut_down(2);
  EXPECT_TRUE(a->done && b->done && c->done);
  EXPECT_EQ(a->answer.problem().code(), Problem::OK);
  EXPECT_TRUE(gang_->everybody_left());
  EXPECT_EQ(join(registration(1, 3, 5))->answer.problem().code(), Problem::LEFT) << "the next gang has to wait";
  for (auto& listener : listeners_) EXPECT_TRUE(listener.closed);
  gang_->listener_gone(1, &listeners_[1], now_);
  pass(seconds(30));
  EXPECT_EQ(failure_told_to(0), nullptr) << "nobody has to send heartbeats any more";
}

TEST_F(CoordinatorTest, ShutdownTimesOutNamingWhoHasNotCalledIt) {
  start(2);
  join_all();
  auto a = shut_down(0, seconds(1));
  pass(milliseconds(1050));
  beat(1, "training");
  EXPECT_FALSE(a->done);
  pass(milliseconds(50));
  ASSERT_TRUE(a->done);
  EXPECT_THAT(a->answer.problem().message(), AllOf(HasSubstr("shutdown() timed out after 1."),
                                                   HasSubstr("missing: process 1"), HasSubstr("training")));
  ASSERT_NE(failure_told_to(1), nullptr);
  EXPECT_EQ(failure_told_to(1)->kind(), Failure::STALLED);
}

TEST_F(CoordinatorTest, DyingInTheShutdownBarrierIsADeath) {
  start(2);
  join_all();
  shut_down(1);
  gang_->listener_gone(1, &listeners_[1], now_);
  pass(milliseconds(500));
  ASSERT_NE(failure_told_to(0), nullptr);
  EXPECT_EQ(failure_told_to(0)->kind(), Failure::CRASHED);
}

TEST_F(CoordinatorTest, AgreementHandsOutTheNotes) {
  start(3);
  join_all();
  auto a = agree(2, "launch 1", "f", "c"), b = agree(0, "launch 1", "f", "a");
  EXPECT_FALSE(a->done);
  auto c = agree(1, "launch 1", "f", "b");
  for (auto& answer : {a, b, c}) {
    ASSERT_TRUE(answer->done);
    EXPECT_EQ(answer->answer.groups_size(), 1);
    EXPECT_THAT(answer->answer.notes(), ElementsAre("a", "b", "c"));
  }
}

TEST_F(CoordinatorTest, ADifferenceGroupsTheProcessesAndExchangesTwoTexts) {
  start(4);
  join_all();
  auto a = agree(0, "k", "x"), b = agree(1, "k", "y"), c = agree(2, "k", "y"), d = agree(3, "k", "z");
  ASSERT_TRUE(a->done && b->done && c->done && d->done);
  ASSERT_EQ(a->answer.groups_size(), 3);
  EXPECT_THAT(a->answer.groups(0).processes(), ElementsAre(1, 2)) << "the largest first";
  EXPECT_EQ(a->answer.groups(0).call_site(), "train.cc:1");
  EXPECT_THAT(a->answer.groups(1).processes(), ElementsAre(0));
  auto t3 = differ(3, "k", "ignored"), t0 = differ(0, "k", "text of 0");
  EXPECT_FALSE(t3->done || t0->done);
  auto t1 = differ(1, "k", "text of 1");
  ASSERT_TRUE(t3->done && t0->done && t1->done);
  auto t2 = differ(2, "k", "");
  ASSERT_TRUE(t2->done);
  for (auto& t : {t0, t1, t2, t3}) EXPECT_THAT(t->answer.texts(), ElementsAre("text of 1", "text of 0"));
}

TEST_F(CoordinatorTest, TextsThatDoNotComeAreEmpty) {
  start(2);
  join_all();
  agree(0, "k", "x");
  agree(1, "k", "y");
  auto t0 = differ(0, "k", "text of 0");
  for (int i = 0; i < 6; ++i) pass(seconds(1)), beat_all();
  ASSERT_TRUE(t0->done);
  EXPECT_THAT(t0->answer.texts(), ElementsAre("text of 0", ""));
}

TEST_F(CoordinatorTest, AnAgreementTimesOutNamingWhatTheMissingWaitFor) {
  start(2);
  join_all();
  auto a = agree(0, "launch 5", "x");
  auto b = agree(1, "launch 6", "x");
  for (int i = 0; i < 6; ++i) pass(seconds(1)), beat_all();
  ASSERT_TRUE(a->done);
  EXPECT_EQ(a->answer.problem().code(), Problem::DEADLINE);
  EXPECT_THAT(a->answer.problem().message(), AllOf(HasSubstr("'launch 5' (process 0 at train.cc:0) timed out"),
                                                   HasSubstr("it waits for agreement on 'launch 6' at train.cc:1")));
  EXPECT_EQ(agree(1, "launch 5", "x")->answer.problem().code(), Problem::DEADLINE) << "it stays failed";
}

TEST_F(CoordinatorTest, WatchingTasks) {
  start(2);
  WatchTasksRequest request;
  request.set_version(-1);
  FakeCall<WatchTasksResponse> first(-1);
  Outbox out;
  gang_->watch_tasks(request, &first, now_, out);
  out.run();
  ASSERT_TRUE(first.done);
  EXPECT_EQ(first.answer.tasks(0).state(), Task::ABSENT);
  request.set_version(first.answer.version());
  FakeCall<WatchTasksResponse> second(-1);
  gang_->watch_tasks(request, &second, now_, out);
  out.run();
  EXPECT_FALSE(second.done);
  join(1);
  ASSERT_TRUE(second.done);
  EXPECT_EQ(second.answer.tasks(1).state(), Task::WAITING);
  EXPECT_EQ(second.answer.tasks(1).identity().host(), "host1");
}

TEST_F(CoordinatorTest, StoppingAnswersEverything) {
  start(2);
  auto registering = join(0);
  Outbox out;
  gang_->stop("gave up", out);
  out.run();
  ASSERT_TRUE(registering->done);
  EXPECT_EQ(registering->answer.problem().code(), Problem::STOPPED);
  EXPECT_EQ(registering->answer.problem().message(), "gave up");
  EXPECT_TRUE(join(1)->done);
}

class KeyValueTest : public testing::Test {
 protected:
  Problem::Code insert(const std::string& key, const std::string& value, bool overwrite = false) {
    InsertRequest request;
    request.mutable_kv()->set_key(key);
    request.mutable_kv()->set_value(value);
    request.set_overwrite(overwrite);
    FakeCall<InsertResponse> call(0);
    kv_.insert(request, &call, out_);
    out_.run();
    return call.answer.problem().code();
  }
  Answer<GetResponse> get(const std::string& key, int timeout_ms) {
    GetRequest request;
    request.set_key(key);
    request.set_timeout_ms(timeout_ms);
    auto call = std::make_shared<FakeCall<GetResponse>>(0);
    kv_.get(request, call.get(), now_, out_);
    out_.run();
    return call;
  }
  IncrementResponse increment(const std::string& key, std::int64_t by) {
    IncrementRequest request;
    request.set_key(key);
    request.set_by(by);
    IncrementResponse response;
    kv_.increment(request, &response, out_);
    return response;
  }
  std::vector<std::string> keys(const std::string& directory) {
    DirectoryRequest request;
    request.set_directory(directory);
    DirectoryResponse response;
    kv_.directory(request, &response);
    std::vector<std::string> result;
    for (auto& e : response.entries()) result.push_back(e.key());
    return result;
  }
  Time now_{seconds(5)};
  Outbox out_;
  KeyValueStore kv_;
};

TEST_F(KeyValueTest, KeysAreNormalised) {
  EXPECT_EQ(normalized_key("//a///b/"), "a/b");
  EXPECT_EQ(normalized_key("/"), "");
  EXPECT_EQ(insert("/a//b", "1"), Problem::OK);
  EXPECT_EQ(get("a/b/", 0)->answer.value(), "1");
}

TEST_F(KeyValueTest, SettingTwiceHasToBeAskedFor) {
  EXPECT_EQ(insert("k", "1"), Problem::OK);
  EXPECT_EQ(insert("k", "2"), Problem::EXISTS);
  EXPECT_EQ(insert("k", std::string("\0\xff", 2), true), Problem::OK);
  EXPECT_EQ(get("k", 0)->answer.value(), std::string("\0\xff", 2));
}

TEST_F(KeyValueTest, GetWaitsAndTimesOut) {
  auto a = get("k", 1000), b = get("k", 3000), c = get("other", 1000);
  EXPECT_FALSE(a->done || b->done);
  EXPECT_EQ(kv_.next_deadline(), now_ + milliseconds(1000));
  now_ += milliseconds(1500);
  kv_.expire(now_, out_);
  out_.run();
  ASSERT_TRUE(a->done && c->done && !b->done);
  EXPECT_EQ(a->answer.problem().code(), Problem::DEADLINE);
  EXPECT_THAT(a->answer.problem().message(), HasSubstr("the key 'k' within 1.5 s"));
  insert("k", "v");
  ASSERT_TRUE(b->done);
  EXPECT_EQ(b->answer.value(), "v");
}

TEST_F(KeyValueTest, Counters) {
  EXPECT_EQ(increment("n", 5).value(), 5);
  EXPECT_EQ(increment("n", -7).value(), -2);
  auto waiting = get("m", 1000);
  increment("m", 1);
  EXPECT_EQ(waiting->answer.value(), "1");
  insert("text", "12x");
  EXPECT_EQ(increment("text", 1).problem().code(), Problem::PRECONDITION);
  insert("big", std::to_string(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(increment("big", 1).problem().code(), Problem::PRECONDITION);
}

TEST_F(KeyValueTest, DirectoriesAreWhatLiesBelow) {
  for (const char* key : {"a/2", "a/1/x", "a", "ab", "a-b", "b/1"}) insert(key, "");
  EXPECT_THAT(keys("a"), ElementsAre("a/1/x", "a/2"));
  EXPECT_THAT(keys("").size(), 6u);
  DeleteRequest request;
  request.set_key("a");
  kv_.erase(request);
  EXPECT_THAT(keys(""), ElementsAre("a-b", "ab", "b/1"));
}

}  // namespace
}  // namespace lockstep::distributed::coordinator

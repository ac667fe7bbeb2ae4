// What a session does that no Client shows: calls that are given up, and those who don't keep to the protocol.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "lockstep/distributed/coordinator.h"
#include "lockstep/distributed/rpc.h"
#include "lockstep/distributed/service.h"

namespace lockstep::distributed {
namespace {

using namespace coordination;  // NOLINT: the messages
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

// One session with the service, and what has come by it.
class Line {
 public:
  Line(const Service& service, const Ask& first)
      : rpc_("ipv4:127.0.0.1:" + std::to_string(service.port()), ""),
        session_(
            rpc_, first, [this](const Event& e) { take(e); }, [this](RpcResult r) { ended_.set_value(r.code); }) {}
  ~Line() {
    session_.cancel();
    over_.wait();
  }
  // How the coordinator ended it.
  RpcResult::Code ended() {
    return over_.wait_for(seconds(10)) == std::future_status::ready ? over_.get() : RpcResult::deadline;
  }
  bool open() const { return over_.wait_for(milliseconds(0)) != std::future_status::ready; }
  RegisterResponse registered() { return registered_.get_future().get(); }
  Session& session() { return session_; }

 private:
  void take(const Event& event) {
    if (event.has_registered()) registered_.set_value(event.registered());
  }
  std::promise<RegisterResponse> registered_;
  std::promise<RpcResult::Code> ended_;
  std::shared_future<RpcResult::Code> over_ = ended_.get_future().share();
  Rpc rpc_;
  Session session_;
};

class SessionTest : public testing::Test {
 protected:
  static Caller caller(int process) {
    Caller c;
    c.set_process_id(process);
    c.set_incarnation(static_cast<std::uint64_t>(100 + process));
    return c;
  }
  static Ask registration(int process) {
    Ask ask;
    auto& r = *ask.mutable_registration();
    r.set_protocol(coordinator::protocol_version);
    r.set_process_id(process);
    r.set_num_processes(2);
    r.set_incarnation(caller(process).incarnation());
    return ask;
  }
  void join() {
    for (int p = 0; p < 2; ++p) lines_.push_back(std::make_unique<Line>(service_, registration(p)));
    for (auto& line : lines_) {
      RegisterResponse r = line->registered();
      ASSERT_EQ(r.problem().code(), Problem::OK) << r.problem().message();
      service_id_ = r.service();
    }
  }
  Caller member(int process) const {
    Caller c = caller(process);
    c.set_service(service_id_);
    return c;
  }
  GetRequest get(int process, const std::string& key) const {
    GetRequest request;
    *request.mutable_caller() = member(process);
    request.set_key(key);
    request.set_timeout_ms(60000);
    return request;
  }
  // Process 0 waits for a key that is not there.
  std::future<RpcResult> wait_in_vain(RpcContext& context, Time deadline = Time::max()) {
    auto held = std::async(std::launch::async, [this, &context, deadline] {
      GetResponse response;
      return lines_[0]->session().call(context, deadline, get(0, "never"), &response);
    });
    std::this_thread::sleep_for(milliseconds(100));
    return held;
  }
  bool can_set(int process, const std::string& key) {
    InsertRequest request;
    *request.mutable_caller() = member(process);
    request.mutable_kv()->set_key(key);
    InsertResponse response;
    RpcContext context;
    RpcResult result = lines_[process]->session().call(context, Clock::now() + seconds(10), request, &response);
    return result.code == RpcResult::ok && response.problem().code() == Problem::OK;
  }
  // What process 1 hears when it waits in vain for process 0, which is named with all that it waits for.
  std::string barrier_alone() {
    BarrierRequest request;
    *request.mutable_caller() = member(1);
    request.set_name("b");
    request.set_timeout_ms(50);
    request.set_counter(counter_++);
    BarrierResponse response;
    RpcContext context;
    EXPECT_EQ(lines_[1]->session().call(context, Clock::now() + seconds(10), request, &response).code, RpcResult::ok);
    EXPECT_EQ(response.problem().code(), Problem::DEADLINE);
    return response.problem().message();
  }

  Service service_{{.bind_address = "127.0.0.1:0", .num_processes = 2}};
  std::vector<std::unique_ptr<Line>> lines_;
  std::uint64_t service_id_ = 0;
  int counter_ = 0;
};

TEST_F(SessionTest, ACallIsGivenUpAtItsDeadline) {
  join();
  RpcContext context;
  auto held = wait_in_vain(context, Clock::now() + milliseconds(1500));
  EXPECT_THAT(barrier_alone(), HasSubstr("'never'"));
  EXPECT_EQ(held.get().code, RpcResult::deadline);
  EXPECT_TRUE(can_set(0, "after"));  // what was asked before it has been dealt with
  EXPECT_THAT(barrier_alone(), Not(HasSubstr("'never'")));
  EXPECT_TRUE(can_set(1, "never"));
}

TEST_F(SessionTest, ACallIsGivenUpWhenItIsCancelled) {
  join();
  RpcContext context;
  auto held = wait_in_vain(context);
  context.cancel();
  EXPECT_EQ(held.get().code, RpcResult::cancelled);
  EXPECT_TRUE(can_set(0, "after"));
  EXPECT_THAT(barrier_alone(), Not(HasSubstr("'never'")));
  RpcResult again = wait_in_vain(context).get();
  EXPECT_EQ(again.code, RpcResult::cancelled);
  EXPECT_FALSE(again.sent);
}

TEST_F(SessionTest, CallsEndWithTheSession) {
  join();
  RpcContext context, late;
  auto held = wait_in_vain(context);
  lines_[0]->session().cancel();
  EXPECT_EQ(held.get().code, RpcResult::cancelled);
  lines_[0]->ended();
  RpcResult result = wait_in_vain(late).get();
  EXPECT_EQ(result.code, RpcResult::unavailable);
  EXPECT_FALSE(result.sent);
}

TEST_F(SessionTest, WhoDoesNotKeepToTheProtocolIsPutOutAndDisturbsNobody) {
  Ask early;
  early.mutable_insert()->mutable_kv()->set_key("k");
  Ask give_up;
  give_up.mutable_give_up();
  for (const Ask& first : {Ask(), early, give_up}) EXPECT_EQ(Line(service_, first).ended(), RpcResult::ok);

  Ask numbered = registration(0);  // and the first call has the same number, while it waits for process 1
  numbered.set_call(1);
  {
    Line line(service_, numbered);
    GetResponse response;
    RpcContext context;
    EXPECT_EQ(line.session().call(context, Time::max(), get(0, "k"), &response).code, RpcResult::unavailable);
    EXPECT_EQ(line.ended(), RpcResult::ok);
  }
  join();
  EXPECT_TRUE(can_set(0, "k"));
  Ask listen;
  *listen.mutable_listen()->mutable_caller() = caller(1);  // of no gang
  EXPECT_EQ(Line(service_, listen).ended(), RpcResult::ok);
  EXPECT_TRUE(can_set(1, "m"));
  EXPECT_TRUE(lines_[1]->open());
}

TEST_F(SessionTest, WhoIsRefusedIsPutOut) {
  Ask other = registration(0);
  other.mutable_registration()->set_protocol(coordinator::protocol_version + 1);
  Line line(service_, other);
  EXPECT_THAT(line.registered().problem().message(), HasSubstr("control protocol"));
  EXPECT_EQ(line.ended(), RpcResult::ok);
}

}  // namespace
}  // namespace lockstep::distributed

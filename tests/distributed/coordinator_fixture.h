// A coordinator as a state machine, and the processes that talk to it: no threads, no network, time that the test sets.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "lockstep/distributed/coordinator.h"

namespace lockstep::distributed::coordinator {

using namespace coordination;  // NOLINT: the messages
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

template <class Response>
struct FakeCall : CallFor<Response> {
  explicit FakeCall(int process) {
    this->process = process;
    this->response = &answer;
  }
  void finish() override {
    EXPECT_FALSE(done) << "finished twice";
    done = true;
  }
  Response answer;
  bool done = false;
};
template <class Response>
using Answer = std::shared_ptr<FakeCall<Response>>;

struct FakeListener : Listener {
  void send(const Event& event, Outbox&) override { events.push_back(event); }
  void close(Outbox&) override { closed = true; }
  std::vector<Event> events;
  bool closed = false;
};

class CoordinatorTest : public testing::Test {
 protected:
  void start(int count, milliseconds heartbeat_timeout = seconds(10), bool recoverable = false) {
    count_ = count;
    gang_ = std::make_unique<Coordinator>(CoordinatorOptions{count, 77, heartbeat_timeout, recoverable}, now_);
    listeners_ = std::vector<FakeListener>(count);
  }
  RegisterRequest registration(int process, int count, std::uint64_t incarnation) {
    RegisterRequest request;
    request.set_protocol(protocol_version);
    request.set_process_id(process);
    request.set_num_processes(count);
    request.set_incarnation(incarnation);
    request.mutable_identity()->set_host("host" + std::to_string(process));
    request.mutable_identity()->set_pid(100 + process);
    request.mutable_identity()->set_build("build 1");
    return request;
  }
  Answer<RegisterResponse> join(const RegisterRequest& request) {
    auto call = kept<RegisterResponse>(request.process_id());
    auto stranger = std::make_shared<FakeListener>();
    kept_.push_back(stranger);
    bool known = request.process_id() >= 0 && request.process_id() < count_ &&
                 request.incarnation() == caller(request.process_id()).incarnation();
    Outbox out;
    gang_->register_task(request, known ? &listeners_[request.process_id()] : stranger.get(), call.get(), now_, out);
    out.run();
    return call;
  }
  Answer<RegisterResponse> join(int process) { return join(registration(process, count_, 1000 + process)); }
  void join_all() {
    std::vector<Answer<RegisterResponse>> answers;
    for (int p = 0; p < count_; ++p) answers.push_back(join(p));
    for (auto& a : answers) ASSERT_TRUE(a->done && a->answer.problem().code() == Problem::OK);
  }
  Caller caller(int process) {
    Caller c;
    c.set_process_id(process);
    c.set_incarnation(1000 + process);
    c.set_service(77);
    return c;
  }
  void beat(int process, const std::string& phase = "host code") {
    HeartbeatRequest request;
    *request.mutable_caller() = caller(process);
    request.mutable_phase()->set_text(phase);
    HeartbeatResponse response;
    gang_->heartbeat(request, &response, now_);
  }
  void beat_all() {
    for (int p = 0; p < count_; ++p) beat(p);
  }
  void pass(milliseconds time) {
    for (auto end = now_ + time; now_ < end;) {
      now_ += milliseconds(50);
      Outbox out;
      gang_->tick(now_, out);
      out.run();
    }
  }
  Answer<BarrierResponse> barrier(int process, const std::string& name, int counter = 0,
                                  const std::vector<int>& participants = {}, milliseconds timeout = seconds(5)) {
    BarrierRequest request;
    *request.mutable_caller() = caller(process);
    request.set_name(name);
    request.set_counter(counter);
    request.set_timeout_ms(timeout.count());
    for (int p : participants) request.add_participants(p);
    auto call = kept<BarrierResponse>(process);
    Outbox out;
    gang_->barriers().enter(request, call.get(), now_, out);
    out.run();
    return call;
  }
  Answer<AgreeResponse> agree(int process, const std::string& key, const std::string& fingerprint,
                              const std::string& note = "") {
    AgreeRequest request;
    *request.mutable_caller() = caller(process);
    request.set_key(key);
    request.set_fingerprint(fingerprint);
    request.set_call_site("train.cc:" + std::to_string(process));
    request.set_note(note);
    request.set_timeout_ms(5000);
    auto call = kept<AgreeResponse>(process);
    Outbox out;
    gang_->agreements().agree(request, call.get(), now_, out);
    out.run();
    return call;
  }
  Answer<DifferResponse> differ(int process, const std::string& key, const std::string& text) {
    DifferRequest request;
    request.set_key(key);
    request.set_text(text);
    auto call = kept<DifferResponse>(process);
    Outbox out;
    gang_->agreements().differ(request, call.get(), now_, out);
    out.run();
    return call;
  }
  Answer<ShutdownResponse> shut_down(int process, milliseconds timeout = seconds(5)) {
    ShutdownRequest request;
    *request.mutable_caller() = caller(process);
    request.set_timeout_ms(timeout.count());
    auto call = kept<ShutdownResponse>(process);
    Outbox out;
    gang_->shut_down(request, call.get(), now_, out);
    out.run();
    return call;
  }
  const Failure* failure_told_to(int process) {
    for (auto& event : listeners_[process].events)
      if (event.has_failure()) return &event.failure();
    return nullptr;
  }

  // A call stays open until it is answered.
  template <class Response>
  Answer<Response> kept(int process) {
    auto call = std::make_shared<FakeCall<Response>>(process);
    kept_.push_back(call);
    return call;
  }

  Time now_{seconds(1000)};
  int count_ = 0;
  std::vector<std::shared_ptr<void>> kept_;
  std::unique_ptr<Coordinator> gang_;
  std::vector<FakeListener> listeners_;
};

}  // namespace lockstep::distributed::coordinator

// The inside of Client; not for users. client.cc has the calls, client_connect.cc the way into the gang,
// client_watch.cc the thread that listens, sends heartbeats and finds out that the coordinator is lost.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "lockstep/distributed/client.h"
#include "lockstep/distributed/coordination.grpc.pb.h"
#include "lockstep/support/error.h"

namespace lockstep::distributed {

using coordination::CoordinationService;
using coordination::Problem;
using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

ErrorCode error_code(Problem::Code code);
Failure from_proto(const coordination::Failure& failure);
Identity from_proto(const coordination::Identity& identity);
void to_proto(const Identity& from, coordination::Identity* to);

class Client::Impl {
 public:
  explicit Impl(ClientOptions options);
  ~Impl() { close(); }

  void connect();
  void shut_down(Milliseconds timeout);
  void report_error(FailureKind kind, const std::string& message, const std::vector<int>& processes) noexcept;
  void barrier(const std::string& name, Milliseconds timeout, const std::vector<int>& processes);
  void cancel_barrier(const std::string& name);
  std::vector<TaskInfo> tasks();

  std::optional<Failure> failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  enum class Retry { no, yes };
  // One call to the coordinator: fills in the caller, waits at most `timeout`, and throws what went wrong unless
  // `problem` is given, which then holds what the coordinator objects. `Retry::yes` is for calls that may be made
  // twice.
  template <class Request, class Response>
  Response call(const std::string& operation,
                grpc::Status (CoordinationService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                Request& request, Milliseconds timeout, Retry retry, Problem* problem = nullptr) {
    if constexpr (requires { request.mutable_caller(); }) *request.mutable_caller() = caller_;
    Time deadline = Clock::now() + timeout;
    while (true) {
      Response response;
      grpc::Status status;
      {
        Context context(*this, operation, deadline);
        status = ((*stub_).*method)(&context.grpc, request, &response);
      }
      if (status.ok()) {
        if (response.problem().code() == Problem::FAILED || response.problem().code() == Problem::STOPPED)
          await_verdict(operation);
        if (problem != nullptr)
          *problem = response.problem();
        else if (response.problem().code() != Problem::OK)
          throw_error(error_code(response.problem().code()), operation, "{}", response.problem().message());
        return response;
      }
      judge(operation, status, retry, deadline);
    }
  }

  const ClientOptions& options() const { return options_; }
  const std::vector<Identity>& members();

 private:
  // A context of a call in progress, so that it can be cancelled.
  struct Context {
    Context(Impl& client, const std::string& operation, Time deadline) : client_(client) {
      client.prepare(grpc, deadline);
      std::lock_guard lock(client.mutex_);
      client.check_usable(operation);
      client.contexts_.insert(&grpc);
    }
    ~Context() {
      std::lock_guard lock(client_.mutex_);
      client_.contexts_.erase(&grpc);
    }
    grpc::ClientContext grpc;

   private:
    Impl& client_;
  };
  class Listener;
  struct Heartbeat {
    grpc::ClientContext context;
    coordination::HeartbeatRequest request;
    coordination::HeartbeatResponse response;
  };

  void prepare(grpc::ClientContext& context, Time deadline) const;  // Time::max(): none
  void check_usable(const std::string& operation) const;            // with mutex_ held
  // Throws the failure that is about to be known, if it comes soon.
  void await_verdict(const std::string& operation);
  // What a broken call means: throws, or returns if it is to be made again.
  void judge(const std::string& operation, const grpc::Status& status, Retry retry, Time deadline);

  // The coordinator's numeric address, or "" and the reason why it can't be reached now.
  std::string reach_coordinator(bool probing, std::string& reason) const;
  // True: registered. False: the connection failed, for this reason; try again.
  bool try_register(const std::string& target, Time began, Time deadline, Time& next_progress, std::string& reason);
  std::string joined_and_missing();
  void progress(const std::string& text) const;

  void run();
  void listen();
  void unlisten();
  void beat();
  void end_heartbeat(std::unique_lock<std::mutex>& lock);
  void handle(const coordination::Event& event, std::unique_lock<std::mutex>& lock);
  void fail(Failure failure, std::unique_lock<std::mutex>& lock);
  void coordinator_lost(const std::string& how, std::unique_lock<std::mutex>& lock);
  void close();

  ClientOptions options_;
  coordination::Caller caller_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<CoordinationService::Stub> stub_;
  std::string roster_;  // serialised
  std::once_flag roster_read_;
  std::vector<Identity> members_;
  Milliseconds heartbeat_timeout_{};
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool connected_ = false, closing_ = false, ended_ = false;  // ended: the coordinator has let this process go
  std::optional<Failure> failure_;
  std::set<grpc::ClientContext*> contexts_;
  std::deque<coordination::Event> events_;
  std::unique_ptr<Listener> listener_;
  bool welcome_ = false, listener_done_ = false;
  std::string listener_status_;
  std::unique_ptr<Heartbeat> heartbeat_;
  bool heartbeat_done_ = false, heartbeat_ok_ = false, tell_phase_ = false;
  Time last_answer_{};
  struct BarrierUse {
    std::int64_t counter = 0;
    bool waiting = false;
  };
  std::map<std::string, BarrierUse> barriers_;
};

// The stream of the coordinator's words.
class Client::Impl::Listener final : public grpc::ClientReadReactor<coordination::Event> {
 public:
  explicit Listener(Impl& client) : client_(client) {
    client.prepare(context, Time::max());
    *request_.mutable_caller() = client.caller_;
    client.stub_->async()->Listen(&context, &request_, this);
    StartRead(&event_);
    StartCall();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      std::lock_guard lock(client_.mutex_);
      if (event_.has_welcome()) client_.welcome_ = true;
      client_.events_.push_back(event_);
      client_.changed_.notify_all();
    }
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    std::lock_guard lock(client_.mutex_);
    client_.listener_done_ = true;
    client_.listener_status_ = status.ok() ? "" : status.error_message();
    client_.changed_.notify_all();
  }
  grpc::ClientContext context;

 private:
  Impl& client_;
  coordination::ListenRequest request_;
  coordination::Event event_;
};

}  // namespace lockstep::distributed

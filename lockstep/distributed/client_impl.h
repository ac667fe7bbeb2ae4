// The inside of Client; not for users. client.cc has the calls, client_connect.cc the way into the gang,
// client_watch.cc the session, and the thread that sends heartbeats and finds out that the coordinator is lost.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/rpc.h"
#include "lockstep/support/error.h"

namespace lockstep::distributed {

using coordination::Problem;

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
  void close();
  std::vector<TaskInfo> tasks();

  std::optional<Failure> failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  enum class Retry { no, yes };
  // One call to the coordinator: fills in the caller, waits at most `timeout`, and throws what went wrong unless
  // `problem` is given, which then holds what the coordinator objects. `Retry::yes` is for calls that may be made
  // twice.
  template <class Response, class Request>
  Response call(const std::string& operation, Request& request, Milliseconds timeout, Retry retry,
                Problem* problem = nullptr) {
    if constexpr (requires { request.mutable_caller(); }) *request.mutable_caller() = caller_;
    Time deadline = Clock::now() + timeout;
    while (true) {
      Response response;
      RpcResult result;
      {
        Context context(*this, operation);
        if constexpr (Rpc::carries<Request>)
          result = rpc_->call(context.rpc, deadline, request, &response);
        else
          result = context.session->call(context.rpc, deadline, request, &response);
      }
      if (result.code == RpcResult::ok) {
        if (response.problem().code() == Problem::FAILED || response.problem().code() == Problem::STOPPED)
          await_verdict(operation);
        if (problem != nullptr)
          *problem = response.problem();
        else if (response.problem().code() != Problem::OK)
          throw_error(error_code(response.problem().code()), operation, "{}", response.problem().message());
        return response;
      }
      judge(operation, result, retry, deadline);
    }
  }

  const ClientOptions& options() const { return options_; }
  const std::string& address() const { return address_; }
  const std::vector<Identity>& members();

 private:
  // A call in progress, so that it can be cancelled.
  struct Context {
    Context(Impl& client, const std::string& operation) : client_(client) {
      std::lock_guard lock(client.mutex_);
      client.check_usable(operation);
      client.contexts_.insert(&rpc);
      session = client.session_;
    }
    ~Context() {
      std::lock_guard lock(client_.mutex_);
      client_.contexts_.erase(&rpc);
      if (client_.closing_) client_.changed_.notify_all();
    }
    RpcContext rpc;
    std::shared_ptr<Session> session;

   private:
    Impl& client_;
  };
  struct Heartbeat {
    RpcContext context;
    coordination::HeartbeatRequest request;
    coordination::HeartbeatResponse response;
  };

  void check_usable(const std::string& operation) const;  // with mutex_ held
  // Throws the failure that is about to be known, if it comes soon.
  void await_verdict(const std::string& operation);
  // What a broken call means: throws, or returns if it is to be made again.
  void judge(const std::string& operation, const RpcResult& result, Retry retry, Time deadline);

  // The numeric address, or "" and the reason why it can't be reached now.
  std::string reach_coordinator(const Address& address, bool probing, std::string& reason) const;
  // Goes through the coordinator's addresses until one registers this process; false, and the reasons, if none does.
  bool try_each(bool again, Time began, Time deadline, Time& next_progress, std::string& reason);
  // True: registered. False: the connection failed, for this reason; try again.
  bool try_register(const std::string& target, Time began, Time deadline, Time& next_progress, std::string& reason);
  // After a failed connection: Error(distributed) if TLS can never succeed.
  void check_tls() const;
  // `result`: how asking went.
  std::string joined_and_missing(RpcResult& result);
  void progress(const std::string& text) const;

  void run();
  void open_session(const coordination::Ask& first);
  void end_session();
  void beat();
  void end_heartbeat(std::unique_lock<std::mutex>& lock);
  void handle(const coordination::Event& event, std::unique_lock<std::mutex>& lock);
  void fail(Failure failure, std::unique_lock<std::mutex>& lock);
  void coordinator_lost(const std::string& how, std::unique_lock<std::mutex>& lock);

  ClientOptions options_;
  const std::vector<Address> addresses_ = parse_addresses(options_.address, "initialize");
  std::string address_ = options_.address;  // of several, the one that answers
  coordination::Caller caller_;
  // For the first attempt, made ahead where nobody has to be asked what the address stands for.
  std::string first_target_;
  std::unique_ptr<Rpc> first_rpc_;
  std::unique_ptr<Rpc> rpc_;
  std::string roster_;  // serialised
  std::once_flag roster_read_;
  std::vector<Identity> members_;
  Milliseconds heartbeat_timeout_{};
  std::thread thread_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool connected_ = false, closing_ = false, ended_ = false;  // ended: the coordinator has let this process go
  std::optional<Failure> failure_;
  std::set<RpcContext*> contexts_;
  std::deque<coordination::Event> events_;
  std::shared_ptr<Session> session_;
  bool welcome_ = false, session_over_ = false;
  RpcResult session_end_;                                     // once it is over
  std::optional<coordination::RegisterResponse> registered_;  // once it is answered
  std::unique_ptr<Heartbeat> heartbeat_;
  bool heartbeat_done_ = false, heartbeat_ok_ = false, tell_phase_ = false;
  Time last_answer_{};
  struct BarrierUse {
    std::int64_t counter = 0;
    bool waiting = false;
  };
  std::map<std::string, BarrierUse> barriers_;
};

}  // namespace lockstep::distributed

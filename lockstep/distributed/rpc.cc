#include "lockstep/distributed/rpc.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <mutex>

#include "lockstep/distributed/coordination.grpc.pb.h"
#include "lockstep/support/handover.h"

namespace lockstep::distributed {

using namespace coordination;  // NOLINT: the messages
using Stub = CoordinationService::Stub;

namespace {

RpcResult result_of(const grpc::Status& status) {
  RpcResult result{.message = status.error_message()};
  switch (status.error_code()) {
    case grpc::StatusCode::OK:
      result.code = RpcResult::ok;
      break;
    case grpc::StatusCode::CANCELLED:
      result.code = RpcResult::cancelled;
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      result.code = RpcResult::deadline;
      break;
    case grpc::StatusCode::UNAVAILABLE:
      result.code = RpcResult::unavailable;
      break;
    case grpc::StatusCode::UNIMPLEMENTED:
      result.code = RpcResult::unimplemented;
      break;
    case grpc::StatusCode::PERMISSION_DENIED:
      result.code = RpcResult::denied;
      break;
    default:
      result.code = RpcResult::other;
  }
  return result;
}

// Who waits for a call's end. A synchronous call of gRPC's would poll the connections from the waiting thread, beside
// gRPC's own threads, which then hand each other what arrived: twice the time of a call.
class Waiter {
 public:
  void end(RpcResult result) {
    {
      std::lock_guard lock(mutex_);
      result_ = std::move(result);
    }
    changed_.notify_one();
  }
  RpcResult wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return result_.has_value(); });
    return std::move(*result_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<RpcResult> result_;
};

}  // namespace

struct RpcContext::Impl {
  grpc::ClientContext context;
};
RpcContext::RpcContext() : impl_(std::make_unique<Impl>()) {}
RpcContext::~RpcContext() = default;
void RpcContext::cancel() { impl_->context.TryCancel(); }

struct Rpc::Impl {
  std::string token;
  std::unique_ptr<Stub> stub;

  void prepare(grpc::ClientContext& context, Time deadline) const {
    if (deadline != Time::max()) context.set_deadline(std::chrono::system_clock::now() + (deadline - Clock::now()));
    if (!token.empty()) context.AddMetadata("lockstep-token", token);
  }
};

Rpc::Rpc(const std::string& target, std::string token, const std::optional<Tls>& tls)
    : impl_(std::make_unique<Impl>()) {
  // Debian builds Abseil with its deadlock detector on, which costs every lock a search.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  impl_->token = std::move(token);
  auto credentials = grpc::InsecureChannelCredentials();
  if (tls) {
    credentials = grpc::SslCredentials(
        {.pem_root_certs = tls->ca, .pem_private_key = tls->key, .pem_cert_chain = tls->certificate});
    arguments.SetSslTargetNameOverride(tls->name);
  }
  impl_->stub = CoordinationService::NewStub(grpc::CreateCustomChannel(target, credentials, arguments));
}
Rpc::~Rpc() = default;

// One definition for every method: the requests' types tell them apart.
#define LOCKSTEP_METHOD(Name)                                                                                       \
  template <>                                                                                                       \
  void Rpc::start(RpcContext& context, Time deadline, const Name##Request& request, Name##Response* response,       \
                  std::function<void(RpcResult)> done) {                                                            \
    impl_->prepare(context.impl_->context, deadline);                                                               \
    give();                                                                                                         \
    impl_->stub->async()->Name(&context.impl_->context, &request, response,                                         \
                               [done = std::move(done)](const grpc::Status& s) {                                    \
                                 take();                                                                            \
                                 done(result_of(s));                                                                \
                               });                                                                                  \
  }                                                                                                                 \
  template <>                                                                                                       \
  RpcResult Rpc::call(RpcContext& context, Time deadline, const Name##Request& request, Name##Response* response) { \
    auto waiter = std::make_shared<Waiter>();                                                                       \
    start(context, deadline, request, response, [waiter](RpcResult r) { waiter->end(std::move(r)); });              \
    return waiter->wait();                                                                                          \
  }
LOCKSTEP_METHOD(Heartbeat)
LOCKSTEP_METHOD(ReportError)
LOCKSTEP_METHOD(Shutdown)
LOCKSTEP_METHOD(Live)
LOCKSTEP_METHOD(WatchTasks)
LOCKSTEP_METHOD(Insert)
LOCKSTEP_METHOD(Get)
LOCKSTEP_METHOD(TryGet)
LOCKSTEP_METHOD(Directory)
LOCKSTEP_METHOD(Increment)
LOCKSTEP_METHOD(Delete)
LOCKSTEP_METHOD(Barrier)
LOCKSTEP_METHOD(CancelBarrier)
LOCKSTEP_METHOD(Agree)
LOCKSTEP_METHOD(Differ)
#undef LOCKSTEP_METHOD

class EventStream::Impl final : public grpc::ClientReadReactor<Event> {
 public:
  Impl(Rpc::Impl& rpc, const ListenRequest& request, std::function<void(const Event&)> on_event,
       std::function<void(RpcResult)> ended)
      : on_event_(std::move(on_event)), ended_(std::move(ended)), request_(request) {
    rpc.prepare(context_, Time::max());
    rpc.stub->async()->Listen(&context_, &request_, this);
  }
  void start() {
    give();
    StartRead(&event_);
    StartCall();
  }
  void cancel() { context_.TryCancel(); }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    take();
    on_event_(event_);
    give();
    StartRead(&event_);
  }
  void OnDone(const grpc::Status& status) override {
    take();
    auto ended = std::move(ended_);  // the stream may be gone when it returns
    ended(result_of(status));
  }

 private:
  std::function<void(const Event&)> on_event_;
  std::function<void(RpcResult)> ended_;
  grpc::ClientContext context_;
  ListenRequest request_;
  Event event_;
};

EventStream::EventStream(Rpc& rpc, const ListenRequest& request, std::function<void(const Event&)> on_event,
                         std::function<void(RpcResult)> ended)
    : impl_(std::make_unique<Impl>(*rpc.impl_, request, std::move(on_event), std::move(ended))) {
  impl_->start();
}
EventStream::~EventStream() = default;
void EventStream::cancel() { impl_->cancel(); }

}  // namespace lockstep::distributed

#include "lockstep/distributed/rpc.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
#include <map>
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
  std::mutex mutex;
  bool cancelled = false;
  std::function<void()> stop;              // of a call in a session
  std::optional<grpc::ClientContext> rpc;  // of a call of its own
};
RpcContext::RpcContext() : impl_(std::make_unique<Impl>()) {}
RpcContext::~RpcContext() = default;
void RpcContext::cancel() {
  std::lock_guard lock(impl_->mutex);
  impl_->cancelled = true;
  if (impl_->rpc) impl_->rpc->TryCancel();
  if (impl_->stop) impl_->stop();
}

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
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // the client knows better what may be made again
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
    grpc::ClientContext* rpc;                                                                                       \
    {                                                                                                               \
      std::lock_guard lock(context.impl_->mutex);                                                                   \
      rpc = &context.impl_->rpc.emplace();                                                                          \
      impl_->prepare(*rpc, deadline);                                                                               \
      if (context.impl_->cancelled) rpc->TryCancel();                                                               \
    }                                                                                                               \
    give();                                                                                                         \
    impl_->stub->async()->Name(rpc, &request, response, [done = std::move(done)](const grpc::Status& s) {           \
      take();                                                                                                       \
      done(result_of(s));                                                                                           \
    });                                                                                                             \
  }                                                                                                                 \
  template <>                                                                                                       \
  RpcResult Rpc::call(RpcContext& context, Time deadline, const Name##Request& request, Name##Response* response) { \
    auto waiter = std::make_shared<Waiter>();                                                                       \
    start(context, deadline, request, response, [waiter](RpcResult r) { waiter->end(std::move(r)); });              \
    return waiter->wait();                                                                                          \
  }
LOCKSTEP_METHOD(Heartbeat)
LOCKSTEP_METHOD(ReportError)
LOCKSTEP_METHOD(WatchTasks)
#undef LOCKSTEP_METHOD

// `mutex_` guards all but what only the callbacks touch. A hold keeps gRPC from ending the call under a write that
// another thread is about to start; the first is dropped when there is nothing more to read.
class Session::Impl final : public grpc::ClientBidiReactor<Ask, Event> {
 public:
  Impl(Rpc::Impl& rpc, const Ask& first, std::function<void(Event&)> on_event, std::function<void(RpcResult)> ended)
      : on_event_(std::move(on_event)), ended_(std::move(ended)), asks_{first} {
    rpc.prepare(context_, Time::max());
    context_.set_initial_metadata_corked(true);  // it leaves with the first word
    rpc.stub->async()->Session(&context_, this);
  }
  void start() {
    give();
    AddHold();
    writing_ = true;
    StartWrite(&asks_.front());
    StartRead(&event_);
    StartCall();
  }
  void cancel() { context_.TryCancel(); }

  // `fill` puts the request into an Ask, `read` takes the response out of an Answer.
  RpcResult call(RpcContext::Impl& context, Time deadline, const std::function<void(Ask&)>& fill,
                 const std::function<void(Answer&)>& read) {
    Ask ask;
    fill(ask);
    Open open{.read = read};
    {
      std::lock_guard context_lock(context.mutex);
      if (context.cancelled) return {.code = RpcResult::cancelled, .sent = false};
      context.stop = [this, &open] { end(open, {.code = RpcResult::cancelled}); };
    }
    std::unique_lock lock(mutex_);
    const std::int64_t id = ++last_call_;
    ask.set_call(id);
    if (over_) end_locked(open, {.code = RpcResult::unavailable, .message = "the connection is closed", .sent = false});
    if (!open.result) {
      open_.emplace(id, &open);
      asks_.push_back(std::move(ask));
      write(lock);
    }
    auto ended = [&] { return open.result.has_value(); };
    if (deadline == Time::max())
      open.changed.wait(lock, ended);
    else if (!open.changed.wait_until(lock, deadline, ended))
      open.result = {.code = RpcResult::deadline, .message = "no answer in time"};
    if (open_.erase(id) > 0 && !over_) {
      asks_.emplace_back().set_call(id);
      asks_.back().mutable_give_up();
      write(lock);
    }
    lock.unlock();
    std::lock_guard context_lock(context.mutex);  // waits for a cancel() that is on its way
    context.stop = nullptr;
    return std::move(*open.result);
  }

  void OnReadDone(bool ok) override {
    take();
    if (!ok) {
      {
        std::lock_guard lock(mutex_);
        over_ = true;
      }
      return RemoveHold();
    }
    if (event_.has_answer())
      answered(*event_.mutable_answer());
    else
      on_event_(event_);
    give();
    StartRead(&event_);
  }
  void OnWriteDone(bool ok) override {
    take();
    std::unique_lock lock(mutex_);
    writing_ = false;
    asks_.pop_front();
    if (ok) write(lock);
  }
  void OnDone(const grpc::Status& status) override {
    take();
    RpcResult result = result_of(status);
    {
      std::lock_guard lock(mutex_);
      RpcResult lost = result;
      if (status.ok()) lost = {.code = RpcResult::unavailable, .message = "the coordinator has closed the connection"};
      for (auto& [id, open] : open_) end_locked(*open, lost);
      open_.clear();
    }
    auto ended = std::move(ended_);  // the session may be gone when it returns
    ended(std::move(result));
  }

 private:
  struct Open {
    const std::function<void(Answer&)>& read;
    std::condition_variable changed;
    std::optional<RpcResult> result;
  };

  void end(Open& open, RpcResult result) {
    std::lock_guard lock(mutex_);
    end_locked(open, std::move(result));
  }
  static void end_locked(Open& open, RpcResult result) {
    if (open.result) return;
    open.result = std::move(result);
    open.changed.notify_one();
  }
  void answered(Answer& answer) {
    std::lock_guard lock(mutex_);
    auto it = open_.find(answer.call());
    if (it == open_.end()) return;  // given up
    Open& open = *it->second;
    open_.erase(it);
    open.read(answer);
    end_locked(open, {});
  }
  void write(std::unique_lock<std::mutex>& lock) {
    if (writing_ || over_ || asks_.empty()) return;
    writing_ = true;
    const Ask* ask = &asks_.front();
    AddHold();
    lock.unlock();
    give();
    StartWrite(ask);
    RemoveHold();
    lock.lock();
  }

  std::function<void(Event&)> on_event_;
  std::function<void(RpcResult)> ended_;
  grpc::ClientContext context_;
  Event event_;
  std::mutex mutex_;
  std::deque<Ask> asks_;  // the first is being written
  bool writing_ = false, over_ = false;
  std::int64_t last_call_ = 0;
  std::map<std::int64_t, Open*> open_;
};

Session::Session(Rpc& rpc, const Ask& first, std::function<void(Event&)> on_event, std::function<void(RpcResult)> ended)
    : impl_(std::make_unique<Impl>(*rpc.impl_, first, std::move(on_event), std::move(ended))) {
  impl_->start();
}
Session::~Session() = default;
void Session::cancel() { impl_->cancel(); }

#define LOCKSTEP_ASK(Name, field)                                                           \
  template <>                                                                               \
  RpcResult Session::call(RpcContext& context, Time deadline, const Name##Request& request, \
                          Name##Response* response) {                                       \
    return impl_->call(                                                                     \
        *context.impl_, deadline, [&](Ask& ask) { *ask.mutable_##field() = request; },      \
        [response](Answer& answer) { *response = std::move(*answer.mutable_##field()); });  \
  }
LOCKSTEP_ASK(Insert, insert)
LOCKSTEP_ASK(Get, get)
LOCKSTEP_ASK(TryGet, try_get)
LOCKSTEP_ASK(Directory, directory)
LOCKSTEP_ASK(Increment, increment)
LOCKSTEP_ASK(Delete, erase)
LOCKSTEP_ASK(Barrier, barrier)
LOCKSTEP_ASK(CancelBarrier, cancel_barrier)
LOCKSTEP_ASK(Agree, agree)
LOCKSTEP_ASK(Differ, differ)
LOCKSTEP_ASK(Live, live)
LOCKSTEP_ASK(Shutdown, shutdown)
#undef LOCKSTEP_ASK

}  // namespace lockstep::distributed

#include "lockstep/distributed/service.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/coordination.grpc.pb.h"
#include "lockstep/distributed/coordinator.h"
#include "lockstep/support/error.h"
#include "lockstep/support/handover.h"
#include "lockstep/support/log.h"

namespace lockstep::distributed {

using namespace coordination;  // NOLINT: the messages
using coordinator::Call;
using coordinator::CallFor;
using coordinator::Clock;
using coordinator::Coordinator;
using coordinator::Outbox;
using coordinator::Time;

namespace {

constexpr std::chrono::milliseconds grain{100};
constexpr std::chrono::seconds time_to_flush{2};

std::uint64_t random_number() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

std::shared_ptr<grpc::ServerCredentials> credentials_of(const std::optional<Tls>& tls) {
  if (!tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls->ca;
  options.pem_key_cert_pairs.push_back({tls->key, tls->certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace

// Locking: `mutex_` guards the coordinator, the outbox is run after it is released. gRPC calls into Held and Stream
// from its own threads; both outlive the coordinator's knowledge of them, because a call is finished only by whoever
// took it out of the coordinator.
class Service::Impl final : public CoordinationService::CallbackService {
 public:
  explicit Impl(const ServiceOptions& options)
      : token_(options.token),
        tls_name_(options.tls ? options.tls->name : ""),
        coordinator_({.num_processes = options.num_processes,
                      .incarnation = random_number(),
                      .heartbeat_timeout = options.heartbeat_timeout,
                      .recoverable = options.recoverable},
                     Clock::now()) {
    absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
    Address address = parse_address(options.bind_address, "initialize");
    check_bindable(address, "initialize");
    std::string error;
    auto endpoints = resolve(address, error);
    if (options.token.empty() && !options.tls && options.num_processes > 1 && !endpoints.empty() &&
        !endpoints.front().loopback)
      log::warning(
          "the coordinator listens on {} without a token: whoever reaches the port can join or end the gang. Set "
          "LOCKSTEP_TOKEN to the same secret on every process, or use TLS (LOCKSTEP_TLS_CERT).",
          address.text());
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    builder.AddListeningPort(endpoints.empty() ? address.text() : endpoints.front().numeric,
                             credentials_of(options.tls), &port_);
    builder.RegisterService(this);
    give();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0)
      throw_error(ErrorCode::distributed, "initialize", "the coordinator could not listen on {}", address.text());
    housekeeper_ = std::thread([this] { keep_house(); });
  }

  ~Impl() override { stop("the coordinator was ended"); }

  void stop(const std::string& reason) {
    {
      std::unique_lock lock(mutex_);
      if (stopping_) return;
      stopping_ = true;
      Outbox out;
      coordinator_.stop(reason, out);
      lock.unlock();
      out.run();
    }
    wake_.notify_all();
    housekeeper_.join();
    server_->Shutdown(std::chrono::system_clock::now() + time_to_flush);
    server_->Wait();
    std::unique_lock lock(mutex_);
    drained_.wait(lock, [&] { return open_ == 0; });
  }

  int port() const { return port_; }

  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context, const HeartbeatRequest* request,
                                      HeartbeatResponse* response) override {
    return hold(context, response, [&](auto* call, Time now, Outbox& out) {
      coordinator_.heartbeat(*request, response, now);
      out.finish(call);
    });
  }
  grpc::ServerUnaryReactor* ReportError(grpc::CallbackServerContext* context, const ReportErrorRequest* request,
                                        ReportErrorResponse* response) override {
    return hold(context, response,
                [&](auto* call, Time now, Outbox& out) { coordinator_.report_error(*request, call, now, out); });
  }
  grpc::ServerUnaryReactor* WatchTasks(grpc::CallbackServerContext* context, const WatchTasksRequest* request,
                                       WatchTasksResponse* response) override {
    return hold(context, response,
                [&](auto* call, Time now, Outbox& out) { coordinator_.watch_tasks(*request, call, now, out); });
  }
  grpc::ServerBidiReactor<Ask, Event>* Session(grpc::CallbackServerContext* context) override {
    take();
    opened();
    auto* stream = new Stream(*this);
    if (const char* why = objection(*context))
      stream->refuse({grpc::StatusCode::PERMISSION_DENIED, why});
    else
      stream->read();
    return stream;
  }

 private:
  // A unary call from its arrival to its end.
  template <class Response>
  class Held final : public grpc::ServerUnaryReactor, public CallFor<Response> {
   public:
    explicit Held(Impl& service) : service_(service) {}
    void finish() override {
      give();
      Finish(grpc::Status::OK);
    }
    void OnCancel() override {
      take();
      {
        std::lock_guard lock(service_.mutex_);
        if (this->answered) return;
        this->answered = true;
        service_.coordinator_.forget(this);
      }
      give();
      Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override {
      take();
      service_.closed(this);
    }

   private:
    Impl& service_;
  };

  // A process's session. All its state is guarded by the service's mutex; one read and one write are in flight at a
  // time. It goes when gRPC is done with it and no outbox refers to it.
  class Stream final : public grpc::ServerBidiReactor<Ask, Event>, public coordinator::Listener {
   public:
    explicit Stream(Impl& service) : service_(service) {}
    void read() {
      give();
      StartRead(&ask_);
    }
    void send(const Event& event, Outbox& out) override {
      queue_.push_back(event);
      pump_later(out);
    }
    void close(Outbox& out) override {
      closing_ = true;
      pump_later(out);
    }
    void refuse(const grpc::Status& status) {
      finished_ = true;
      give();
      Finish(status);
    }
    void OnReadDone(bool ok) override {
      take();
      // A session that says nothing more has said who it is, or never will.
      if (!ok) return pump([this] { closing_ = closing_ || !begun_; });
      bool over = false;
      service_.step([&](Time now, Outbox& out) {
        over = closing_ || finished_;
        return over ? nullptr : handle(now, out);
      });
      if (!over) read();
    }
    void OnWriteDone(bool ok) override {
      take();
      pump([this] { writing_ = false; });
    }
    void OnCancel() override {
      take();
      pump([this] { leave(); });
    }
    void OnDone() override {
      take();
      pump([this] {
        leave();
        done_ = true;
      });
    }

   private:
    // A question, from its arrival to its answer.
    struct Open {
      virtual ~Open() = default;
      virtual Call& call() = 0;
      Ask ask;
      Event event;  // to be the answer
    };
    template <class Response>
    struct OpenFor final : Open, CallFor<Response> {
      explicit OpenFor(Stream& s) : stream(s) {}
      Call& call() override { return *this; }
      void finish() override { stream.tell(this->ask.call()); }
      Stream& stream;
    };

    // What `ask_` says; the call that it opened, or null.
    Call* handle(Time now, Outbox& out) {
      Coordinator& gang = service_.coordinator_;
      if (bool first = ask_.has_registration() || ask_.has_listen(); first == begun_) return give_up_on_it(out);
      begun_ = true;
      switch (ask_.what_case()) {
        case Ask::kRegistration: {
          process_ = ask_.registration().process_id();
          auto* call = open<RegisterResponse>(process_);
          call->response = call->event.mutable_registered();
          gang.register_task(call->ask.registration(), this, call, now, out);
          return call;
        }
        case Ask::kListen:
          process_ = ask_.listen().caller().process_id();
          gang.listen(ask_.listen(), this, now, out);
          return nullptr;
        case Ask::kGiveUp:
          if (auto it = open_.find(ask_.call()); it != open_.end()) {
            if (it->second->event.has_registered()) return give_up_on_it(out);
            if (forget(*it->second)) open_.erase(it);
          }
          return nullptr;
        case Ask::kInsert:
          return member(&Ask::insert, &Answer::mutable_insert, out,
                        [&](auto& request, auto* call) { gang.kv().insert(request, call, out); });
        case Ask::kGet:
          return member(&Ask::get, &Answer::mutable_get, out,
                        [&](auto& request, auto* call) { gang.kv().get(request, call, now, out); });
        case Ask::kTryGet:
          return member(&Ask::try_get, &Answer::mutable_try_get, out, [&](auto& request, auto* call) {
            gang.kv().try_get(request, call->response);
            out.finish(call);
          });
        case Ask::kDirectory:
          return member(&Ask::directory, &Answer::mutable_directory, out, [&](auto& request, auto* call) {
            gang.kv().directory(request, call->response);
            out.finish(call);
          });
        case Ask::kIncrement:
          return member(&Ask::increment, &Answer::mutable_increment, out, [&](auto& request, auto* call) {
            gang.kv().increment(request, call->response, out);
            out.finish(call);
          });
        case Ask::kErase:
          return member(&Ask::erase, &Answer::mutable_erase, out, [&](auto& request, auto* call) {
            gang.kv().erase(request);
            out.finish(call);
          });
        case Ask::kBarrier:
          return member(&Ask::barrier, &Answer::mutable_barrier, out,
                        [&](auto& request, auto* call) { gang.barriers().enter(request, call, now, out); });
        case Ask::kCancelBarrier:
          return member(&Ask::cancel_barrier, &Answer::mutable_cancel_barrier, out, [&](auto& request, auto* call) {
            gang.barriers().cancel(request, call->response, out);
            out.finish(call);
          });
        case Ask::kAgree:
          return member(&Ask::agree, &Answer::mutable_agree, out,
                        [&](auto& request, auto* call) { gang.agreements().agree(request, call, now, out); });
        case Ask::kDiffer:
          return member(&Ask::differ, &Answer::mutable_differ, out,
                        [&](auto& request, auto* call) { gang.agreements().differ(request, call, now, out); });
        case Ask::kLive:
          return member(&Ask::live, &Answer::mutable_live, out,
                        [&](auto& request, auto* call) { gang.live(request, call, now, out); });
        case Ask::kShutdown:
          return member(&Ask::shutdown, &Answer::mutable_shutdown, out,
                        [&](auto& request, auto* call) { gang.shut_down(request, call, now, out); });
        case Ask::WHAT_NOT_SET:
          return give_up_on_it(out);
      }
      return nullptr;
    }
    // A call that only members of a gang in order may make.
    template <class Request, class Response, class Handle>
    Call* member(const Request& (Ask::*request)() const, Response* (Answer::*response)(), Outbox& out,
                 Handle&& handle) {
      auto* call = open<Response>((ask_.*request)().caller().process_id());
      if (call == nullptr) return give_up_on_it(out);
      Answer& answer = *call->event.mutable_answer();
      answer.set_call(call->ask.call());
      call->response = (answer.*response)();
      const Request& asked = (call->ask.*request)();
      Problem problem = service_.coordinator_.admit(asked.caller());
      if (problem.code() == Problem::OK) {
        handle(asked, call);
      } else {
        *call->response->mutable_problem() = std::move(problem);
        out.finish(call);
      }
      return call;
    }
    // Null: a call of this number is open.
    template <class Response>
    OpenFor<Response>* open(int process) {
      auto call = std::make_unique<OpenFor<Response>>(*this);
      OpenFor<Response>* raw = call.get();
      if (!open_.try_emplace(ask_.call(), std::move(call)).second) return nullptr;
      raw->ask = std::move(ask_);
      raw->process = process;
      return raw;
    }
    // Whoever speaks here does not keep to the protocol.
    Call* give_up_on_it(Outbox& out) {
      close(out);
      return nullptr;
    }
    void tell(std::int64_t call) {
      pump([&] {
        auto open = open_.extract(call);
        Event& event = open.mapped()->event;
        closing_ = closing_ || (event.has_registered() && event.registered().problem().code() != Problem::OK);
        queue_.push_back(std::move(event));
      });
    }
    // The process is gone.
    void leave() {
      closing_ = true;
      queue_.clear();
      service_.coordinator_.listener_gone(process_, this, Clock::now());
      forget_open();
    }
    void forget_open() {
      std::erase_if(open_, [this](auto& entry) { return forget(*entry.second); });
    }
    // Nobody waits for the answer any more; false: it is in an outbox.
    bool forget(Open& open) {
      if (open.call().answered) return false;
      open.call().answered = true;
      service_.coordinator_.forget(&open.call());
      return true;
    }
    void pump_later(Outbox& out) {
      ++pumps_;
      out.add([this] { pump([this] { --pumps_; }); });
    }
    template <class Change>
    void pump(Change&& change) {
      std::unique_lock lock(service_.mutex_);
      change();
      auto in_outbox = [this] {
        return pumps_ > 0 ||
               std::any_of(open_.begin(), open_.end(), [](auto& entry) { return entry.second->call().answered; });
      };
      if (done_) {
        if (in_outbox()) return;
        lock.unlock();
        return service_.closed(this);
      }
      if (writing_ || finished_) return;
      if (!queue_.empty()) {
        current_ = std::move(queue_.front());
        queue_.pop_front();
        writing_ = true;
        lock.unlock();
        give();
        StartWrite(&current_);
      } else if (closing_ && !in_outbox()) {
        forget_open();
        finished_ = true;
        lock.unlock();
        give();
        Finish(grpc::Status::OK);
      }
    }

    Impl& service_;
    int process_ = -1;
    Ask ask_;  // being read
    std::map<std::int64_t, std::unique_ptr<Open>> open_;
    std::deque<Event> queue_;
    Event current_;
    int pumps_ = 0;  // in outboxes
    bool begun_ = false, writing_ = false, closing_ = false, finished_ = false, done_ = false;
  };

  void opened() {
    std::lock_guard lock(mutex_);
    ++open_;
  }
  template <class Reactor>
  void closed(Reactor* reactor) {
    std::lock_guard lock(mutex_);
    delete reactor;
    --open_;
    drained_.notify_all();
  }

  // Why the caller is not let in; null: it is.
  const char* objection(const grpc::CallbackServerContext& context) const {
    if (!tls_name_.empty()) {
      auto texts = [peer = context.auth_context()](const char* property) {
        std::vector<std::string> all;
        for (const grpc::string_ref& text : peer->FindPropertyValues(property))
          all.emplace_back(text.data(), text.size());
        return all;
      };
      auto common_names = texts(GRPC_X509_CN_PROPERTY_NAME);
      if (!carries_name(texts(GRPC_PEER_DNS_PROPERTY_NAME), common_names.empty() ? "" : common_names[0], tls_name_))
        return "its certificate does not have the coordinator's LOCKSTEP_TLS_NAME";
    }
    if (token_.empty()) return nullptr;
    auto it = context.client_metadata().find("lockstep-token");
    bool right =
        it != context.client_metadata().end() && equal_in_constant_time({it->second.data(), it->second.size()}, token_);
    return right ? nullptr : "the token is not the coordinator's: LOCKSTEP_TOKEN has to be the same on every process";
  }

  // Something is asked of the coordinator. `ask` returns the call that it may have left open, or null.
  template <class AskIt>
  void step(AskIt&& ask) {
    Outbox out;
    bool sooner = false;
    {
      std::lock_guard lock(mutex_);
      Call* held = ask(Clock::now(), out);
      sooner = held != nullptr && !held->answered && coordinator_.next_deadline() < next_tick_;
    }
    out.run();
    if (sooner) wake_.notify_one();
  }

  // Gives the call to `handle`, which either puts it in the outbox or lets the coordinator keep it.
  template <class Response, class Handle>
  grpc::ServerUnaryReactor* hold(grpc::CallbackServerContext* context, Response* response, Handle&& handle) {
    take();
    opened();
    auto* call = new Held<Response>(*this);
    if (const char* why = objection(*context)) {
      give();
      call->Finish({grpc::StatusCode::PERMISSION_DENIED, why});
      return call;
    }
    step([&](Time now, Outbox& out) {
      call->response = response;
      handle(static_cast<CallFor<Response>*>(call), now, out);
      return call;
    });
    return call;
  }

  void keep_house() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      Outbox out;
      coordinator_.tick(Clock::now(), out);
      if (!out.empty()) {
        lock.unlock();
        out.run();
        lock.lock();
        continue;
      }
      next_tick_ = std::min(Clock::now() + grain, coordinator_.next_deadline());
      wake_.wait_until(lock, next_tick_);
    }
  }

  const std::string token_, tls_name_;
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable wake_, drained_;
  bool stopping_ = false;
  Time next_tick_{};
  int open_ = 0;
  Coordinator coordinator_;
  std::unique_ptr<grpc::Server> server_;
  std::thread housekeeper_;
};

Service::Service(const ServiceOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Service::~Service() = default;
int Service::port() const { return impl_->port(); }
void Service::stop(const std::string& reason) { impl_->stop(reason); }

}  // namespace lockstep::distributed

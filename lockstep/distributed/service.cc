#include "lockstep/distributed/service.h"

#include <absl/synchronization/mutex.h>
#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <deque>
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
    return hold<HeartbeatResponse>(context, response, -1, [&](auto* call, Time now, Outbox& out) {
      coordinator_.heartbeat(*request, response, now);
      out.finish(call);
    });
  }
  grpc::ServerUnaryReactor* ReportError(grpc::CallbackServerContext* context, const ReportErrorRequest* request,
                                        ReportErrorResponse* response) override {
    return hold<ReportErrorResponse>(context, response, -1, [&](auto* call, Time now, Outbox& out) {
      coordinator_.report_error(*request, call, now, out);
    });
  }
  grpc::ServerUnaryReactor* WatchTasks(grpc::CallbackServerContext* context, const WatchTasksRequest* request,
                                       WatchTasksResponse* response) override {
    return hold<WatchTasksResponse>(context, response, -1, [&](auto* call, Time now, Outbox& out) {
      coordinator_.watch_tasks(*request, call, now, out);
    });
  }
  grpc::ServerUnaryReactor* Live(grpc::CallbackServerContext* context, const LiveRequest* request,
                                 LiveResponse* response) override {
    return member(context, request, response,
                  [&](auto* call, Time now, Outbox& out) { coordinator_.live(*request, call, now, out); });
  }
  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext* context, const ShutdownRequest* request,
                                     ShutdownResponse* response) override {
    return member(context, request, response,
                  [&](auto* call, Time now, Outbox& out) { coordinator_.shut_down(*request, call, now, out); });
  }
  grpc::ServerUnaryReactor* Insert(grpc::CallbackServerContext* context, const InsertRequest* request,
                                   InsertResponse* response) override {
    return member(context, request, response,
                  [&](auto* call, Time, Outbox& out) { coordinator_.kv().insert(*request, call, out); });
  }
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context, const GetRequest* request,
                                GetResponse* response) override {
    return member(context, request, response,
                  [&](auto* call, Time now, Outbox& out) { coordinator_.kv().get(*request, call, now, out); });
  }
  grpc::ServerUnaryReactor* TryGet(grpc::CallbackServerContext* context, const TryGetRequest* request,
                                   TryGetResponse* response) override {
    return member(context, request, response, [&](auto* call, Time, Outbox& out) {
      coordinator_.kv().try_get(*request, response);
      out.finish(call);
    });
  }
  grpc::ServerUnaryReactor* Directory(grpc::CallbackServerContext* context, const DirectoryRequest* request,
                                      DirectoryResponse* response) override {
    return member(context, request, response, [&](auto* call, Time, Outbox& out) {
      coordinator_.kv().directory(*request, response);
      out.finish(call);
    });
  }
  grpc::ServerUnaryReactor* Increment(grpc::CallbackServerContext* context, const IncrementRequest* request,
                                      IncrementResponse* response) override {
    return member(context, request, response, [&](auto* call, Time, Outbox& out) {
      coordinator_.kv().increment(*request, response, out);
      out.finish(call);
    });
  }
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext* context, const DeleteRequest* request,
                                   DeleteResponse* response) override {
    return member(context, request, response, [&](auto* call, Time, Outbox& out) {
      coordinator_.kv().erase(*request);
      out.finish(call);
    });
  }
  grpc::ServerUnaryReactor* Barrier(grpc::CallbackServerContext* context, const BarrierRequest* request,
                                    BarrierResponse* response) override {
    return member(context, request, response,
                  [&](auto* call, Time now, Outbox& out) { coordinator_.barriers().enter(*request, call, now, out); });
  }
  grpc::ServerUnaryReactor* CancelBarrier(grpc::CallbackServerContext* context, const CancelBarrierRequest* request,
                                          CancelBarrierResponse* response) override {
    return member(context, request, response, [&](auto* call, Time, Outbox& out) {
      coordinator_.barriers().cancel(*request, response, out);
      out.finish(call);
    });
  }
  grpc::ServerUnaryReactor* Agree(grpc::CallbackServerContext* context, const AgreeRequest* request,
                                  AgreeResponse* response) override {
    return member(context, request, response, [&](auto* call, Time now, Outbox& out) {
      coordinator_.agreements().agree(*request, call, now, out);
    });
  }
  grpc::ServerUnaryReactor* Differ(grpc::CallbackServerContext* context, const DifferRequest* request,
                                   DifferResponse* response) override {
    return member(context, request, response, [&](auto* call, Time now, Outbox& out) {
      coordinator_.agreements().differ(*request, call, now, out);
    });
  }
  grpc::ServerWriteReactor<Event>* Listen(grpc::CallbackServerContext* context, const ListenRequest* request) override {
    take();
    opened();
    auto* stream = new Stream(*this, request->caller().process_id());
    if (const char* why = objection(*context)) {
      stream->refuse({grpc::StatusCode::PERMISSION_DENIED, why});
      return stream;
    }
    Outbox out;
    bool sooner = false;
    {
      std::lock_guard lock(mutex_);
      Time now = Clock::now();
      if (request->has_registration()) {
        auto* call = stream->registration();
        coordinator_.register_task(request->registration(), call, now, out);
        sooner = !call->answered && coordinator_.next_deadline() < next_tick_;
      }
      coordinator_.listen(*request, stream, now, out);
    }
    out.run();
    if (sooner) wake_.notify_one();
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

  // An event stream. All its state is guarded by the service's mutex; one write is in flight at a time. It goes when
  // gRPC is done with it and no outbox refers to it.
  class Stream final : public grpc::ServerWriteReactor<Event>, public coordinator::Listener {
   public:
    Stream(Impl& service, int process) : service_(service), process_(process) {}
    // The call by which the process joins, answered by an event of this stream.
    CallFor<RegisterResponse>* registration() {
      registration_.emplace(*this);
      return &*registration_;
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
    void OnWriteDone(bool ok) override {
      take();
      pump([this] { writing_ = false; });
    }
    void OnCancel() override {
      take();
      pump([this] {
        closing_ = true;
        queue_.clear();
        service_.coordinator_.listener_gone(process_, this, Clock::now());
        forget_registration();
      });
    }
    void OnDone() override {
      take();
      pump([this] {
        done_ = true;
        forget_registration();
      });
    }

   private:
    struct Registration final : CallFor<RegisterResponse> {
      explicit Registration(Stream& s) : stream(s) {
        process = s.process_;
        response = event.mutable_registered();
      }
      void finish() override {
        stream.pump([this] {
          stream.queue_.push_back(std::move(event));
          told = true;
        });
      }
      Stream& stream;
      Event event;
      bool told = false;
    };

    void forget_registration() {
      if (!registration_ || registration_->answered) return;
      registration_->answered = registration_->told = true;
      service_.coordinator_.forget(&*registration_);
    }
    void pump_later(Outbox& out) {
      ++pumps_;
      out.add([this] { pump([this] { --pumps_; }); });
    }
    template <class Change>
    void pump(Change&& change) {
      std::unique_lock lock(service_.mutex_);
      change();
      bool in_outbox = pumps_ > 0 || (registration_ && registration_->answered && !registration_->told);
      if (done_) {
        if (in_outbox) return;
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
      } else if (closing_ && !in_outbox) {
        forget_registration();
        finished_ = true;
        lock.unlock();
        give();
        Finish(grpc::Status::OK);
      }
    }

    Impl& service_;
    const int process_;
    std::optional<Registration> registration_;
    std::deque<Event> queue_;
    Event current_;
    int pumps_ = 0;  // in outboxes
    bool writing_ = false, closing_ = false, finished_ = false, done_ = false;
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

  // Gives the call to `handle`, which either puts it in the outbox or lets the coordinator keep it.
  template <class Response, class Handle>
  grpc::ServerUnaryReactor* hold(grpc::CallbackServerContext* context, Response* response, int process,
                                 Handle&& handle) {
    take();
    opened();
    auto* call = new Held<Response>(*this);
    if (const char* why = objection(*context)) {
      give();
      call->Finish({grpc::StatusCode::PERMISSION_DENIED, why});
      return call;
    }
    Outbox out;
    bool sooner = false;
    {
      std::lock_guard lock(mutex_);
      call->response = response;
      call->process = process;
      handle(static_cast<CallFor<Response>*>(call), Clock::now(), out);
      sooner = !call->answered && coordinator_.next_deadline() < next_tick_;
    }
    out.run();
    if (sooner) wake_.notify_one();
    return call;
  }

  // The same for calls that only members of a gang in order may make.
  template <class Request, class Response, class Handle>
  grpc::ServerUnaryReactor* member(grpc::CallbackServerContext* context, const Request* request, Response* response,
                                   Handle&& handle) {
    return hold<Response>(context, response, request->caller().process_id(),
                          [&](CallFor<Response>* call, Time now, Outbox& out) {
                            Problem problem = coordinator_.admit(request->caller());
                            if (problem.code() == Problem::OK) return handle(call, now, out);
                            *response->mutable_problem() = std::move(problem);
                            out.finish(call);
                          });
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

// Whatever comes over the control channel, in whatever order: the coordinator answers every call once, says nothing
// more after it was stopped, and does not fall. The input chooses the calls, with fields of small ranges, so that they
// meet each other, and changes bytes of serialised requests.
#include <memory>
#include <vector>

#include "lockstep/distributed/coordinator.h"
#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using namespace distributed::coordinator;  // NOLINT
using namespace coordination;              // NOLINT: the messages
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kProcesses = 3, kSteps = 400;
constexpr std::uint64_t kService = 77;

// The message as it may come: with bytes changed, as long as it still parses (gRPC drops what does not).
template <class T>
T mutated(Choices& choices, const T& message) {
  std::string text = message.SerializeAsString();
  for (int i = choices.below(4); i > 0 && !text.empty(); --i) {
    std::size_t at = choices.byte() % text.size();
    switch (choices.below(4)) {
      case 0:
        text[at] = static_cast<char>(choices.byte());
        break;
      case 1:
        text.erase(at, static_cast<std::size_t>(1 + choices.below(4)));
        break;
      case 2:
        text.insert(at, choices.bytes(5));
        break;
      default:
        text[at] = static_cast<char>(text[at] ^ (1 << choices.below(8)));
    }
  }
  T changed;
  return changed.ParseFromString(text) ? changed : message;
}

struct Open {
  virtual ~Open() = default;
  virtual bool done() const = 0;
  virtual Call* call() = 0;
};
template <class Response>
struct FuzzCall final : CallFor<Response>, Open {
  explicit FuzzCall(int process) {
    this->process = process;
    this->response = &answer;
  }
  void finish() override {
    check(!finished, "a call is answered twice");
    finished = true;
    if (then) then();
  }
  bool done() const override { return finished; }
  Call* call() override { return this; }
  Response answer;
  bool finished = false;
  std::function<void()> then;
};
struct FuzzListener final : Listener {
  void send(const Event&, Outbox&) override { check(!closed, "an event after the end"); }
  void close(Outbox&) override { closed = true; }
  int process = -1;
  bool closed = false;
  FuzzCall<RegisterResponse>* registration = nullptr;
};

class Session {
 public:
  explicit Session(Input input)
      : choices_(input), gang_(CoordinatorOptions{kProcesses, kService, seconds(2), choices_.one_in(2)}, now_) {}

  void run() {
    if (!choices_.one_in(4))
      for (int p = 0; p < kProcesses; ++p) join(p, false);
    for (int i = 0; i < kSteps && !choices_.empty(); ++i) step();
    Outbox out;
    gang_.stop("the end", out);
    out.run();
    for (auto* calls : {&calls_, &registrations_})
      for (auto& call : *calls) check(call->done(), "a call is never answered");
    for (auto& listener : listeners_) check(listener->closed, "a listener is never closed");
  }

 private:
  int process() { return choices_.one_in(12) ? static_cast<int>(choices_.edge()) : choices_.below(kProcesses); }
  std::string key() {
    constexpr const char* keys[] = {"a", "a/b", "//a//b/", "", "/", "save"};
    return choices_.one_in(8) ? choices_.bytes(6) : keys[choices_.below(6)];
  }
  std::int64_t time() { return choices_.one_in(6) ? choices_.edge() : choices_.below(256) * 12; }
  void describe(Caller* caller) {
    caller->set_process_id(process());
    caller->set_incarnation(static_cast<std::uint64_t>(1000 + caller->process_id()));
    caller->set_service(choices_.one_in(20) ? choices_.bits() : kService);
  }
  template <class Response, class Request, class F>
  void call(Request request, F f) {
    if (choices_.one_in(3)) request = mutated(choices_, request);
    int process = -1;
    if constexpr (requires { request.caller(); }) process = request.caller().process_id();
    auto open = std::make_unique<FuzzCall<Response>>(process);
    auto* raw = open.get();
    calls_.push_back(std::move(open));
    Outbox out;
    f(request, raw, out);
    out.run();
  }
  // As service.cc does for members.
  template <class Response, class Request, class F>
  void member(Request request, F f) {
    call<Response>(std::move(request), [&](const Request& r, FuzzCall<Response>* c, Outbox& out) {
      Problem problem = gang_.admit(r.caller());
      if (problem.code() == Problem::OK) return f(r, c, out);
      *c->response->mutable_problem() = problem;
      out.finish(c);
    });
  }

  void join(int process, bool odd) {
    RegisterRequest request;
    request.set_protocol(odd && choices_.one_in(4) ? static_cast<int>(choices_.edge()) : protocol_version);
    request.set_process_id(process);
    request.set_num_processes(odd && choices_.one_in(4) ? static_cast<int>(choices_.edge()) : kProcesses);
    request.set_incarnation(odd && choices_.one_in(4) ? choices_.bits() : static_cast<std::uint64_t>(1000 + process));
    request.mutable_identity()->set_build(odd && choices_.one_in(4) ? choices_.bytes(5) : "b");
    auto* setting = request.mutable_identity()->add_settings();
    setting->set_name("x64");
    setting->set_value("true");
    if (odd && choices_.one_in(3)) request = mutated(choices_, request);
    auto session = std::make_unique<FuzzListener>();
    auto call = std::make_unique<FuzzCall<RegisterResponse>>(request.process_id());
    auto* listener = session.get();
    listener->process = request.process_id();
    listener->registration = call.get();
    // As service.cc ends the sessions of those that are refused.
    call->then = [this, listener] {
      if (listener->registration->answer.problem().code() != Problem::OK) end(*listener);
    };
    listeners_.push_back(std::move(session));
    registrations_.push_back(std::move(call));
    Outbox out;
    gang_.register_task(request, listener, listener->registration, now_, out);
    out.run();
  }

  void end(FuzzListener& listener) {
    gang_.listener_gone(listener.process, &listener, now_);
    listener.closed = true;
    if (listener.registration != nullptr) forget(*listener.registration);
  }
  void forget(Open& open) {
    if (open.call()->answered) return;
    gang_.forget(open.call());
    open.call()->answered = true;
    open.call()->finish();
  }

  void listen() {
    ListenRequest request;
    describe(request.mutable_caller());
    if (choices_.one_in(4)) request = mutated(choices_, request);
    auto listener = std::make_unique<FuzzListener>();
    listener->process = request.caller().process_id();
    Outbox out;
    gang_.listen(request, listener.get(), now_, out);
    listeners_.push_back(std::move(listener));
    out.run();
  }

  void step() {
    Outbox out;
    switch (choices_.below(19)) {
      case 0:
        return join(process(), true);
      case 1:
        return listen();
      case 2: {
        HeartbeatRequest r;
        describe(r.mutable_caller());
        r.mutable_phase()->set_text(choices_.bytes(20));
        r.mutable_phase()->set_age_ms(time());
        HeartbeatResponse response;
        return gang_.heartbeat(mutated(choices_, r), &response, now_);
      }
      case 3: {
        if (!choices_.one_in(6)) return;
        ReportErrorRequest r;
        describe(r.mutable_caller());
        r.mutable_failure()->set_message(choices_.bytes(9));
        r.mutable_failure()->add_processes(process());
        return call<ReportErrorResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.report_error(q, c, now_, o); });
      }
      case 4: {
        if (!choices_.one_in(3)) return;
        ShutdownRequest r;
        describe(r.mutable_caller());
        r.set_timeout_ms(time());
        return member<ShutdownResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.shut_down(q, c, now_, o); });
      }
      case 5: {
        WatchTasksRequest r;
        r.set_version(choices_.one_in(2) ? -1 : choices_.below(20));
        return call<WatchTasksResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.watch_tasks(q, c, now_, o); });
      }
      case 18: {
        LiveRequest r;
        describe(r.mutable_caller());
        r.set_timeout_ms(time());
        return member<LiveResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.live(q, c, now_, o); });
      }
      case 6: {
        InsertRequest r;
        describe(r.mutable_caller());
        r.mutable_kv()->set_key(key());
        r.mutable_kv()->set_value(choices_.one_in(3) ? std::to_string(choices_.edge()) : choices_.bytes(9));
        r.set_overwrite(choices_.one_in(2));
        return member<InsertResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.kv().insert(q, c, o); });
      }
      case 7: {
        GetRequest r;
        describe(r.mutable_caller());
        r.set_key(key());
        r.set_timeout_ms(time());
        return member<GetResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.kv().get(q, c, now_, o); });
      }
      case 8: {
        IncrementRequest r;
        describe(r.mutable_caller());
        r.set_key(key());
        r.set_by(choices_.edge());
        return member<IncrementResponse>(r, [&](auto& q, auto* c, Outbox& o) {
          gang_.kv().increment(q, c->response, o);
          o.finish(c);
        });
      }
      case 9: {
        DirectoryRequest r;
        describe(r.mutable_caller());
        r.set_directory(key());
        return member<DirectoryResponse>(r, [&](auto& q, auto* c, Outbox& o) {
          gang_.kv().directory(q, c->response);
          o.finish(c);
        });
      }
      case 10: {
        DeleteRequest r;
        describe(r.mutable_caller());
        r.set_key(key());
        return member<DeleteResponse>(r, [&](auto& q, auto* c, Outbox& o) {
          gang_.kv().erase(q);
          o.finish(c);
        });
      }
      case 11:
      case 12: {
        BarrierRequest r;
        describe(r.mutable_caller());
        r.set_name(key());
        r.set_counter(choices_.one_in(8) ? choices_.edge() : choices_.below(3));
        r.set_timeout_ms(time());
        for (int i = choices_.one_in(2) ? 0 : choices_.below(4); i > 0; --i) r.add_participants(process());
        return member<BarrierResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.barriers().enter(q, c, now_, o); });
      }
      case 13: {
        CancelBarrierRequest r;
        describe(r.mutable_caller());
        r.set_name(key());
        r.set_counter(choices_.below(3));
        return member<CancelBarrierResponse>(r, [&](auto& q, auto* c, Outbox& o) {
          gang_.barriers().cancel(q, c->response, o);
          o.finish(c);
        });
      }
      case 14: {
        AgreeRequest r;
        describe(r.mutable_caller());
        r.set_key(key());
        r.set_fingerprint(choices_.one_in(3) ? choices_.bytes(2) : "f");
        r.set_note(choices_.bytes(4));
        r.set_timeout_ms(time());
        for (int i = choices_.one_in(2) ? 0 : choices_.below(4); i > 0; --i) r.add_participants(process());
        return member<AgreeResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.agreements().agree(q, c, now_, o); });
      }
      case 15: {
        DifferRequest r;
        describe(r.mutable_caller());
        r.set_key(key());
        r.set_text(choices_.bytes(9));
        return member<DifferResponse>(r,
                                      [&](auto& q, auto* c, Outbox& o) { gang_.agreements().differ(q, c, now_, o); });
      }
      case 16:  // a connection breaks
        if (choices_.one_in(2) && !calls_.empty())
          forget(*calls_[static_cast<std::size_t>(choices_.below(static_cast<int>(calls_.size())))]);
        else if (!listeners_.empty() && choices_.one_in(4))
          end(*listeners_[static_cast<std::size_t>(choices_.below(static_cast<int>(listeners_.size())))]);
        return;
      default:
        now_ += milliseconds(choices_.one_in(10) ? choices_.below(256) * 12 : choices_.below(100));
        gang_.tick(now_, out);
        out.run();
        check(gang_.next_deadline() >= Time::min(), "a deadline");
    }
  }

  Choices choices_;
  Time now_{seconds(1000)};
  Coordinator gang_;
  std::vector<std::unique_ptr<Open>> calls_, registrations_;
  std::vector<std::unique_ptr<FuzzListener>> listeners_;
};

}  // namespace

void coordinator(Input input) { Session(input).run(); }

}  // namespace lockstep::fuzz

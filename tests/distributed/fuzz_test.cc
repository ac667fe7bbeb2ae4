// Whatever comes over the control channel, in whatever order: the coordinator answers every call once, says nothing
// more after it was stopped, and does not fall. Messages are made of random bytes in two ways: as fields of small
// ranges, so that calls meet each other, and as serialised requests with bytes changed. What the environment and
// addresses are parsed from is fuzzed in the same way. LOCKSTEP_FUZZ_SECONDS lengthens it; a failure prints the seed,
// LOCKSTEP_FUZZ_SEED repeats it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/cluster.h"
#include "lockstep/distributed/coordinator.h"
#include "lockstep/support/error.h"

namespace lockstep::distributed::coordinator {
namespace {

using namespace coordination;  // NOLINT: the messages
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kProcesses = 3;
constexpr std::uint64_t kService = 77;

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  std::uint64_t bits() { return engine_(); }
  std::int64_t edge() {
    constexpr std::int64_t edges[] = {0, 1, -1, 1LL << 31, -(1LL << 31), INT64_MAX, INT64_MIN, 1000};
    return edges[below(8)];
  }
  std::string bytes(int most) {
    std::string text(static_cast<std::size_t>(below(most + 1)), 0);
    for (char& c : text) c = static_cast<char>(bits());
    return text;
  }
  template <class T>
  T mutated(const T& message) {
    std::string text = message.SerializeAsString();
    for (int i = below(4); i > 0 && !text.empty(); --i) {
      std::size_t at = static_cast<std::size_t>(below(static_cast<int>(text.size())));
      switch (below(4)) {
        case 0:
          text[at] = static_cast<char>(bits());
          break;
        case 1:
          text.erase(at, static_cast<std::size_t>(1 + below(4)));
          break;
        case 2:
          text.insert(at, bytes(5));
          break;
        default:
          text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      }
    }
    T changed;
    return changed.ParseFromString(text) ? changed : message;  // gRPC drops what does not parse
  }

 private:
  std::mt19937_64 engine_;
};

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
    EXPECT_FALSE(finished) << "answered twice";
    finished = true;
  }
  bool done() const override { return finished; }
  Call* call() override { return this; }
  Response answer;
  bool finished = false;
};
struct FuzzListener final : Listener {
  void send(const Event&, Outbox&) override { EXPECT_FALSE(closed) << "an event after the end"; }
  void close(Outbox&) override { closed = true; }
  int process = -1;
  bool closed = false;
};

class Session {
 public:
  explicit Session(std::uint64_t seed)
      : random_(seed), gang_(CoordinatorOptions{kProcesses, kService, seconds(2), seed % 2 == 1}, now_) {}

  void run(int steps) {
    if (!random_.one_in(4))
      for (int p = 0; p < kProcesses; ++p) join(p, false);
    for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) step();
    Outbox out;
    gang_.stop("the end", out);
    out.run();
    for (auto& call : calls_) EXPECT_TRUE(call->done()) << "never answered";
    for (auto& listener : listeners_) EXPECT_TRUE(listener->closed) << "never closed";
  }

 private:
  int process() { return random_.one_in(12) ? static_cast<int>(random_.edge()) : random_.below(kProcesses); }
  std::string key() {
    constexpr const char* keys[] = {"a", "a/b", "//a//b/", "", "/", "save"};
    return random_.one_in(8) ? random_.bytes(6) : keys[random_.below(6)];
  }
  std::int64_t time() { return random_.one_in(6) ? random_.edge() : random_.below(3000); }
  void describe(Caller* caller) {
    caller->set_process_id(process());
    caller->set_incarnation(static_cast<std::uint64_t>(1000 + caller->process_id()));
    caller->set_service(random_.one_in(20) ? random_.bits() : kService);
  }
  template <class Response, class Request, class F>
  void call(Request request, F f) {
    if (random_.one_in(3)) request = random_.mutated(request);
    int process = -1;
    if constexpr (requires { request.caller(); }) process = request.caller().process_id();
    if constexpr (requires { request.process_id(); }) process = request.process_id();
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
    request.set_protocol(odd && random_.one_in(4) ? static_cast<int>(random_.edge()) : protocol_version);
    request.set_process_id(process);
    request.set_num_processes(odd && random_.one_in(4) ? static_cast<int>(random_.edge()) : kProcesses);
    request.set_incarnation(odd && random_.one_in(4) ? random_.bits() : static_cast<std::uint64_t>(1000 + process));
    request.mutable_identity()->set_build(odd && random_.one_in(4) ? random_.bytes(5) : "b");
    auto* setting = request.mutable_identity()->add_settings();
    setting->set_name("x64");
    setting->set_value("true");
    auto register_it = [&](const RegisterRequest& r, FuzzCall<RegisterResponse>* c, Outbox& out) {
      gang_.register_task(r, c, now_, out);
    };
    if (odd) return call<RegisterResponse>(request, register_it);
    auto open = std::make_unique<FuzzCall<RegisterResponse>>(process);
    Outbox out;
    register_it(request, open.get(), out);
    calls_.push_back(std::move(open));
    out.run();
  }

  void listen() {
    ListenRequest request;
    describe(request.mutable_caller());
    if (random_.one_in(3)) request.mutable_caller()->set_service(0);
    if (random_.one_in(4)) request = random_.mutated(request);
    auto listener = std::make_unique<FuzzListener>();
    listener->process = request.caller().process_id();
    Outbox out;
    gang_.listen(request, listener.get(), now_, out);
    listeners_.push_back(std::move(listener));
    out.run();
  }

  void step() {
    Outbox out;
    switch (random_.below(19)) {
      case 0:
        return join(process(), true);
      case 1:
        return listen();
      case 2: {
        HeartbeatRequest r;
        describe(r.mutable_caller());
        r.mutable_phase()->set_text(random_.bytes(20));
        r.mutable_phase()->set_age_ms(time());
        HeartbeatResponse response;
        return gang_.heartbeat(random_.mutated(r), &response, now_);
      }
      case 3: {
        if (!random_.one_in(6)) return;
        ReportErrorRequest r;
        describe(r.mutable_caller());
        r.mutable_failure()->set_message(random_.bytes(9));
        r.mutable_failure()->add_processes(process());
        return call<ReportErrorResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.report_error(q, c, now_, o); });
      }
      case 4: {
        if (!random_.one_in(3)) return;
        ShutdownRequest r;
        describe(r.mutable_caller());
        r.set_timeout_ms(time());
        return member<ShutdownResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.shut_down(q, c, now_, o); });
      }
      case 5: {
        WatchTasksRequest r;
        r.set_version(random_.one_in(2) ? -1 : random_.below(20));
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
        r.mutable_kv()->set_value(random_.one_in(3) ? std::to_string(random_.edge()) : random_.bytes(9));
        r.set_overwrite(random_.one_in(2));
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
        r.set_by(random_.edge());
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
        r.set_counter(random_.one_in(8) ? random_.edge() : random_.below(3));
        r.set_timeout_ms(time());
        for (int i = random_.one_in(2) ? 0 : random_.below(4); i > 0; --i) r.add_participants(process());
        return member<BarrierResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.barriers().enter(q, c, now_, o); });
      }
      case 13: {
        CancelBarrierRequest r;
        describe(r.mutable_caller());
        r.set_name(key());
        r.set_counter(random_.below(3));
        return member<CancelBarrierResponse>(r, [&](auto& q, auto* c, Outbox& o) {
          gang_.barriers().cancel(q, c->response, o);
          o.finish(c);
        });
      }
      case 14: {
        AgreeRequest r;
        describe(r.mutable_caller());
        r.set_key(key());
        r.set_fingerprint(random_.one_in(3) ? random_.bytes(2) : "f");
        r.set_note(random_.bytes(4));
        r.set_timeout_ms(time());
        for (int i = random_.one_in(2) ? 0 : random_.below(4); i > 0; --i) r.add_participants(process());
        return member<AgreeResponse>(r, [&](auto& q, auto* c, Outbox& o) { gang_.agreements().agree(q, c, now_, o); });
      }
      case 15: {
        DifferRequest r;
        describe(r.mutable_caller());
        r.set_key(key());
        r.set_text(random_.bytes(9));
        return member<DifferResponse>(r,
                                      [&](auto& q, auto* c, Outbox& o) { gang_.agreements().differ(q, c, now_, o); });
      }
      case 16:  // a connection breaks
        if (random_.one_in(2) && !calls_.empty()) {
          auto& open = calls_[static_cast<std::size_t>(random_.below(static_cast<int>(calls_.size())))];
          if (open->call()->answered) return;
          gang_.forget(open->call());
          open->call()->answered = true;
          open->call()->finish();
        } else if (!listeners_.empty() && random_.one_in(4)) {
          auto& l = listeners_[static_cast<std::size_t>(random_.below(static_cast<int>(listeners_.size())))];
          gang_.listener_gone(l->process, l.get(), now_);
          l->closed = true;
        }
        return;
      default:
        now_ += milliseconds(random_.one_in(10) ? random_.below(3000) : random_.below(100));
        gang_.tick(now_, out);
        out.run();
        EXPECT_GE(gang_.next_deadline(), Time::min());
    }
  }

  Random random_;
  Time now_{seconds(1000)};
  Coordinator gang_;
  std::vector<std::unique_ptr<Open>> calls_;
  std::vector<std::unique_ptr<FuzzListener>> listeners_;
};

double seconds_to_spend() {
  const char* text = std::getenv("LOCKSTEP_FUZZ_SECONDS");
  return text == nullptr ? 2 : std::atof(text);
}
template <class F>
void for_random_seeds(F f) {
  auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds_to_spend()));
  std::uint64_t seed = std::random_device()();
  const char* given = std::getenv("LOCKSTEP_FUZZ_SEED");
  if (given != nullptr) seed = std::strtoull(given, nullptr, 10);
  do {
    f(seed);
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "LOCKSTEP_FUZZ_SEED=" << seed;
      return;
    }
    ++seed;
  } while (given == nullptr && Clock::now() < end);
}

TEST(FuzzTest, AnySequenceOfCallsIsAnswered) {
  for_random_seeds([](std::uint64_t seed) { Session(seed).run(300); });
}

TEST(FuzzTest, AnyEnvironmentIsAPlaceOrAnError) {
  const char* const names[] = {"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES",     "JAX_PROCESS_ID",
                               "JAX_LOCAL_DEVICE_IDS",    "JAX_COORDINATOR_PORT",  "SLURM_JOB_ID",
                               "SLURM_STEP_NODELIST",     "SLURM_NTASKS",          "SLURM_PROCID",
                               "SLURM_LOCALID",           "OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_RANK",    "PMIX_NAMESPACE",        "PMIX_RANK",
                               "KUBERNETES_SERVICE_HOST", "JOB_COMPLETION_INDEX",  "LOCKSTEP_CLUSTER_DETECTION_METHOD"};
  const char* const texts[] = {"0",
                               "1",
                               "2",
                               "node[03-07,9]-ib,x",
                               "a[",
                               "]",
                               "[::1]:5",
                               "127.0.0.1:80",
                               "17.0;tcp://a,b:1",
                               "17.0;tcp6://[::1]:1",
                               "prterun-h-1@2",
                               "prterun-@",
                               "",
                               "-1",
                               "99999999999999999999",
                               "0,1,"};
  for_random_seeds([&](std::uint64_t seed) {
    Random random(seed);
    std::map<std::string, std::string> variables;
    for (const char* name : names)
      if (!random.one_in(3)) {
        std::string text = texts[random.below(std::size(texts))];
        if (random.one_in(3) && !text.empty())
          text[static_cast<std::size_t>(random.below(static_cast<int>(text.size())))] =
              static_cast<char>(1 + random.below(255));
        variables[name] = text;
      }
    try {
      Place place = find_place({}, [&](const char* name) -> const char* {
        auto it = variables.find(name);
        return it == variables.end() ? nullptr : it->second.c_str();
      });
      EXPECT_GE(place.id, 0);
      EXPECT_LT(place.id, place.count);
      if (place.count > 1) parse_address(place.address, "test");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << e.what();
    }
  });
}

}  // namespace
}  // namespace lockstep::distributed::coordinator

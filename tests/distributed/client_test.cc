// Ranks as threads: one service, several clients, real connections.
#include "lockstep/distributed/client.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <thread>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/agreement.h"
#include "lockstep/distributed/phase.h"
#include "lockstep/distributed/service.h"
#include "lockstep/support/error.h"
#include "tests/distributed/proxy.h"

namespace lockstep::distributed {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

template <class F>
std::string error_of(ErrorCode code, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

class ClientTest : public testing::Test {
 protected:
  void serve(int count, ServiceOptions options = {}) {
    count_ = count;
    options.bind_address = "127.0.0.1:0";
    options.num_processes = count;
    service_ = std::make_unique<Service>(options);
    address_ = "127.0.0.1:" + std::to_string(service_->port());
  }
  ClientOptions options(int process) {
    return {.address = address_,
            .process_id = process,
            .num_processes = count_,
            .initialization_timeout = seconds(20),
            .progress = [](const std::string&) {}};
  }
  void make(int process, ClientOptions options) {
    if (clients_.empty()) clients_.resize(count_);
    clients_[process] = std::make_unique<Client>(std::move(options));
  }
  void parallel(const std::function<void(int)>& f) {
    std::vector<std::future<void>> ranks;
    for (int p = 0; p < count_; ++p) ranks.push_back(std::async(std::launch::async, f, p));
    for (auto& r : ranks) r.get();
  }
  void connect() {
    parallel([&](int p) { clients_[p]->connect(); });
  }
  void start(int count, ServiceOptions service = {}) {
    serve(count, service);
    for (int p = 0; p < count; ++p) make(p, options(p));
    connect();
  }

  // What the client knows, or will know within a few seconds.
  Failure failure_of(int process) {
    for (int i = 0; i < 1000; ++i) {
      if (auto failure = clients_[process]->failure()) return *failure;
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << "process " << process << " knows of no failure";
    return {};
  }

  int count_ = 0;
  std::string address_;
  std::unique_ptr<Service> service_;
  std::vector<std::unique_ptr<Client>> clients_;
};

// A port on which somebody accepts connections and closes them.
class Hangup {
 public:
  Hangup() {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
    EXPECT_EQ(::listen(listener_, 5), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&any), &size), 0);
    port_ = ntohs(any.sin_port);
    thread_ = std::thread([this] {
      for (int fd; (fd = ::accept(listener_, nullptr, nullptr)) >= 0;) ::close(fd);
    });
  }
  ~Hangup() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port_ = 0;
  std::thread thread_;
};

TEST_F(ClientTest, OfSeveralAddressesTheOneThatAnswersAsThisGangsCoordinatorIsTaken) {
  Hangup no_grpc;
  Service stranger({.bind_address = "127.0.0.1:0", .num_processes = 2, .token = "another gang's"});
  std::string dead = "127.0.0.1:" + std::to_string(free_port());
  std::string elsewhere = "127.0.0.1:" + std::to_string(stranger.port());
  serve(2, {.token = "ours"});
  for (int p = 0; p < 2; ++p) {
    ClientOptions o = options(p);
    o.token = "ours";
    o.address = p == 0 ? address_ : dead + "," + no_grpc.address() + "," + elsewhere + "," + address_ + "," + dead;
    make(p, o);
  }
  auto begin = Clock::now();
  connect();
  EXPECT_LT(seconds_since(begin), 10);
  EXPECT_EQ(clients_[1]->coordinator_address(), address_);
  parallel([&](int p) { clients_[p]->barrier("b", seconds(10)); });
  service_->stop("gone");
  EXPECT_THAT(failure_of(1).message, HasSubstr("the coordinator at " + address_));
}

TEST_F(ClientTest, TheCoordinatorMayComeUpAtAnyOfItsAddresses) {
  std::string dead = "127.0.0.1:" + std::to_string(free_port());
  std::string address = "127.0.0.1:" + std::to_string(free_port());
  count_ = 1;
  ClientOptions o = options(0);
  o.address = dead + "," + address;
  make(0, o);
  auto connected = std::async(std::launch::async, [&] { clients_[0]->connect(); });
  std::this_thread::sleep_for(milliseconds(300));
  service_ = std::make_unique<Service>(ServiceOptions{.bind_address = address, .num_processes = 1});
  connected.get();
  EXPECT_EQ(clients_[0]->coordinator_address(), address);
}

TEST_F(ClientTest, SeveralAddressesOfWhichNoneIsTheCoordinators) {
  Service one({.bind_address = "127.0.0.1:0", .num_processes = 1, .token = "a"}),
      two({.bind_address = "127.0.0.1:0", .num_processes = 1, .token = "b"});
  std::string first = "127.0.0.1:" + std::to_string(one.port()), second = "127.0.0.1:" + std::to_string(two.port());
  count_ = 1;
  ClientOptions o = options(0);
  o.token = "c";
  o.address = first + "," + second;
  make(0, o);
  auto begin = Clock::now();
  EXPECT_THAT(error_of(ErrorCode::distributed, [&] { clients_[0]->connect(); }),
              AllOf(HasSubstr("the coordinator at " + first + " refuses this process"),
                    HasSubstr("the coordinator at " + second + " refuses this process")));
  EXPECT_LT(seconds_since(begin), 10) << "there is nothing to wait for";

  std::string dead = "127.0.0.1:" + std::to_string(free_port());
  o.address = first + "," + dead;
  o.initialization_timeout = seconds(1);
  make(0, o);
  EXPECT_THAT(error_of(ErrorCode::timeout, [&] { clients_[0]->connect(); }),
              AllOf(HasSubstr("no coordinator at " + o.address), HasSubstr("refuses this process"),
                    HasSubstr(dead + ": Connection refused")));
}

TEST_F(ClientTest, RegistersStoresMeetsAndLeaves) {
  start(4);
  parallel([&](int p) {
    Client& c = *clients_[p];
    ASSERT_EQ(c.members().size(), 4u);
    EXPECT_EQ(c.members()[3].pid, ::getpid());
    EXPECT_EQ(c.members()[3].build, build_id());
    c.set("rank/" + std::to_string(p), "value " + std::to_string(p));
    EXPECT_EQ(c.get("rank/" + std::to_string((p + 1) % 4), seconds(10)), "value " + std::to_string((p + 1) % 4));
    for (int i = 0; i < 5; ++i) c.barrier("b", seconds(10));
    EXPECT_EQ(c.directory("rank").size(), 4u);
    c.increment("sum", p);
    c.barrier("c", seconds(10));
    EXPECT_EQ(c.try_get("sum"), "6");
    EXPECT_EQ(c.try_get("nothing"), std::nullopt);
    EXPECT_EQ(c.tasks()[2].state, TaskState::connected);
    c.barrier("d", seconds(10));
    c.shutdown(seconds(10));
    EXPECT_THAT(error_of(ErrorCode::cancelled, [&] { c.set("x", "y"); }), HasSubstr("shutdown() has been called"));
  });
}

TEST_F(ClientTest, LargeValues) {
  start(2);
  std::string value(20 << 20, 'x');
  clients_[0]->set("large", value);
  EXPECT_EQ(clients_[1]->get("large", seconds(20)), value);
}

TEST_F(ClientTest, TextsNeedNotBeUtf8) {
  start(2);
  clients_[0]->set("k\xff/\xc3", "\xfe");
  EXPECT_EQ(clients_[1]->get("k\xff/\xc3", seconds(5)), "\xfe");
  parallel([&](int p) { clients_[p]->barrier("b\xff", seconds(10)); });
  clients_[1]->report_error(FailureKind::peer_crashed, "\xff!");
  EXPECT_THAT(error_of(ErrorCode::peer, [&] { clients_[0]->get("k", seconds(5)); }), HasSubstr("\xff!"));
}

TEST_F(ClientTest, ErrorsOfTheStore) {
  start(1);
  Client& c = *clients_[0];
  c.set("k", "v");
  EXPECT_THAT(error_of(ErrorCode::distributed, [&] { c.set("k", "w"); }),
              HasSubstr("kv.set: the key 'k' is already set"));
  c.set("k", "w", true);
  auto begin = Clock::now();
  EXPECT_THAT(error_of(ErrorCode::timeout, [&] { c.get("never", milliseconds(300)); }),
              HasSubstr("kv.get: nobody has set the key 'never'"));
  EXPECT_LT(seconds_since(begin), 0.6);
  EXPECT_THAT(error_of(ErrorCode::distributed, [&] { c.increment("k"); }), HasSubstr("no integer"));
}

TEST_F(ClientTest, ABarrierNamesWhoIsMissingAndWhatItIsDoing) {
  start(3);
  PhaseScope phase("compiling jit(step)");
  auto other = std::async(std::launch::async, [&] {
    return error_of(ErrorCode::timeout, [&] { clients_[2]->barrier("save", seconds(30)); });
  });
  std::string what = error_of(ErrorCode::timeout, [&] { clients_[0]->barrier("save", milliseconds(500)); });
  EXPECT_THAT(what, AllOf(HasSubstr("barrier: 'save' timed out after "), HasSubstr("arrived: 0"),
                          HasSubstr("missing: process 1"), HasSubstr("in 'compiling jit(step)'")));
  EXPECT_THAT(other.get(), HasSubstr("missing: process 1"));
  parallel([&](int p) {
    if (p == 1) error_of(ErrorCode::timeout, [&] { clients_[1]->barrier("save", seconds(5)); });
    clients_[p]->barrier("save", seconds(10));
  });
}

TEST_F(ClientTest, BarriersOfSomeCancellationAndMisuse) {
  start(3);
  auto a = std::async(std::launch::async, [&] { clients_[0]->barrier("some", seconds(10), {0, 2}); });
  clients_[2]->barrier("some", seconds(10), {0, 2});
  a.get();
  auto waiting = std::async(std::launch::async, [&] {
    return error_of(ErrorCode::cancelled, [&] { clients_[0]->barrier("b", seconds(10)); });
  });
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_THAT(error_of(ErrorCode::invalid_argument, [&] { clients_[0]->barrier("b", seconds(10)); }),
              HasSubstr("another thread of this process waits in 'b'"));
  clients_[1]->cancel_barrier("b");
  EXPECT_THAT(waiting.get(), HasSubstr("was cancelled by process 1"));
  EXPECT_THAT(error_of(ErrorCode::distributed, [&] { clients_[0]->cancel_barrier("x"); }), HasSubstr("is not open"));
}

TEST_F(ClientTest, ADeathEndsEveryWaitWithinASecond) {
  serve(3);
  std::atomic<int> told{0};
  for (int p = 0; p < 3; ++p) {
    auto o = options(p);
    o.on_failure = [&](const Failure& f) {
      EXPECT_EQ(f.kind, FailureKind::peer_crashed);
      EXPECT_THAT(f.processes, ElementsAre(1));
      ++told;
    };
    make(p, o);
  }
  connect();
  auto barrier = std::async(std::launch::async,
                            [&] { return error_of(ErrorCode::peer, [&] { clients_[0]->barrier("b", seconds(30)); }); });
  auto get = std::async(std::launch::async,
                        [&] { return error_of(ErrorCode::peer, [&] { clients_[2]->get("k", seconds(30)); }); });
  std::this_thread::sleep_for(milliseconds(100));
  auto begin = Clock::now();
  clients_[1].reset();
  EXPECT_THAT(barrier.get(), AllOf(HasSubstr("barrier: process 1 ("), HasSubstr("died")));
  EXPECT_THAT(get.get(), HasSubstr("kv.get: process 1 ("));
  EXPECT_LT(seconds_since(begin), 1.0);
  error_of(ErrorCode::peer, [&] { clients_[0]->set("x", "y"); });
  for (int i = 0; i < 100 && told < 2; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(told, 2);
  ASSERT_TRUE(clients_[0]->failure().has_value());
  clients_[0]->shutdown(seconds(10));
}

TEST_F(ClientTest, LastWordsAreRelayed) {
  start(2);
  clients_[1]->report_error(FailureKind::peer_crashed, "uncaught exception: matmul: no");
  EXPECT_THAT(error_of(ErrorCode::peer, [&] { clients_[0]->get("k", seconds(5)); }),
              AllOf(HasSubstr("process 1 ("), HasSubstr("failed: uncaught exception: matmul: no")));
}

TEST_F(ClientTest, ALostCoordinatorIsNoticedWithinASecond) {
  start(2);
  Proxy proxy(service_->port());
  auto begin = Clock::now();
  auto waiting = std::async(std::launch::async,
                            [&] { return error_of(ErrorCode::peer, [&] { clients_[1]->get("k", seconds(30)); }); });
  service_.reset();
  EXPECT_THAT(waiting.get(), HasSubstr("the coordinator"));
  EXPECT_LT(seconds_since(begin), 2.0);
  EXPECT_EQ(failure_of(0).kind, FailureKind::coordinator_lost);
}

TEST_F(ClientTest, ABrokenLineToTheCoordinatorIsNoticedOnBothSides) {
  serve(2);
  Proxy proxy(service_->port());
  make(0, options(0));
  auto o = options(1);
  o.address = "127.0.0.1:" + std::to_string(proxy.port());
  make(1, o);
  connect();
  auto begin = Clock::now();
  proxy.refuse();
  EXPECT_THAT(error_of(ErrorCode::peer, [&] { clients_[0]->get("k", seconds(30)); }), HasSubstr("process 1 ("));
  EXPECT_THAT(error_of(ErrorCode::peer, [&] { clients_[1]->get("k", seconds(30)); }), HasSubstr("the coordinator"));
  EXPECT_LT(seconds_since(begin), 1.5);
}

TEST_F(ClientTest, AFrozenLineIsNoticedWithinTheHeartbeatTimeout) {
  serve(2, {.heartbeat_timeout = milliseconds(800)});
  Proxy proxy(service_->port());
  make(0, options(0));
  auto o = options(1);
  o.address = "127.0.0.1:" + std::to_string(proxy.port());
  make(1, o);
  connect();
  std::this_thread::sleep_for(milliseconds(1200));
  EXPECT_FALSE(clients_[0]->failure().has_value()) << "heartbeats keep it alive";
  auto begin = Clock::now();
  proxy.freeze();
  EXPECT_THAT(error_of(ErrorCode::peer, [&] { clients_[0]->get("k", seconds(30)); }),
              AllOf(HasSubstr("process 1 ("), HasSubstr("does not answer: no heartbeat for 0.8 s")));
  EXPECT_EQ(failure_of(0).kind, FailureKind::peer_unreachable);
  EXPECT_THAT(error_of(ErrorCode::peer, [&] { clients_[1]->get("k", seconds(30)); }), HasSubstr("no answer for 0.8 s"));
  EXPECT_EQ(failure_of(1).kind, FailureKind::coordinator_lost);
  EXPECT_LT(seconds_since(begin), 2.5);
}

TEST_F(ClientTest, AConnectionThatComesBackAtOnceIsNoFailure) {
  serve(2);
  Proxy proxy(service_->port());
  make(0, options(0));
  auto o = options(1);
  o.address = "127.0.0.1:" + std::to_string(proxy.port());
  make(1, o);
  connect();
  auto waiting = std::async(std::launch::async, [&] { clients_[1]->barrier("b", seconds(20)); });
  std::this_thread::sleep_for(milliseconds(100));
  proxy.cut();
  std::this_thread::sleep_for(milliseconds(1000));
  for (auto& c : clients_) EXPECT_FALSE(c->failure().has_value()) << c->failure().value_or(Failure()).message;
  clients_[0]->barrier("b", seconds(10));
  waiting.get();
}

TEST_F(ClientTest, WhoHasJoinedAndWhoHasNot) {
  serve(4);
  std::vector<std::string> lines;
  auto o = options(2);
  o.initialization_timeout = milliseconds(700);
  o.progress_interval = milliseconds(200);
  o.progress = [&](const std::string& line) { lines.push_back(line); };
  make(2, o);
  auto begin = Clock::now();
  EXPECT_THAT(
      error_of(ErrorCode::timeout, [&] { clients_[2]->connect(); }),
      AllOf(testing::ContainsRegex("initialize: timed out after [0-9.]+ s; 1 of 4 processes have joined: 2 \\("),
            HasSubstr("missing: 0, 1, 3"), HasSubstr(address_)));
  EXPECT_LT(seconds_since(begin), 1.5);
  ASSERT_GE(lines.size(), 2u);
  EXPECT_THAT(lines[0], AllOf(HasSubstr("waiting for the other processes"), HasSubstr("missing: 0, 1, 3")));
}

TEST_F(ClientTest, ACoordinatorThatIsNeverStarted) {
  count_ = 2;
  address_ = "127.0.0.1:" + std::to_string(free_port());
  auto o = options(1);
  o.initialization_timeout = milliseconds(600);
  o.progress_interval = milliseconds(150);
  std::string line;
  o.progress = [&](const std::string& text) { line = text; };
  make(1, o);
  auto begin = Clock::now();
  EXPECT_THAT(error_of(ErrorCode::timeout, [&] { clients_[1]->connect(); }),
              AllOf(HasSubstr("initialize: no coordinator at " + address_), HasSubstr("Connection refused"),
                    HasSubstr("process 0, which runs it, has not been started")));
  EXPECT_LT(seconds_since(begin), 1.5);
  EXPECT_THAT(line, HasSubstr("waiting for the coordinator (process 0) at " + address_));
}

TEST_F(ClientTest, ACoordinatorThatComesLateIsFound) {
  count_ = 2;
  int port = free_port();
  address_ = "127.0.0.1:" + std::to_string(port);
  make(0, options(0));
  make(1, options(1));
  auto rank = std::async(std::launch::async, [&] { clients_[1]->connect(); });
  std::this_thread::sleep_for(milliseconds(500));
  service_ = std::make_unique<Service>(ServiceOptions{.bind_address = address_, .num_processes = 2});
  clients_[0]->connect();
  rank.get();
}

TEST_F(ClientTest, BadAddresses) {
  count_ = 2;
  for (const char* bad : {"here", "host:", "host:99999", ":1", "1:2:3", "host:12x"}) {
    address_ = bad;
    EXPECT_THAT(error_of(ErrorCode::invalid_argument, [&] { Client c(options(1)); }), HasSubstr("HOST:PORT"));
  }
  address_ = "no-such-host.invalid:1234";
  auto o = options(1);
  o.initialization_timeout = milliseconds(100);
  Client c(o);
  EXPECT_THAT(error_of(ErrorCode::timeout, [&] { c.connect(); }), HasSubstr("can't be resolved"));
}

TEST_F(ClientTest, AnAddressInUse) {
  serve(1);
  std::string what =
      error_of(ErrorCode::distributed, [&] { Service second({.bind_address = address_, .num_processes = 1}); });
  EXPECT_THAT(what, AllOf(HasSubstr("initialize: address already in use"), HasSubstr(address_),
                          HasSubstr("JAX_COORDINATOR_ADDRESS"), HasSubstr("ss -ltnp")));
  EXPECT_THAT(error_of(ErrorCode::distributed, [&] { Service s({.bind_address = "192.0.2.1:0", .num_processes = 1}); }),
              AllOf(HasSubstr("192.0.2.1:0"), HasSubstr("JAX_COORDINATOR_BIND_ADDRESS")));
}

TEST_F(ClientTest, DifferencesAreRefusedOnEveryProcess) {
  serve(3);
  for (int p = 0; p < 3; ++p) {
    auto o = options(p);
    o.identity.settings["jax_enable_x64"] = p == 1 ? "true" : "false";
    make(p, o);
  }
  parallel([&](int p) {
    EXPECT_THAT(error_of(ErrorCode::distributed, [&] { clients_[p]->connect(); }),
                AllOf(HasSubstr("jax_enable_x64: false on processes 0, 2; true on process 1 (")));
  });
}

TEST_F(ClientTest, DifferentCountsAndDuplicatedIdsAreRefusedOnEveryProcess) {
  serve(2);
  make(0, options(0));
  auto o = options(1);
  o.num_processes = 5;
  make(1, o);
  parallel([&](int p) {
    EXPECT_THAT(error_of(ErrorCode::distributed, [&] { clients_[p]->connect(); }),
                HasSubstr("num_processes = 5, the coordinator with 2"));
  });
  serve(2);
  make(0, options(1));
  make(1, options(1));
  parallel([&](int p) {
    EXPECT_THAT(error_of(ErrorCode::distributed, [&] { clients_[p]->connect(); }),
                HasSubstr("two processes have the process id 1"));
  });
}

TEST_F(ClientTest, ACoordinatorThatGivesUpSaysWhy) {
  serve(2);
  make(1, options(1));
  auto rank =
      std::async(std::launch::async, [&] { return error_of(ErrorCode::distributed, [&] { clients_[1]->connect(); }); });
  std::this_thread::sleep_for(milliseconds(200));
  service_->stop("process 0 has given up: timed out");
  EXPECT_THAT(rank.get(), HasSubstr("process 0 has given up: timed out"));
}

TEST_F(ClientTest, WithoutTheTokenNobodyJoins) {
  serve(1, {.token = "secret"});
  for (const char* token : {"", "wrong", "secret!"}) {
    auto o = options(0);
    o.token = token;
    Client stranger(o);
    EXPECT_THAT(error_of(ErrorCode::distributed, [&] { stranger.connect(); }), HasSubstr("LOCKSTEP_TOKEN"));
  }
  auto o = options(0);
  o.token = "secret";
  make(0, o);
  connect();
  clients_[0]->barrier("b", seconds(5));
}

TEST_F(ClientTest, ProxyVariablesAreNotUsed) {
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "all_proxy"})
    ::setenv(name, "http://127.0.0.1:9/", 1);
  start(2);
  parallel([&](int p) { clients_[p]->barrier("b", seconds(5)); });
  for (const char* name : {"http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "all_proxy"}) ::unsetenv(name);
}

int raw_connection(int port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

TEST_F(ClientTest, GarbageOnThePortDoesNoHarm) {
  serve(2);
  std::vector<int> fds;
  auto disturb = [&](const std::string& bytes) {
    int fd = raw_connection(service_->port());
    [[maybe_unused]] ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    fds.push_back(fd);
  };
  std::string noise;
  for (int i = 0; i < 5000; ++i) noise += static_cast<char>(i * 7919 >> 3);
  for (int round = 0; round < 2; ++round) {
    disturb(noise);
    disturb("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    disturb("");
    disturb("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + noise);
    disturb("SSH-2.0-OpenSSH_9.2\r\n");
    if (round == 1) break;
    make(0, options(0));
    make(1, options(1));
    connect();
  }
  parallel([&](int p) { clients_[p]->barrier("b", seconds(10)); });
  for (int fd : fds) ::close(fd);
  parallel([&](int p) { clients_[p]->barrier("c", seconds(10)); });
  EXPECT_FALSE(clients_[0]->failure().has_value());
}

TEST_F(ClientTest, AServerThatIsNoCoordinator) {
  int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener, 16), 0);
  ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread server([&] {
    while (true) {
      int fd = ::accept(listener, nullptr, nullptr);
      if (fd < 0) return;
      const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
      [[maybe_unused]] ssize_t n = ::send(fd, text, sizeof text - 1, MSG_NOSIGNAL);
      ::close(fd);
    }
  });
  count_ = 2;
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  auto o = options(1);
  o.initialization_timeout = milliseconds(500);
  Client c(o);
  EXPECT_THAT(error_of(ErrorCode::timeout, [&] { c.connect(); }), HasSubstr("no coordinator at " + address_));
  ::shutdown(listener, SHUT_RDWR);
  server.join();
  ::close(listener);
}

TEST_F(ClientTest, LeavingIsAnnounced) {
  serve(2);
  std::atomic<int> left{-1};
  auto o = options(0);
  o.on_leaving = [&](int process) { left = process; };
  make(0, o);
  make(1, options(1));
  connect();
  auto leaving = std::async(std::launch::async, [&] { clients_[1]->shutdown(seconds(10)); });
  for (int i = 0; i < 200 && left < 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(left, 1);
  EXPECT_THAT(error_of(ErrorCode::peer, [&] { clients_[0]->barrier("b", seconds(10)); }), HasSubstr("process 1"));
  clients_[0]->shutdown(seconds(10));
  leaving.get();
}

TEST_F(ClientTest, ShutdownTimesOut) {
  start(2);
  EXPECT_THAT(error_of(ErrorCode::timeout, [&] { clients_[0]->shutdown(milliseconds(300)); }),
              AllOf(HasSubstr("shutdown() timed out"), HasSubstr("missing: process 1")));
}

TEST_F(ClientTest, AgreementReturnsTheNotes) {
  start(3);
  parallel([&](int p) {
    for (int launch = 0; launch < 3; ++launch) {
      auto notes = agree(*clients_[p],
                         {.operation = "jit",
                          .key = "launch " + std::to_string(launch),
                          .fingerprint = "f",
                          .note = "note " + std::to_string(p)},
                         seconds(10));
      EXPECT_THAT(notes, ElementsAre("note 0", "note 1", "note 2"));
    }
    if (p != 1) {
      EXPECT_EQ(agree(*clients_[p], {.key = "two", .fingerprint = "f", .participants = {0, 2}}, seconds(10)).size(),
                2u);
    }
  });
}

TEST_F(ClientTest, ADifferenceIsShownOnEveryProcess) {
  start(3);
  auto line = std::source_location::current();
  std::vector<std::string> whats(3);
  parallel([&](int p) {
    LocationScope scope(line);
    std::string text = "mesh: 3\nlet a = add x y\nlet b = mul a " + std::string(p == 1 ? "2.0" : "3.0") + "\nin b";
    whats[p] = error_of(ErrorCode::diverged, [&] {
      agree(*clients_[p], {.operation = "jit", .key = "launch 1", .fingerprint = text, .text = [&] { return text; }},
            seconds(10));
    });
  });
  for (int p = 0; p < 3; ++p)
    EXPECT_THAT(whats[p],
                AllOf(HasSubstr("jit: the processes are about to do different things as 'launch 1'"),
                      HasSubstr("processes 0, 2"), HasSubstr("at client_test.cc:" + std::to_string(line.line())),
                      HasSubstr("first difference, line 3:\n    processes 0, 2: let b = mul a 3.0\n    process "
                                "1: let b = mul a 2.0")));
  EXPECT_THAT(whats[1], HasSubstr("process 1 (this one)"));
  EXPECT_THAT(whats[2], HasSubstr("processes 0, 2 (this one)"));
}

TEST_F(ClientTest, AnAgreementThatAProcessDoesNotCallTimesOut) {
  start(2);
  PhaseScope phase("loading data");
  EXPECT_THAT(error_of(ErrorCode::timeout, [&] { agree(*clients_[0], "launch 3", "f", "", milliseconds(300)); }),
              AllOf(HasSubstr("'launch 3'"), HasSubstr("missing: process 1"), HasSubstr("loading data")));
}

TEST_F(ClientTest, ManyThreadsAtOnce) {
  start(6);
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      clients_[0]->tasks();
      std::this_thread::sleep_for(milliseconds(5));
    }
  });
  parallel([&](int p) {
    Client& c = *clients_[p];
    for (int i = 0; i < 30; ++i) {
      std::string key = std::to_string(i) + "/" + std::to_string(p);
      c.set(key, key);
      c.get(std::to_string(i) + "/" + std::to_string((p + 1) % 6), seconds(20));
      c.increment("n");
      if (i % 10 == 0) c.barrier("b", seconds(20));
    }
    c.barrier("end", seconds(20));
    EXPECT_EQ(c.try_get("n"), "180");
  });
  stop = true;
  watcher.join();
  parallel([&](int p) { clients_[p]->shutdown(seconds(20)); });
}

}  // namespace
}  // namespace lockstep::distributed

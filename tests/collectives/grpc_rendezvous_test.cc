// How processes find each other over gRPC, and what strangers can do about it: nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "lockstep/collectives/grpc_stream.h"
#include "lockstep/collectives/tcp_rendezvous.h"
#include "tests/collectives/gang.h"
#include "tests/support/certificates.h"

namespace lockstep::collectives::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::unique_ptr<Transport> join(Store& store, int rank, int size, Duration patience, GrpcOptions options = {}) {
  return connect_grpc(store, rank, size, Clock::now() + patience, options);
}
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return "none";
}

int dial(const std::string& published, const std::string& says) {
  SocketAddress to = parse_published(published);
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to.storage), to.length), 0);
  EXPECT_EQ(::send(fd, says.data(), says.size(), MSG_NOSIGNAL), says.size());
  return fd;
}

// How the server at the address answers a call with this secret and certificate.
std::string call(const std::string& published, const std::string& hello, const StreamSecret& secret,
                 const std::optional<Tls>& tls) {
  std::promise<std::string> refusal;
  auto answer = refusal.get_future();
  auto stream = call_stream(parse_published(published).text(), tls, hello, secret,
                            [&](const std::string& text) { refusal.set_value(text); });
  bool answered = answer.wait_for(kPatience) == std::future_status::ready;
  stream->release();
  stream->wait();
  return answered ? answer.get() : "hung";
}

class GrpcRendezvousTest : public ::testing::TestWithParam<bool> {
 protected:
  GrpcOptions options() const {
    GrpcOptions o;
    if (GetParam()) o.tls = gang_certificate();
    return o;
  }
  std::string hello() const { return fmt::format("1 0 2 {}", sizeof(FrameHeader)); }
  static void expect_works(std::vector<std::unique_ptr<Transport>> transports) {
    Gang gang(std::move(transports), 1);
    CollectiveSpec spec{.op = CollectiveOp::all_reduce, .reduction = Reduction::add, .groups = {0, 1}, .group_size = 2};
    Arrays in{{array_of<float>({1})}, {array_of<float>({2})}};
    expect_like_reference(gang, spec, 1, in, in);
  }
};

TEST_P(GrpcRendezvousTest, StrangersAreRefusedAndDisturbNobody) {
  MemoryStore store;
  std::vector<std::unique_ptr<Transport>> transports(2);
  std::thread first([&] { transports[0] = join(store, 0, 2, kPatience, options()); });
  std::string address = store.get("grpc/address/0", Clock::now() + kPatience);
  std::string token = store.get("grpc/token", Clock::now() + kPatience);
  StreamSecret right{token.substr(0, 64), token.substr(64)};
  std::vector<int> strangers{dial(address, ""), dial(address, "GET / HTTP/1.1\r\nHost: here\r\n\r\n"),
                             dial(address, std::string(5000, '\xff')),
                             dial(address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(5000, '\xff'))};
  for (int i = 0; i < 100; ++i) ::close(dial(address, ""));  // a port scanner
  auto tls = options().tls;
  EXPECT_EQ(call(address, hello(), {"", right.answer}, tls), "the token is not this gang's");
  EXPECT_EQ(call(address, hello(), {std::string(64, '0'), right.answer}, tls), "the token is not this gang's");
  EXPECT_EQ(call(address, hello(), {token, right.answer}, tls), "the token is not this gang's");
  for (const char* other : {"", "nonsense", "0 0 2 96", "1 1 2 96", "2 0 3 96", "1 0 2 8", "-1 0 2 96"})
    EXPECT_EQ(call(address, other, right, tls), "it is meant for another process") << other;
  auto begin = Clock::now();
  transports[1] = join(store, 1, 2, kPatience, options());
  first.join();
  EXPECT_LT(Clock::now() - begin, 5s);
  // The listener stays, and lets nobody in who comes late.
  EXPECT_EQ(call(address, hello(), right, tls), "process 1 is connected already");
  strangers.push_back(dial(address, std::string(5000, '\xff')));
  expect_works(std::move(transports));
  for (int fd : strangers) ::close(fd);
}

TEST_P(GrpcRendezvousTest, AnImpostorIsNotTakenForAProcess) {
  MemoryStore store;
  store.set("grpc/token", std::string(64, 'a') + std::string(64, 'b'));
  StreamServer impostor(
      "127.0.0.1:0", options().tls, {std::string(64, 'a'), "anything"}, [](const std::string&) { return "no"; },
      [](const std::string&, std::shared_ptr<ByteStream>) {});
  store.set("grpc/address/0", fmt::format("127.0.0.1 {}", impostor.port()));
  EXPECT_THAT(error_of([&] { join(store, 1, 2, 10s, options()); }),
              HasSubstr("peer: connect: process 0 does not accept the connection"));
}

TEST_P(GrpcRendezvousTest, MissingProcessesAreNamed) {
  MemoryStore store;
  std::string message1;
  std::thread other([&] { message1 = error_of([&] { join(store, 1, 4, 2s, options()); }); });
  std::string message0 = error_of([&] { join(store, 0, 4, 2s, options()); });
  other.join();
  EXPECT_THAT(message0, HasSubstr("timeout: connect: no connection in time with process 2; process 3"));
  // Whoever gives up first ends the other's connection.
  EXPECT_THAT(message1, HasSubstr("process 2; process 3"));
  MemoryStore empty;
  EXPECT_THAT(error_of([&] { join(empty, 1, 2, 100ms, options()); }), HasSubstr("process 0 has not published"));
}

TEST_P(GrpcRendezvousTest, AddressesAndInterfaces) {
  auto message = [&](const std::string& address, const std::string& interface, const std::string& towards) {
    MemoryStore store;
    GrpcOptions o = options();
    o.address = address, o.interface = interface, o.towards = towards;
    std::string result = error_of([&] { join(store, 0, 2, 300ms, o); });
    if (result.find("no connection in time with process 1") == std::string::npos) return result;
    return store.get("grpc/address/0", Clock::now()).substr(0, 10);
  };
  EXPECT_EQ(message("localhost", "", ""), "127.0.0.1 ");
  EXPECT_EQ(message("", "lo", ""), "127.0.0.1 ");
  EXPECT_EQ(message("", "", "127.0.0.1"), "127.0.0.1 ");
  EXPECT_THAT(message("192.0.2.1", "", ""), HasSubstr("cannot listen on 192.0.2.1"));
  EXPECT_THAT(message(std::string(70, 'a'), "", ""),
              HasSubstr("neither an interface nor an address"));  // no name: looked up nowhere
  EXPECT_THAT(message("", "nosuch0", ""), HasSubstr("cannot listen on nosuch0"));
}

INSTANTIATE_TEST_SUITE_P(Tls, GrpcRendezvousTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "With" : "Without"; });

TEST(GrpcTlsTest, OtherCertificatesAreRefused) {
  Authority gangs, others;
  GrpcOptions good, stranger, elsewhere, none;
  good.tls = gangs.issue("process");
  stranger.tls = others.issue("process");
  stranger.tls->ca = good.tls->ca;  // the client's side has no objection, so that the server's is seen
  elsewhere.tls = gangs.issue("elsewhere", "elsewhere");
  elsewhere.tls->name = "lockstep";
  MemoryStore store;
  std::vector<std::unique_ptr<Transport>> transports(2);
  std::thread first([&] { transports[0] = join(store, 0, 2, kPatience, good); });
  store.get("grpc/address/0", Clock::now() + kPatience);
  for (auto* options : {&stranger, &elsewhere, &none}) {
    auto begin = Clock::now();
    EXPECT_THAT(error_of([&] { join(store, 1, 2, kPatience, *options); }),
                HasSubstr("peer: connect: process 0 does not accept the connection"));
    EXPECT_LT(Clock::now() - begin, 5s);
  }
  transports[1] = join(store, 1, 2, kPatience, good);
  first.join();
  EXPECT_TRUE(transports[0] && transports[1]);
}

}  // namespace
}  // namespace lockstep::collectives::testing

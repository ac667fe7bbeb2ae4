// Who is let into a gang with TLS, and what the others are told.
#include "lockstep/distributed/tls.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <thread>

#include "lockstep/distributed/address.h"
#include "lockstep/distributed/client.h"
#include "lockstep/distributed/service.h"
#include "lockstep/support/error.h"
#include "tests/distributed/subprocess.h"
#include "tests/support/certificates.h"

namespace lockstep::distributed {
namespace {

using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

class TlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    gangs = new Authority;
    others = new Authority;
    gangs->issue("process");
    others->issue("process");
    gangs->issue("elsewhere", "elsewhere");
    gangs->issue("old", "lockstep", -1);
  }
  static void TearDownTestSuite() {
    delete gangs;
    delete others;
  }
  static TlsFiles files(const Authority& ca, const std::string& name = "process") {
    return {ca.path(name + ".pem"), ca.path(name + ".key"), ca.path("ca.pem"), ""};
  }
  static std::string refusal(const TlsFiles& given, ErrorCode code = ErrorCode::invalid_argument) {
    try {
      load_tls(given);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return e.what();
    }
    return "accepted";
  }

  void serve(std::optional<Tls> tls, std::string token = "", int count = 1) {
    service_ = std::make_unique<Service>(
        ServiceOptions{.bind_address = "127.0.0.1:0", .num_processes = count, .token = token, .tls = std::move(tls)});
    address_ = "127.0.0.1:" + std::to_string(service_->port());
  }
  // What connect() says, and that it says so at once.
  std::string join(std::optional<Tls> tls, std::string token = "") {
    Client client({.address = address_,
                   .token = token,
                   .tls = std::move(tls),
                   .initialization_timeout = seconds(30),
                   .progress = [](const std::string&) {}});
    auto begin = Clock::now();
    try {
      client.connect();
      client.shutdown(seconds(10));
    } catch (const Error& e) {
      EXPECT_LT(since(begin), 10) << e.what();
      EXPECT_EQ(e.code(), ErrorCode::distributed) << e.what();
      return e.what();
    }
    return "joined";
  }

  inline static Authority *gangs, *others;
  std::string address_;
  std::unique_ptr<Service> service_;
};

TEST_F(TlsTest, FilesAndEnvironment) {
  EXPECT_EQ(load_tls({}), std::nullopt);
  EXPECT_EQ(load_tls(files(*gangs))->name, "lockstep");
  TlsFiles f = files(*gangs);
  ::setenv("LOCKSTEP_TLS_CA", f.ca.c_str(), 1);
  f.ca.clear();
  EXPECT_EQ(load_tls(f)->ca, file_text(gangs->path("ca.pem")));
  EXPECT_THAT(refusal({}), HasSubstr("TLS is half set: LOCKSTEP_TLS_CA is given, LOCKSTEP_TLS_CERT, LOCKSTEP_TLS_KEY"));
  ::unsetenv("LOCKSTEP_TLS_CA");
}

TEST_F(TlsTest, FilesThatCannotDoAreNamed) {
  TlsFiles f = files(*gangs);
  f.key = "/nowhere/a.key";
  EXPECT_THAT(refusal(f, ErrorCode::io), HasSubstr("LOCKSTEP_TLS_KEY='/nowhere/a.key' can't be read: No such file"));
  f.key = "/";
  EXPECT_THAT(refusal(f, ErrorCode::io), HasSubstr("LOCKSTEP_TLS_KEY='/' can't be read"));
  f.key = f.cert;
  EXPECT_THAT(refusal(f), HasSubstr("holds no PEM private key"));
  f.key = others->path("process.key");
  EXPECT_THAT(refusal(f), HasSubstr("is not the private key of the certificate in LOCKSTEP_TLS_CERT"));
  f = files(*gangs);
  f.cert = f.key;
  EXPECT_THAT(refusal(f), HasSubstr("LOCKSTEP_TLS_CERT='" + f.key + "' holds no PEM certificate"));
  f = files(*gangs);
  f.ca = others->path("ca.pem");
  EXPECT_THAT(refusal(f), AllOf(HasSubstr("does not pass with LOCKSTEP_TLS_CA='" + f.ca + "'"),
                                HasSubstr("has to be in date, issued by the gang's CA")));
  EXPECT_THAT(refusal(files(*gangs, "old")), HasSubstr("expired"));
  EXPECT_THAT(refusal(files(*gangs, "elsewhere")), HasSubstr("is for 'elsewhere', not for 'lockstep'"));
  f = files(*gangs, "elsewhere");
  f.name = "elsewhere";
  EXPECT_EQ(refusal(f), "accepted");
}

TEST_F(TlsTest, OnlyTheGangsCertificatesAreLetIn) {
  Tls good = *load_tls(files(*gangs)), stranger = *load_tls(files(*others)), namesake = good;
  Tls elsewhere = gangs->issue("another", "elsewhere");
  serve(good);
  EXPECT_THAT(join(stranger), AllOf(HasSubstr("no TLS with the coordinator at " + address_),
                                    HasSubstr("its certificate is issued by"), HasSubstr("LOCKSTEP_TLS_CA")));
  stranger.ca = good.ca;  // it believes the coordinator, who does not believe it
  EXPECT_THAT(join(stranger), HasSubstr("it refuses this process's certificate"));
  EXPECT_THAT(join(elsewhere), HasSubstr("its certificate is for 'lockstep', not for 'elsewhere'"));
  elsewhere.name = "lockstep";
  EXPECT_THAT(join(elsewhere), HasSubstr("its certificate does not have the coordinator's LOCKSTEP_TLS_NAME"));
  EXPECT_THAT(join(std::nullopt),
              HasSubstr("it demands TLS, and this process has no certificate: set LOCKSTEP_TLS_CERT"));
  EXPECT_EQ(join(good), "joined");
}

TEST_F(TlsTest, ACoordinatorWithoutItIsNamed) {
  serve(std::nullopt);
  EXPECT_THAT(join(gangs->issue("again")),
              HasSubstr("it does not speak TLS: it was started without LOCKSTEP_TLS_CERT"));
  EXPECT_EQ(join(std::nullopt), "joined");
}

TEST_F(TlsTest, TheTokenStillCounts) {
  Tls good = *load_tls(files(*gangs));
  serve(good, "secret");
  EXPECT_THAT(join(good, "guess"), HasSubstr("LOCKSTEP_TOKEN has to be the same"));
  EXPECT_EQ(join(good, "secret"), "joined");
}

TEST_F(TlsTest, StrangersDisturbNobody) {
  Tls good = *load_tls(files(*gangs));
  serve(good);
  std::vector<int> fds;
  for (std::string text : {std::string("GET / HTTP/1.1\r\nHost: here\r\n\r\n"), std::string(5000, '\xff'),
                           std::string(), std::string("\x16\x03\x01\x02\x00\x01", 6)}) {
    int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(service_->port()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    fds.push_back(fd);
  }
  auto begin = Clock::now();
  EXPECT_EQ(join(good), "joined");
  EXPECT_LT(since(begin), 5);
  for (int fd : fds) ::close(fd);
}

TEST_F(TlsTest, ProcessesOfAGang) {
  std::string address = "127.0.0.1:" + std::to_string(free_port());
  auto start = [&](int rank, const Authority* ca) {
    Subprocess::Variables v{
        {"JAX_COORDINATOR_ADDRESS", address}, {"JAX_NUM_PROCESSES", "2"}, {"JAX_PROCESS_ID", std::to_string(rank)}};
    if (ca != nullptr) {
      v.emplace_back("LOCKSTEP_TLS_CERT", ca->path("process.pem"));
      v.emplace_back("LOCKSTEP_TLS_KEY", ca->path("process.key"));
      v.emplace_back("LOCKSTEP_TLS_CA", ca->path("ca.pem"));
    }
    return Subprocess({DISTRIBUTED_RANK, "barrier"}, v);
  };
  auto a = start(0, gangs), wrong = start(1, others), none = start(1, nullptr);
  EXPECT_EQ(wrong.wait(), 4) << wrong.err();
  EXPECT_THAT(wrong.out(), HasSubstr("refused distributed: initialize: no TLS with the coordinator at " + address +
                                     ": its certificate is issued by"));
  EXPECT_EQ(none.wait(), 4) << none.err();
  EXPECT_THAT(none.out(), HasSubstr("it demands TLS"));
  auto b = start(1, gangs);
  EXPECT_EQ(a.wait(), 0) << a.err();
  EXPECT_EQ(b.wait(), 0) << b.err();
  EXPECT_THAT(b.out(), HasSubstr("passed"));
}

}  // namespace
}  // namespace lockstep::distributed

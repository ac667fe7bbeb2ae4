// How processes find each other over TCP, and what strangers can do about it: nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>

#include "lockstep/collectives/tcp_rendezvous.h"
#include "tests/collectives/gang.h"

namespace lockstep::collectives::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

// Tells when a key is set.
class WatchedStore : public MemoryStore {
 public:
  std::function<void(const std::string&, const std::string&)> on_set;
  void set(const std::string& key, const std::string& value) override {
    MemoryStore::set(key, value);
    if (on_set) on_set(key, value);
  }
};

int dial(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  auto space = address.find(' ');
  inet_pton(AF_INET, address.substr(0, space).c_str(), &to.sin_addr);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(space + 1))));
  int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  return fd;
}

void write_all(int fd, const void* data, std::size_t size) { EXPECT_EQ(::send(fd, data, size, MSG_NOSIGNAL), size); }

std::unique_ptr<Transport> join(Store& store, int rank, int size, Duration patience, GlooOptions options = {}) {
  return connect_gloo(store, rank, size, std::chrono::steady_clock::now() + patience, options);
}

TEST(RendezvousTest, StrangersAreDroppedAndDisturbNobody) {
  WatchedStore store;
  std::vector<int> strangers;
  store.on_set = [&](const std::string& key, const std::string& value) {
    if (key != "gloo/address/0") return;
    strangers.push_back(dial(value));  // says nothing
    strangers.push_back(dial(value));
    const std::string http = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    write_all(strangers.back(), http.data(), http.size());
    strangers.push_back(dial(value));
    std::vector<char> garbage(5000, '\xff');
    write_all(strangers.back(), garbage.data(), garbage.size());
    strangers.push_back(dial(value));  // the right beginning, another gang's token
    struct {
      char magic[8] = {'l', 'o', 'c', 'k', 's', 't', 'e', 'p'};
      std::uint32_t frame_header = sizeof(FrameHeader);
      std::int32_t from = 1, to = 0, size = 2;
      char token[64] = {'0'};
    } hello;
    write_all(strangers.back(), &hello, sizeof(hello));
    ::close(dial(value));  // a port scanner
  };
  std::vector<std::unique_ptr<Transport>> transports(2);
  std::thread other([&] {
    std::this_thread::sleep_for(200ms);
    transports[1] = join(store, 1, 2, kPatience);
  });
  transports[0] = join(store, 0, 2, kPatience);
  other.join();
  Gang gang(std::move(transports), 1);
  CollectiveSpec spec{.op = CollectiveOp::all_reduce, .reduction = Reduction::add, .groups = {0, 1}, .group_size = 2};
  Arrays in{{array_of<float>({1})}, {array_of<float>({2})}};
  expect_like_reference(gang, spec, 1, in, in);
  for (int fd : strangers) ::close(fd);
}

TEST(RendezvousTest, MissingProcessesAreNamed) {
  MemoryStore store;
  std::string message0, message1;
  std::thread other([&] {
    try {
      join(store, 1, 4, 3s);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::timeout);
      message1 = error.what();
    }
  });
  try {
    join(store, 0, 4, 3s);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timeout);
    message0 = error.what();
  }
  other.join();
  EXPECT_THAT(message0, HasSubstr("no connection in time with process 2; process 3"));
  EXPECT_THAT(message1, HasSubstr("no connection in time with process 2; process 3"));
  MemoryStore empty;
  EXPECT_THAT(([&] {
                try {
                  join(empty, 1, 2, 100ms);
                } catch (const Error& error) {
                  return std::string(error.what());
                }
                return std::string();
              })(),
              HasSubstr("process 0 has not published its address"));
}

TEST(RendezvousTest, AddressesAndInterfaces) {
  EXPECT_EQ(address_towards("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(address_towards("localhost"), "127.0.0.1");
  auto message = [](GlooOptions options) {
    MemoryStore store;
    try {
      join(store, 0, 1, 100ms, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("success");
  };
  EXPECT_EQ(message({.address = "localhost"}), "success");
  EXPECT_EQ(message({.interface = "lo"}), "success");
  EXPECT_EQ(message({.towards = "127.0.0.1"}), "success");
  EXPECT_THAT(message({.address = "192.0.2.1"}), HasSubstr("cannot listen on 192.0.2.1"));
  EXPECT_THAT(message({.address = std::string(70, 'a')}),
              HasSubstr("neither an interface nor an address"));  // no name: looked up nowhere
  EXPECT_THAT(message({.interface = "nosuch0"}), HasSubstr("cannot listen on nosuch0"));
}

TEST(RendezvousTest, AStoreWithAWrongAddressIsAnError) {
  MemoryStore store;
  store.set("gloo/token", std::string(64, 'a'));
  store.set("gloo/address/0", "127.0.0.1");
  EXPECT_THROW(join(store, 1, 2, 100ms), Error);
  store.set("gloo/address/0", "127.0.0.1 1");  // nobody listens there
  EXPECT_THROW(join(store, 1, 2, 1s), Error);
}

}  // namespace
}  // namespace lockstep::collectives::testing

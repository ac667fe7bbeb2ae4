// A peer that sends anything: frames with random headers over a real connection to an engine that has collectives open.
// The engine ends those with an error or lets them wait, and goes in good order; it does not fall.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "lockstep/collectives/tcp_rendezvous.h"
#include "tests/collectives/gang.h"

namespace lockstep::collectives::testing {
namespace {

using namespace std::chrono_literals;

FrameHeader random_header(std::mt19937_64& random, const FrameHeader& like) {
  FrameHeader h = like;
  auto below = [&](std::uint64_t n) { return random() % n; };
  auto number = [&]() -> std::uint64_t {
    constexpr std::uint64_t edges[] = {0, 1, 4, sizeof(FrameHeader), 1 << 16, 1ull << 32, 1ull << 63, ~0ull};
    return edges[below(8)];
  };
  h.kind = static_cast<FrameKind>(below(8) == 0 ? random() : below(12));
  h.length = below(3) == 0 ? number() : below(64);
  h.total = below(3) == 0 ? number() : h.length;
  h.offset = below(4) == 0 ? number() : 0;
  h.credit = number();
  if (below(3) == 0) h.fingerprint = static_cast<std::uint32_t>(random());
  if (below(3) == 0) h.launched = number();
  if (below(3) == 0) h.program = number();
  if (below(3) == 0) h.tag.communicator = number();
  if (below(3) == 0) h.tag.launch = number();
  if (below(3) == 0) h.tag.op = number();
  if (below(3) == 0) h.tag.occurrence = static_cast<std::uint32_t>(number());
  if (below(3) == 0) h.tag.item = static_cast<std::uint32_t>(number());
  if (below(3) == 0) h.tag.chunk = static_cast<std::uint32_t>(number());
  return h;
}

void session(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MemoryStore store;
  int peer = -1;
  std::thread other([&] {
    SocketAddress bind;
    auto* in = reinterpret_cast<sockaddr_in*>(&bind.storage);
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind.length = sizeof(sockaddr_in);
    peer = connect_all(store, 1, 2, std::chrono::steady_clock::now() + kPatience, bind, "gloo").at(0);
  });
  auto transport = connect_gloo(store, 0, 2, std::chrono::steady_clock::now() + kPatience, {});
  other.join();
  std::vector<float> in(1024, 1), out(1024);
  std::atomic<int> ended{0};
  {
    EngineOptions options;
    options.deadline = 5s;
    Engine engine(std::move(transport), options);
    engine.add_communicator({.id = 1, .processes = {0, 1}});
    for (std::int64_t op = 0; op < 3; ++op) {
      auto spec = std::make_shared<CollectiveSpec>();
      spec->op = op == 1 ? CollectiveOp::all_gather : CollectiveOp::all_reduce;
      spec->reduction = op == 1 ? Reduction::none : Reduction::add;
      spec->id = op;
      spec->groups = {0, 1};
      spec->group_size = 2;
      spec->outer = {1};
      std::size_t n = op == 1 ? 512 : 1024;
      std::int64_t dims_in[] = {static_cast<std::int64_t>(n)}, dims_out[] = {1024};
      InBuffer input{in.data(), n * 4, DType::float32, n, dims_in};
      OutBuffer output{out.data(), 4096, DType::float32, 1024, dims_out};
      if (op == 0 || random() % 2) {
        engine.start(spec, 1, 0, 0, {&input, 1}, {&output, 1}, [&](const Error*) { ++ended; });
        break;  // one at a time has the buffers
      }
    }
    // What the engine says of itself is what a peer would answer with.
    FrameHeader like;
    timeval patience{.tv_sec = 0, .tv_usec = 20000};
    ::setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (::recv(peer, &like, sizeof like, MSG_WAITALL) != sizeof like) like = FrameHeader();
    for (int i = 0; i < 20; ++i) {
      FrameHeader h = random_header(random, like);
      std::vector<char> bytes(sizeof h + std::min<std::uint64_t>(h.length, 256));
      std::memcpy(bytes.data(), &h, sizeof h);
      for (std::size_t k = sizeof h; k < bytes.size(); ++k) bytes[k] = static_cast<char>(random());
      if (random() % 10 == 0) bytes.resize(random() % bytes.size());
      if (::send(peer, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
    }
    if (random() % 2) ::shutdown(peer, SHUT_WR);
  }
  EXPECT_EQ(ended, 1) << "the collective has ended, once";
  ::close(peer);
}

TEST(FuzzTest, APeerThatSendsAnything) {
  const char* text = std::getenv("LOCKSTEP_FUZZ_SECONDS");
  const char* given = std::getenv("LOCKSTEP_FUZZ_SEED");
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(text ? 1000 * std::atoi(text) : 3000);
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  do {
    SCOPED_TRACE(::testing::Message() << "LOCKSTEP_FUZZ_SEED=" << seed);
    session(seed++);
  } while (!given && !HasFailure() && std::chrono::steady_clock::now() < end);
}

}  // namespace
}  // namespace lockstep::collectives::testing

// A peer that sends anything: frames with random headers over a real connection to an engine that has collectives open.
// The engine ends those with an error or lets them wait, and goes in good order; it does not fall.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <random>

#include "lockstep/collectives/grpc_stream.h"
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

// Process 1, without a transport.
class RawPeer {
 public:
  virtual ~RawPeer() = default;                 // closes the connection
  virtual bool first(FrameHeader& header) = 0;  // what has come, if it comes soon
  virtual bool send(const std::vector<char>& bytes) = 0;
  virtual void finish() = 0;  // sends no more
};

class TcpPeer final : public RawPeer {
 public:
  explicit TcpPeer(Store& store) {
    SocketAddress bind;
    auto* in = reinterpret_cast<sockaddr_in*>(&bind.storage);
    in->sin_family = AF_INET;
    in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind.length = sizeof(sockaddr_in);
    fd_ = connect_all(store, 1, 2, everybody(2), std::chrono::steady_clock::now() + kPatience, bind, "gloo").at(0);
  }
  ~TcpPeer() override { ::close(fd_); }
  bool first(FrameHeader& header) override {
    timeval patience{.tv_sec = 0, .tv_usec = 20000};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return ::recv(fd_, &header, sizeof header, MSG_WAITALL) == sizeof header;
  }
  bool send(const std::vector<char>& bytes) override {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
  }
  void finish() override { ::shutdown(fd_, SHUT_WR); }

 private:
  int fd_;
};

class GrpcPeer final : public RawPeer, private StreamEvents {
 public:
  explicit GrpcPeer(Store& store) {
    auto deadline = std::chrono::steady_clock::now() + kPatience;
    std::string token = store.get("grpc/token", deadline);
    std::promise<std::string> refusal;
    stream_ = call_stream(parse_published(store.get("grpc/address/0", deadline)).text(), {},
                          fmt::format("1 0 2 {}", sizeof(FrameHeader)), {token.substr(0, 64), token.substr(64)},
                          [&](const std::string& text) { refusal.set_value(text); });
    EXPECT_EQ(refusal.get_future().get(), "");
    stream_->start(*this);
  }
  ~GrpcPeer() override {
    stream_->cancel();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return finished_ && !writing_; });
    }
    stream_->release();
    stream_->wait();
  }
  bool first(FrameHeader& header) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 20ms, [&] { return come_.size() >= sizeof header; })) return false;
    std::memcpy(&header, come_.data(), sizeof header);
    return true;
  }
  bool send(const std::vector<char>& bytes) override {
    if (bytes.empty()) return true;
    StreamChunk chunk{std::unique_ptr<std::byte[]>(new std::byte[bytes.size()]), bytes.size()};
    std::memcpy(chunk.data.get(), bytes.data(), bytes.size());
    return write(std::move(chunk));
  }
  void finish() override { write({}); }

 private:
  bool write(StreamChunk chunk) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return finished_ || !writing_; });
      if (finished_) return false;
      writing_ = true;
    }
    stream_->write(std::move(chunk));
    return true;
  }
  bool received(Piece bytes) override {
    std::lock_guard lock(mutex_);
    come_.insert(come_.end(), bytes.begin(), bytes.end());
    changed_.notify_all();
    return true;
  }
  void finished() override {
    std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }
  void written(bool) override {
    std::lock_guard lock(mutex_);
    writing_ = false;
    changed_.notify_all();
  }

  std::shared_ptr<ByteStream> stream_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Bytes come_;
  bool finished_ = false, writing_ = false;
};

void session(Fabric fabric, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  MemoryStore store;
  std::unique_ptr<RawPeer> peer;
  std::thread other([&] {
    if (fabric == Fabric::grpc) {
      peer = std::make_unique<GrpcPeer>(store);
    } else {
      peer = std::make_unique<TcpPeer>(store);
    }
  });
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  auto transport =
      fabric == Fabric::grpc ? connect_grpc(store, 0, 2, deadline, {}) : connect_gloo(store, 0, 2, deadline, {});
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
    if (!peer->first(like)) like = FrameHeader();
    for (int i = 0; i < 20; ++i) {
      FrameHeader h = random_header(random, like);
      std::vector<char> bytes(sizeof h + std::min<std::uint64_t>(h.length, 256));
      std::memcpy(bytes.data(), &h, sizeof h);
      for (std::size_t k = sizeof h; k < bytes.size(); ++k) bytes[k] = static_cast<char>(random());
      if (random() % 10 == 0) bytes.resize(random() % bytes.size());
      if (!peer->send(bytes)) break;
    }
    if (random() % 2) peer->finish();
  }
  EXPECT_EQ(ended, 1) << "the collective has ended, once";
}

class FuzzTest : public ::testing::TestWithParam<Fabric> {};

TEST_P(FuzzTest, APeerThatSendsAnything) {
  const char* text = std::getenv("LOCKSTEP_FUZZ_SECONDS");
  const char* given = std::getenv("LOCKSTEP_FUZZ_SEED");
  auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(text ? 1000 * std::atoi(text) : 3000);
  std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  do {
    SCOPED_TRACE(::testing::Message() << "LOCKSTEP_FUZZ_SEED=" << seed);
    session(GetParam(), seed++);
  } while (!given && !HasFailure() && std::chrono::steady_clock::now() < end);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, FuzzTest, ::testing::Values(Fabric::gloo, Fabric::grpc),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace lockstep::collectives::testing

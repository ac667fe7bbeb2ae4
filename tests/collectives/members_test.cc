// Some of a gang's processes meet: only they connect, and they do not wait for one that has died.
#include <gmock/gmock.h>

#include <atomic>

#include "tests/collectives/gang.h"

namespace lockstep::collectives::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class WatchedStore final : public MemoryStore {
 public:
  std::atomic<bool> died{false};
  void check() override {
    if (died) throw_error(ErrorCode::peer, "connect", "process 2 is gone");
  }
};

class MembersTest : public ::testing::TestWithParam<Fabric> {
 protected:
  static std::unique_ptr<Transport> join(Store& store, int rank, int size, std::vector<int> members) {
    auto deadline = Clock::now() + kPatience;
    if (GetParam() == Fabric::grpc) {
      GrpcOptions options;
      options.members = std::move(members);
      return connect_grpc(store, rank, size, deadline, options);
    }
    GlooOptions options;
    options.members = std::move(members);
    auto transport = connect_gloo(store, rank, size, deadline, options);
    return GetParam() == Fabric::shared ? with_shared_memory(std::move(transport), store, deadline)
                                        : std::move(transport);
  }
};

TEST_P(MembersTest, OnlyTheyAreConnected) {
  MemoryStore store;
  std::vector<std::unique_ptr<Transport>> transports(4);
  std::vector<std::thread> threads;
  for (int rank : {1, 3}) threads.emplace_back([&, rank] { transports[rank] = join(store, rank, 4, {1, 3}); });
  for (auto& t : threads) t.join();
  for (int rank : {1, 3}) {
    ASSERT_NE(transports[rank], nullptr);
    EXPECT_EQ(transports[rank]->rank(), rank);
    EXPECT_EQ(transports[rank]->size(), 4);
    for (int peer : {0, 1, 2, 3}) EXPECT_EQ(transports[rank]->reaches(peer), peer == 4 - rank) << rank << " " << peer;
  }
  // A collective between them; failing and leaving do not look for the others.
  std::vector<std::unique_ptr<Engine>> engines;
  for (int rank : {1, 3}) {
    engines.push_back(std::make_unique<Engine>(std::move(transports[rank])));
    engines.back()->add_communicator({.id = 7, .processes = {1, 3}});
  }
  auto spec = std::make_shared<CollectiveSpec>(
      CollectiveSpec{.op = CollectiveOp::all_reduce, .reduction = Reduction::add, .groups = {0, 1}, .group_size = 2});
  std::vector<Array> in{array_of<float>({1}), array_of<float>({2})}, out{array_of<float>({0}), array_of<float>({0})};
  std::vector<Ticket> tickets(2);
  std::vector<std::int64_t> dims{1};
  for (std::size_t i = 0; i < 2; ++i) {
    InBuffer from{in[i].data.data(), 4, DType::float32, 1, dims};
    OutBuffer to{out[i].data.data(), 4, DType::float32, 1, dims};
    engines[i]->start(spec, 7, 0, static_cast<std::int64_t>(i), std::span(&from, 1), std::span(&to, 1),
                      tickets[i].done());
  }
  for (std::size_t i = 0; i < 2; ++i) {
    auto error = tickets[i].wait();
    EXPECT_FALSE(error) << error->what();
    EXPECT_EQ(*out[i].as<float>(), 3);
  }
  engines[0]->fail(Error(ErrorCode::peer, "test", "enough", 0));
  engines[1]->leave();
}

TEST_P(MembersTest, NobodyWaitsForOneThatHasDied) {
  WatchedStore store;
  std::vector<std::string> messages(2);
  std::vector<std::thread> threads;
  auto began = Clock::now();
  for (int rank : {0, 1})
    threads.emplace_back([&, rank] {
      try {
        join(store, rank, 3, {});
      } catch (const Error& error) {
        messages[rank] = error.what();
      }
    });
  std::this_thread::sleep_for(200ms);
  store.died = true;
  for (auto& t : threads) t.join();
  // One that has not been waited for long may see that the other has given up.
  EXPECT_THAT(messages, ::testing::Contains(HasSubstr("process 2 is gone")));
  for (auto& message : messages) EXPECT_NE(message, "");
  EXPECT_LT(Clock::now() - began, 10s);
}

INSTANTIATE_TEST_SUITE_P(Fabrics, MembersTest, ::testing::Values(Fabric::gloo, Fabric::shared, Fabric::grpc),
                         [](const auto& info) { return to_string(info.param); });

}  // namespace
}  // namespace lockstep::collectives::testing

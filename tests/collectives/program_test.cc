// Whole programs of collectives: many at a time, started in any order, and sums whose order is promised.
#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "tests/collectives/gang.h"

namespace lockstep::collectives::testing {
namespace {

struct Shape {
  Fabric fabric;
  int processes, per_process;
};

class ProgramTest : public ::testing::TestWithParam<Shape> {
 protected:
  EngineOptions options() {
    EngineOptions options;
    options.direct_bytes = 4 << 10;
    options.chunk_bytes = 4 << 10;
    options.inline_bytes = 1 << 10;
    options.workers = options.completions = 2;
    return options;
  }
  Gang gang() { return Gang(GetParam().fabric, GetParam().processes, GetParam().per_process, options()); }
};

struct Step {
  CollectiveSpec spec;
  Arrays in, out, want;
  std::vector<Ticket> tickets;
};

Step random_step(std::mt19937& random, int n, std::int64_t id) {
  auto below = [&](int k) { return static_cast<int>(random() % k); };
  Step step;
  CollectiveSpec& spec = step.spec;
  spec.op = static_cast<CollectiveOp>(below(6));
  spec.id = id;
  spec.name = fmt::format("op.{}", id);
  std::vector<std::int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  spec.groups = order;
  spec.group_size = n % 2 == 0 && below(2) ? n / 2 : n;
  std::int64_t count = below(3) ? below(30) : below(9000), group = spec.group_size, outer = 1 + below(3);
  DType dtype = std::array{DType::float32, DType::int8, DType::complex64}[below(3)];
  std::vector<std::int64_t> in{count}, out{count};
  int leaves = 1;
  switch (spec.op) {
    case CollectiveOp::all_gather:
      spec.outer = {outer};
      in = {outer, count};
      out = {outer, group, count};
      break;
    case CollectiveOp::reduce_scatter:
      spec.outer = {outer};
      out = {outer, count};
      in = {outer, group, count};
      break;
    case CollectiveOp::all_to_all:
      leaves = static_cast<int>(group);
      break;
    case CollectiveOp::collective_permute:
      spec.pairs.assign({order[0], order[n - 1]});
      for (int i = 0; i + 1 < n; ++i) spec.pairs.insert(spec.pairs.end(), {order[i + 1], order[i]});
      break;
    default:
      break;
  }
  spec.reduction = Reduction::add;
  step.in.resize(n);
  step.out.resize(n);
  for (int p = 0; p < n; ++p) {
    for (int k = 0; k < leaves; ++k) {
      step.in[p].push_back(make_array(dtype, in));
      step.out[p].push_back(make_array(dtype, out));
      fill(step.in[p].back(), random());
    }
  }
  step.want = reference(spec, step.in, step.out);
  step.tickets.resize(n);
  return step;
}

TEST_P(ProgramTest, IndependentCollectivesInAnyOrder) {
  Gang g = gang();
  int n = g.partitions();
  std::mt19937 random(GetParam().processes * 10 + GetParam().per_process);
  for (std::uint64_t launch = 1; launch <= 6; launch += 2) {
    std::vector<Step> steps;  // 24 outstanding in each of two launches at once
    for (int i = 0; i < 48; ++i) steps.push_back(random_step(random, n, i % 24));
    std::vector<std::thread> threads;
    for (int p = 0; p < n; ++p) {
      std::vector<int> order(steps.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      threads.emplace_back([&, p, order] {
        for (int i : order) {
          Step& step = steps[i];
          g.start(step.spec, launch + i / 24, p, step.in[p], step.out[p], step.tickets[p].done());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (Step& step : steps) {
      for (int p = 0; p < n; ++p) {
        auto error = step.tickets[p].wait();
        ASSERT_FALSE(error) << error->what();
        for (std::size_t k = 0; k < step.want[p].size(); ++k) {
          ASSERT_TRUE(step.out[p][k].data == step.want[p][k].data) << to_string(step.spec.op) << " partition " << p;
        }
        EXPECT_EQ(step.tickets[p].calls(), 1);
      }
    }
    g.end_launch(launch);
    g.end_launch(launch + 1);
  }
  for (auto& engine : g.engines) EXPECT_TRUE(engine->snapshot().empty());
}

// Every partition goes through a loop of two operations by itself, and continues from inside `done`.
TEST_P(ProgramTest, LoopsMatchByOccurrence) {
  Gang g = gang();
  int n = g.partitions();
  constexpr int kRounds = 200;
  CollectiveSpec sum{
      .op = CollectiveOp::all_reduce, .reduction = Reduction::add, .id = 1, .group_size = n, .name = "sum"};
  for (int p = 0; p < n; ++p) sum.groups.push_back(p);
  CollectiveSpec shift{.op = CollectiveOp::collective_permute, .id = 2, .name = "shift"};
  for (int p = 0; p < n; ++p) shift.pairs.insert(shift.pairs.end(), {p, (p + 1) % n});
  struct Walker {
    std::vector<Array> a{array_of(std::vector<std::int64_t>(3))}, b = a;
    int round = 0;
    Ticket ticket;
    std::function<void(const Error*)> next;
  };
  std::vector<Walker> walkers(n);
  for (int p = 0; p < n; ++p) {
    Walker& w = walkers[p];
    w.a[0].as<std::int64_t>()[0] = p;
    w.next = [&, p](const Error* error) {
      if (error || w.round == 2 * kRounds) return w.ticket.done()(error);
      if (w.round++ % 2 == 0) {
        w.a[0].as<std::int64_t>()[1] = w.round;
        g.start(sum, 1, p, w.a, w.b, w.next);
      } else {
        w.b[0].as<std::int64_t>()[0] = w.a[0].as<std::int64_t>()[0];
        g.start(shift, 1, p, w.b, w.a, w.next);
      }
    };
  }
  for (Walker& w : walkers) w.next(nullptr);
  for (int p = 0; p < n; ++p) {
    ASSERT_FALSE(walkers[p].ticket.wait());
    EXPECT_EQ(walkers[p].a[0].as<std::int64_t>()[0], ((p - kRounds) % n + n) % n);
    EXPECT_EQ(walkers[p].a[0].as<std::int64_t>()[1], n * (2 * kRounds - 1));
  }
}

// All members get the same bits, those of the promised order, each time.
TEST_P(ProgramTest, SumsAreInTheOrderOfTheGroup) {
  Gang g = gang();
  int n = g.partitions();
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (std::int64_t count : {100, 5000}) {
    CollectiveSpec spec{.op = CollectiveOp::all_reduce, .reduction = Reduction::add, .group_size = n, .name = "sum"};
    for (int p = 0; p < n; ++p) spec.groups.push_back(n - 1 - p);
    Arrays in(n);
    for (int p = 0; p < n; ++p) {
      std::vector<float> values(count);
      for (float& v : values) v = normal(random) * std::exp2(normal(random) * 4);
      in[p].push_back(array_of(values));
    }
    std::vector<float> want(count);
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<int> processes;
      std::map<int, float> parts;
      for (std::int64_t member : spec.groups) {
        float v = in[member][0].as<float>()[i];
        auto [part, first] = parts.try_emplace(g.process_of[member], v);
        if (first) processes.push_back(g.process_of[member]);
        if (!first) part->second += v;
      }
      want[i] = parts[processes[0]];
      for (std::size_t k = 1; k < processes.size(); ++k) want[i] += parts[processes[k]];
    }
    for (int repeat = 0; repeat < 3; ++repeat) {
      Arrays out = in;
      std::vector<Ticket> tickets(n);
      std::vector<int> order(n);
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random);
      for (int p : order) g.start(spec, 10 + repeat + count, p, in[p], out[p], tickets[p].done());
      for (int p = 0; p < n; ++p) {
        ASSERT_FALSE(tickets[p].wait());
        EXPECT_EQ(std::memcmp(out[p][0].data.data(), want.data(), count * sizeof(float)), 0) << "partition " << p;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gangs, ProgramTest,
                         ::testing::Values(Shape{Fabric::local, 1, 2}, Shape{Fabric::local, 2, 2},
                                           Shape{Fabric::local, 4, 1}, Shape{Fabric::gloo, 2, 2},
                                           Shape{Fabric::gloo, 3, 1}, Shape{Fabric::gloo, 4, 2},
                                           Shape{Fabric::shared, 2, 2}, Shape{Fabric::shared, 4, 1},
                                           Shape{Fabric::grpc, 2, 2}, Shape{Fabric::grpc_tls, 3, 1}),
                         [](const auto& info) {
                           return fmt::format("{}_{}x{}", to_string(info.param.fabric), info.param.processes,
                                              info.param.per_process);
                         });

}  // namespace
}  // namespace lockstep::collectives::testing

// Every collective against the plain reference, over ranks that are threads.
#include "lockstep/collectives/engine.h"

#include <numeric>

#include "tests/collectives/gang.h"

namespace lockstep::collectives::testing {
namespace {

const std::vector<DType> kDTypes = {DType::bool_,   DType::int8,      DType::int16,     DType::int32,
                                    DType::int64,   DType::uint8,     DType::uint16,    DType::uint32,
                                    DType::uint64,  DType::float16,   DType::bfloat16,  DType::float32,
                                    DType::float64, DType::complex64, DType::complex128};
const std::vector<Reduction> kReductions = {Reduction::add,     Reduction::multiply, Reduction::maximum,
                                            Reduction::minimum, Reduction::and_,     Reduction::or_,
                                            Reduction::xor_};

bool defined(DType dtype, Reduction reduction) {
  if (is_complex(dtype)) return reduction == Reduction::add || reduction == Reduction::multiply;
  if (is_floating(dtype)) {
    return reduction != Reduction::and_ && reduction != Reduction::or_ && reduction != Reduction::xor_;
  }
  return true;
}

struct Shape {
  Fabric fabric;
  int processes, per_process;
  bool interleaved;
};

// Ways to split the partitions into groups of equal size: all, neighbours, strided, each alone.
std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> groupings(int n) {
  std::vector<std::int64_t> all(n), strided, reversed;
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::pair<std::vector<std::int64_t>, std::int64_t>> result{{all, n}, {all, 1}};
  reversed.assign(all.rbegin(), all.rend());
  result.push_back({reversed, n});
  if (n % 2 == 0 && n > 2) {
    result.push_back({all, n / 2});
    for (int i = 0; i < n / 2; ++i) {
      for (int j = 0; j < 2; ++j) strided.push_back(i + j * (n / 2));
    }
    result.push_back({strided, 2});
  }
  return result;
}

class EngineTest : public ::testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.direct_bytes = 2 << 10;  // so that both ways are taken
    options.chunk_bytes = 1 << 10;
    options.inline_bytes = 512;
    options.workers = options.completions = 2;
    gang_.emplace(GetParam().fabric, GetParam().processes, GetParam().per_process, options, GetParam().interleaved);
  }
  int n() const { return gang_->partitions(); }
  std::uint64_t next() { return ++launch_; }

  Arrays inputs(const std::vector<std::pair<DType, std::vector<std::int64_t>>>& leaves) {
    Arrays in(n());
    for (int p = 0; p < n(); ++p) {
      for (const auto& [dtype, dims] : leaves) {
        in[p].push_back(make_array(dtype, dims));
        fill(in[p].back(), ++seed_);
      }
    }
    return in;
  }
  void run(const CollectiveSpec& spec, const Arrays& in, const Arrays& out) {
    ASSERT_NO_FATAL_FAILURE(expect_like_reference(*gang_, spec, next(), in, out));
  }

  std::optional<Gang> gang_;
  std::uint64_t launch_ = 0, seed_ = 0;
};

TEST_P(EngineTest, AllReduceInEveryTypeAndReduction) {
  for (DType dtype : kDTypes) {
    for (Reduction reduction : kReductions) {
      if (!defined(dtype, reduction)) continue;
      CollectiveSpec spec{.op = CollectiveOp::all_reduce, .reduction = reduction, .name = "psum"};
      std::tie(spec.groups, spec.group_size) = groupings(n())[0];
      for (std::int64_t count : {7, 1003}) {
        Arrays in = inputs({{dtype, {count}}});
        run(spec, in, in);
      }
    }
  }
}

TEST_P(EngineTest, AllReduceOverGroupsOfTuples) {
  for (const auto& [groups, size] : groupings(n())) {
    CollectiveSpec spec{.op = CollectiveOp::all_reduce,
                        .reduction = Reduction::add,
                        .groups = groups,
                        .group_size = size,
                        .name = "psum"};
    for (std::int64_t count : {0, 1, 5, 700}) {
      Arrays in = inputs({{DType::int8, {3}},
                          {DType::float32, {count}},
                          {DType::float64, {2, count}},
                          {DType::bool_, {1}},
                          {DType::complex64, {count, 1}},
                          {DType::float32, {0}}});
      run(spec, in, in);
    }
  }
}

TEST_P(EngineTest, AllGatherAndReduceScatterInEveryLayout) {
  for (const auto& [groups, size] : groupings(n())) {
    for (DType dtype : kDTypes) {
      for (std::int64_t outer : {1, 3, 300}) {
        CollectiveSpec gather{.op = CollectiveOp::all_gather,
                              .groups = groups,
                              .group_size = size,
                              .outer = {outer, 1},
                              .name = "all_gather"};
        Arrays in = inputs({{dtype, {outer, 5}}, {DType::int16, {2}}}), out(n());
        for (auto& leaves : out) {
          leaves.push_back(make_array(dtype, {outer, size, 5}));
          leaves.push_back(make_array(DType::int16, {size, 2}));
        }
        run(gather, in, out);
        if (!defined(dtype, Reduction::multiply)) continue;
        CollectiveSpec scatter = gather;
        scatter.op = CollectiveOp::reduce_scatter;
        scatter.reduction = Reduction::add;
        scatter.name = "psum_scatter";
        Arrays wide = inputs({{dtype, {outer, size, 5}}, {DType::int16, {size, 2}}});
        run(scatter, wide, in);
      }
    }
  }
}

TEST_P(EngineTest, AllToAllAndBroadcast) {
  for (const auto& [groups, size] : groupings(n())) {
    for (std::int64_t count : {0, 1, 900}) {
      CollectiveSpec spec{.op = CollectiveOp::all_to_all, .groups = groups, .group_size = size, .name = "all_to_all"};
      Arrays in = inputs(std::vector<std::pair<DType, std::vector<std::int64_t>>>(size, {DType::float16, {count}}));
      run(spec, in, in);
      CollectiveSpec broadcast{
          .op = CollectiveOp::collective_broadcast, .groups = groups, .group_size = size, .name = "broadcast"};
      Arrays pair = inputs({{DType::complex128, {count}}, {DType::uint8, {3}}});
      run(broadcast, pair, pair);
    }
  }
}

TEST_P(EngineTest, PermuteFullPartialSelfAndNone) {
  std::vector<std::vector<std::int64_t>> all_pairs{{}, {0, 0}, {0, n() - 1}, {n() - 1, 0}, {}};
  for (int p = 0; p < n(); ++p) all_pairs[0].insert(all_pairs[0].end(), {p, (p + 1) % n()});
  if (n() > 2) all_pairs.push_back({0, 0, 1, 2, 2, 1});
  for (const auto& pairs : all_pairs) {
    for (DType dtype : kDTypes) {
      CollectiveSpec spec{.op = CollectiveOp::collective_permute, .pairs = pairs, .name = "ppermute"};
      Arrays in = inputs({{dtype, {11}}, {DType::float32, {1500}}});
      run(spec, in, in);
    }
  }
}

TEST_P(EngineTest, RaggedAllToAll) {
  for (const auto& [groups, size] : groupings(n())) {
    for (std::int64_t updates : {1, 2}) {
      for (std::int64_t width : {3, 200}) {
        CollectiveSpec spec{
            .op = CollectiveOp::ragged_all_to_all, .groups = groups, .group_size = size, .name = "ragged"};
        std::int64_t slots = size * updates, rows = 4 * slots;
        Arrays in(n()), out(n());
        std::vector<std::vector<std::int32_t>> send(n()), place(n()), receive(n());
        for (int p = 0; p < n(); ++p) {
          for (std::int64_t i = 0; i < slots; ++i) send[p].push_back(static_cast<std::int32_t>((p + 2 * i) % 4));
          place[p].resize(slots);
          receive[p].resize(slots);
        }
        for (std::size_t first = 0; first < groups.size(); first += size) {
          for (std::int64_t j = 0; j < size; ++j) {
            std::int32_t at = 1;
            for (std::int64_t m = 0; m < size; ++m) {
              for (std::int64_t u = 0; u < updates; ++u) {
                std::int64_t from = groups[first + m];
                place[from][j * updates + u] = at;
                receive[groups[first + j]][m * updates + u] = send[from][j * updates + u];
                at += send[from][j * updates + u];
              }
            }
          }
        }
        for (int p = 0; p < n(); ++p) {
          std::vector<std::int64_t> offsets(slots), wide_send(send[p].begin(), send[p].end());
          for (std::int64_t i = 1; i < slots; ++i) offsets[i] = offsets[i - 1] + send[p][i - 1];
          in[p] = {make_array(DType::float32, {rows, width}), make_array(DType::float32, {rows + 1, width})};
          fill(in[p][0], ++seed_);
          fill(in[p][1], ++seed_);
          in[p].push_back(array_of(offsets));
          in[p].push_back(array_of(wide_send));
          in[p].push_back(array_of(place[p]));
          in[p].push_back(array_of(receive[p]));
          out[p] = {make_array(DType::float32, {rows + 1, width})};
        }
        run(spec, in, out);
      }
    }
  }
}

std::string shape_name(const ::testing::TestParamInfo<Shape>& info) {
  const Shape& s = info.param;
  return fmt::format("{}_{}x{}{}", to_string(s.fabric), s.processes, s.per_process,
                     s.interleaved ? "_Interleaved" : "");
}
INSTANTIATE_TEST_SUITE_P(Gangs, EngineTest,
                         ::testing::Values(Shape{Fabric::local, 1, 4, false}, Shape{Fabric::local, 2, 1, false},
                                           Shape{Fabric::local, 2, 2, false}, Shape{Fabric::local, 2, 2, true},
                                           Shape{Fabric::local, 3, 1, false}, Shape{Fabric::local, 3, 2, true},
                                           Shape{Fabric::local, 4, 2, false}, Shape{Fabric::gloo, 2, 1, false},
                                           Shape{Fabric::gloo, 2, 2, false}, Shape{Fabric::gloo, 3, 2, true},
                                           Shape{Fabric::gloo, 4, 1, false}, Shape{Fabric::shared, 2, 1, false},
                                           Shape{Fabric::shared, 2, 2, true}, Shape{Fabric::shared, 4, 2, false},
                                           Shape{Fabric::grpc, 2, 1, false}, Shape{Fabric::grpc, 3, 2, true},
                                           Shape{Fabric::grpc_tls, 4, 1, false}),
                         shape_name);

}  // namespace
}  // namespace lockstep::collectives::testing

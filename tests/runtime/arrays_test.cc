#include "lockstep/runtime/arrays.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "lockstep/runtime/backend.h"

namespace lockstep::runtime {
namespace {

using testing::HasSubstr;

const bool four_devices = setenv("JAX_NUM_CPU_DEVICES", "4", 1) == 0;

Mesh mesh22() { return Mesh({{"x", 2}, {"y", 2}}, {0, 1, 2, 3}); }
std::vector<std::int32_t> iota(std::int64_t n) {
  std::vector<std::int32_t> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}
HostBox box(const std::vector<std::int32_t>& v, Shape shape) {
  return {reinterpret_cast<const std::byte*>(v.data()), shape, nullptr};
}
std::vector<std::int32_t> ints(const HostView& view) {
  std::vector<std::int32_t> v(view.bytes().size() / 4);
  if (!v.empty()) std::memcpy(v.data(), view.data(), view.bytes().size());
  return v;
}
ConcreteArray& concrete(const ValueRef& v) { return *as_concrete(v.get()); }
std::vector<std::int32_t> all(const ValueRef& v) { return ints(to_host(concrete(v))); }

const std::vector<PartitionSpec>& specs() {
  static const std::vector<PartitionSpec> all = {P(),
                                                 P("x"),
                                                 P(none, "y"),
                                                 P("x", "y"),
                                                 P("y", "x"),
                                                 P({"x", "y"}),
                                                 P({"y", "x"}, none),
                                                 P(none, none, "x"),
                                                 P("y", none, "x"),
                                                 P(none, {"x", "y"}, none)};
  return all;
}

TEST(Arrays, EverySpecHoldsTheWhole) {
  Shape shape{4, 8, 2};
  AvalP aval = make_aval(shape, DType::int32);
  auto v = iota(shape.elements());
  for (auto& spec : specs()) {
    const Sharding& s = named_sharding(mesh22(), spec);
    ValueRef a = put_host(aval, s, box(v, shape));
    EXPECT_EQ(concrete(a).sharding(), &s);
    EXPECT_EQ(concrete(a).shard_count(), 4u);
    EXPECT_TRUE(is_fully_addressable(concrete(a)));
    EXPECT_EQ(all(a), v) << to_string(spec);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(concrete(a).shards()[i].device_id(), i);
  }
}

TEST(Arrays, ReshardingBetweenAllSpecs) {
  Shape shape{4, 8, 2};
  auto v = iota(shape.elements());
  for (auto& from : specs()) {
    ValueRef a = put_host(make_aval(shape, DType::int32), named_sharding(mesh22(), from), box(v, shape));
    for (auto& to : specs()) {
      ValueRef b = reshard(concrete(a), named_sharding(mesh22(), to));
      EXPECT_EQ(all(b), v) << to_string(from) << " to " << to_string(to);
    }
    ValueRef c = reshard(concrete(a), single_device_sharding(2));
    EXPECT_EQ(concrete(c).shards()[0].device_id(), 2);
    EXPECT_EQ(all(c), v);
    EXPECT_EQ(concrete(reshard(concrete(c), single_device_sharding(0))).sharding(), nullptr);
  }
}

TEST(Arrays, ReshardingToTheSamePlaceCopiesNothing) {
  auto v = iota(8);
  ValueRef a = put_host(make_aval({8}, DType::int32), named_sharding(mesh22(), P("x")), box(v, {8}));
  EXPECT_EQ(reshard(concrete(a), named_sharding(mesh22(), P("x"))).get(), a.get());
  // Another way to say the same: a view, which shares memory and donation.
  Mesh flat({{"z", 4}}, {0, 1, 2, 3});
  ValueRef b = put_host(make_aval({8}, DType::int32), named_sharding(mesh22(), P({"x", "y"})), box(v, {8}));
  ValueRef c = reshard(concrete(b), named_sharding(flat, P("z")));
  EXPECT_EQ(shard_to_host(concrete(b), 1).data(), shard_to_host(concrete(c), 1).data());
  EXPECT_EQ(all(c), v);
  concrete(c).donate(0);
  EXPECT_TRUE(concrete(b).is_donated());
  EXPECT_THROW(all(b), Error);
}

TEST(Arrays, ShardViewsShareMemory) {
  auto v = iota(8);
  ValueRef a = put_host(make_aval({8}, DType::int32), named_sharding(mesh22(), P("y")), box(v, {8}));
  ValueRef s = shard_view(concrete(a), 3);
  EXPECT_EQ(s->aval(), make_aval({4}, DType::int32));
  EXPECT_EQ(all(s), (std::vector<std::int32_t>{4, 5, 6, 7}));
  EXPECT_EQ(sharding_of(concrete(s)).device_ids()[0], 3);
  EXPECT_EQ(shard_view(concrete(s), 0)->aval(), s->aval());
  EXPECT_EQ(all(shard_view(concrete(s), 0)), all(s));
  a = ValueRef();
  EXPECT_EQ(all(s), (std::vector<std::int32_t>{4, 5, 6, 7}));
}

TEST(Arrays, PartsAreAskedForOnceEach) {
  int calls = 0;
  std::vector<std::vector<std::int32_t>> keep;
  ValueRef a = put_parts(make_aval({4, 4}, DType::int32), named_sharding(mesh22(), P(none, "x")), [&](const Region& r) {
    ++calls;
    auto& v = keep.emplace_back();
    for (auto i = r.start(0); i < r.stop(0); ++i)
      for (auto j = r.start(1); j < r.stop(1); ++j) v.push_back(static_cast<std::int32_t>(i * 4 + j));
    return box(v, r.shape());
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(all(a), iota(16));
}

TEST(Arrays, ProcessLocalDataOfOneProcessIsTheWhole) {
  const Sharding& s = named_sharding(mesh22(), P("x", "y"));
  EXPECT_EQ(global_shape(s, {4, 6}, {}), Shape(4, 6));
  EXPECT_EQ(global_shape(s, {4, 6}, Shape(4, 6)), Shape(4, 6));
  EXPECT_THROW(global_shape(s, {4, 6}, Shape(8, 6)), Error);
  EXPECT_THROW(global_shape(s, {4, 5}, {}), Error);
  auto v = iota(24);
  EXPECT_EQ(all(put_process_local(make_aval({4, 6}, DType::int32), s, box(v, {4, 6}))), v);
}

TEST(Arrays, AMeshOverSomeDevices) {
  Mesh pair({{"z", 2}}, {3, 1});
  auto v = iota(6);
  ValueRef a = put_host(make_aval({6}, DType::int32), named_sharding(pair, P("z")), box(v, {6}));
  EXPECT_EQ(concrete(a).shards()[0].device_id(), 3);
  EXPECT_EQ(all(a), v);
  EXPECT_EQ(all(reshard(concrete(a), named_sharding(mesh22(), P(none)))), v);
  EXPECT_THROW(Placement::of(named_sharding(Mesh({{"z", 1}}, {17}), P())), Error);
}

TEST(Arrays, JoinsShards) {
  const Sharding& s = named_sharding(Mesh({{"z", 2}}, {1, 2}), P("z"));
  auto v = iota(4), w = iota(2);
  ValueRef a = make_concrete(make_aval({2}, DType::int32), {.data = v.data()});
  ValueRef b = make_concrete(make_aval({2}, DType::int32), {.data = v.data() + 2});
  ValueRef c = join_shards(make_aval({4}, DType::int32), s, std::vector{as_concrete(a.get()), as_concrete(b.get())});
  EXPECT_EQ(all(c), v);
  EXPECT_EQ(concrete(c).shards()[1].device_id(), 2);
  EXPECT_EQ(all(a), w);
}

TEST(Arrays, EmptyOnes) {
  ValueRef a =
      put_host(make_aval({0, 4}, DType::int32), named_sharding(mesh22(), P("x", "y")), {nullptr, {0, 4}, nullptr});
  EXPECT_TRUE(all(a).empty());
}

}  // namespace
}  // namespace lockstep::runtime

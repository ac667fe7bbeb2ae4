#include "lockstep/sharding/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/support/error.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> ids(int n) {
  std::vector<int> v(n);
  std::iota(v.begin(), v.end(), 0);
  return v;
}
Mesh mesh42() { return Mesh({{"data", 4}, {"model", 2}}, ids(8)); }

template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::invalid_argument, "", "");
}

TEST(Mesh, IsInterned) {
  EXPECT_EQ(mesh42(), mesh42());
  std::vector<int> reversed = ids(8);
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_FALSE(mesh42() == Mesh({{"data", 4}, {"model", 2}}, reversed));
  EXPECT_FALSE(static_cast<bool>(Mesh()));
  EXPECT_EQ(mesh42().axis_size("model"), 2);
  EXPECT_FALSE(mesh42().axis_size("z").has_value());
  EXPECT_EQ(mesh42().size(), 8);
}

TEST(Mesh, RefusesWhatIsNoBox) {
  for (auto f : {+[] {
                   Mesh({{"a", 2}, {"a", 2}}, ids(4));
                 },
                 +[] {
                   Mesh({{"a", 3}}, ids(4));
                 },
                 +[] {
                   Mesh({{"a", 0}}, {});
                 },
                 +[] {
                   Mesh({{"", 1}}, ids(1));
                 },
                 +[] {
                   Mesh({{"a", 2}}, {1, 1});
                 }}) {
    Error e = error_of(f);
    EXPECT_EQ(e.code(), ErrorCode::sharding);
    EXPECT_THAT(e.what(), HasSubstr("sharding_test.cc"));
  }
}

TEST(Mesh, ScopesNest) {
  EXPECT_FALSE(static_cast<bool>(current_mesh()));
  {
    auto outer = set_mesh(mesh42());
    {
      auto inner = set_mesh(Mesh({{"x", 2}}, ids(2)));
      EXPECT_EQ(axes_to_string(current_mesh()), "'x': 2");
    }
    EXPECT_EQ(current_mesh(), mesh42());
  }
  EXPECT_FALSE(static_cast<bool>(current_mesh()));
}

TEST(PartitionSpec, IsWrittenAsInJax) {
  std::string name = "y";
  EXPECT_EQ(P("x", "y"), P("x", name));
  EXPECT_EQ(P({"x", "y"}).size(), 1u);
  EXPECT_EQ(P({"x", name})[0].axes, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(P({"x"}), P("x"));
  EXPECT_EQ(P(none, none, none, none, "x").size(), 5u);
  EXPECT_EQ(P("x", none).trimmed(), P("x"));
  EXPECT_FALSE(P("x", none) == P("x"));
  EXPECT_TRUE(P(none, {"x", "y"}).mentions("y"));
}

TEST(Sharding, IsInterned) {
  const Sharding& a = NamedSharding(mesh42(), P("data"));
  EXPECT_EQ(&a, &named_sharding(mesh42(), P("data")));
  const Sharding& b = NamedSharding(mesh42(), P("data", none));
  EXPECT_NE(&a, &b);
  EXPECT_EQ(b.canonical(), &a);
  EXPECT_EQ(&single_device_sharding(3), &single_device_sharding(3));
  EXPECT_TRUE(single_device_sharding(3).is_fully_replicated());
}

TEST(Sharding, CutsRegions) {
  const Sharding& s = NamedSharding(mesh42(), P("data"));
  EXPECT_EQ(s.shard_shape({8, 4}), Shape(2, 4));
  EXPECT_EQ(to_string(s.region(5, {8, 4})), "[4:6, 0:4]");
  EXPECT_EQ(s.replica(5), 1);
  EXPECT_FALSE(s.is_fully_replicated());
  const Sharding& both = NamedSharding(mesh42(), P(none, {"model", "data"}));
  EXPECT_EQ(to_string(both.region(1, {3, 16})), "[0:3, 8:10]");
  EXPECT_EQ(both.replica(1), 0);
  EXPECT_TRUE(named_sharding(mesh42(), P(none)).is_fully_replicated());
}

TEST(Sharding, AnAxisThatIsNotThere) {
  Error e = error_of([] { NamedSharding(mesh42(), P("z")); });
  EXPECT_EQ(e.code(), ErrorCode::sharding);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("'z'"), HasSubstr("P('z',)"), HasSubstr("'data', 'model'"),
                              HasSubstr("sharding_test.cc")));
}

TEST(Sharding, AnAxisUsedTwice) {
  Error e = error_of([] { NamedSharding(mesh42(), P("data", {"model", "data"})); });
  EXPECT_THAT(e.what(), AllOf(HasSubstr("'data' is used twice"), HasSubstr("P('data', 'model') would do")));
}

TEST(Sharding, ASizeThatDoesNotDivide) {
  const Sharding& s = NamedSharding(mesh42(), P("data", "model"));
  s.check({8, 6}, "device_put");
  Error e = error_of([&] { s.check({7, 8}, "jit", "argument 0 (state.w)"); });
  EXPECT_EQ(e.operation(), "jit");
  EXPECT_THAT(e.what(), AllOf(HasSubstr("argument 0 (state.w) of shape (7, 8)"), HasSubstr("P('data', 'model')"),
                              HasSubstr("'data' (4)"), HasSubstr("Mesh('data': 4, 'model': 2"),
                              HasSubstr("size 7 is not a multiple of 4"), HasSubstr("P(None, 'model') would do")));
  // The suggestion moves an axis to a dimension that it divides.
  EXPECT_THAT(error_of([&] {
                named_sharding(mesh42(), P("data")).check({7, 8}, "jit");
              }).what(),
              HasSubstr("P(None, 'data') would do"));
  EXPECT_THAT(error_of([&] {
                named_sharding(mesh42(), P({"data", "model"})).check({4, 3}, "jit");
              }).what(),
              AllOf(HasSubstr("'data' (4) x 'model' (2)"), HasSubstr("P('data',) would do")));
  EXPECT_THAT(error_of([&] { s.check({8}, "device_put"); }).what(),
              AllOf(HasSubstr("2 entries"), HasSubstr("P('data',) would do")));
  s.check({0, 0}, "device_put");
}

TEST(Sharding, BareSpecsNeedAMesh) {
  ShardingLike bare = P("data");
  Error e = error_of([&] { bare.resolve("device_put"); });
  EXPECT_THAT(e.what(), AllOf(HasSubstr("device_put"), HasSubstr("set_mesh")));
  auto scope = set_mesh(mesh42());
  EXPECT_EQ(&bare.resolve("device_put"), &named_sharding(mesh42(), P("data")));
}

TEST(Sharding, ConstraintsMayLeaveDimensionsOpen) {
  check_spec(mesh42(), P(unconstrained, "data"), {3, 4}, "with_sharding_constraint");
  EXPECT_THROW(NamedSharding(mesh42(), P(unconstrained)), Error);
  EXPECT_EQ(sdy_sharding(P(unconstrained, {"model", "data"}), 3), R"(<@mesh, [{?}, {"model", "data"}, {}]>)");
}

TEST(Sharding, MeshesInAnotherOrder) {
  Mesh m({{"x", 2}, {"y", 2}}, {0, 3, 1, 2});
  EXPECT_EQ(sdy_mesh(m), R"(<["x"=2, "y"=2]>)");
  EXPECT_EQ(sdy_mesh(m, std::vector{0, 3, 1, 2}), R"(<["x"=2, "y"=2]>)");
  EXPECT_EQ(sdy_mesh(m, std::vector{0, 1, 2, 3}), R"(<["x"=2, "y"=2], device_ids=[0, 3, 1, 2]>)");
  EXPECT_THROW(sdy_mesh(m, std::vector{0, 1, 2, 4}), Error);
}

}  // namespace
}  // namespace lockstep

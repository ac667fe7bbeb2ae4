#include "lockstep/api/device_put.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/runtime/arrays.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/trace.h"

namespace lockstep {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const bool four_devices = setenv("JAX_NUM_CPU_DEVICES", "4", 1) == 0;

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

Array iota(Shape shape) {
  std::vector<std::int32_t> v(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<std::int32_t>(i);
  return Array(runtime::make_concrete(make_aval(shape, DType::int32), {.data = v.data()}));
}
std::vector<std::int32_t> ints(const Array& a) {
  auto view = runtime::to_host(*runtime::as_concrete(a.value()));
  auto* p = reinterpret_cast<const std::int32_t*>(view.data());
  return {p, p + a.size()};
}

TEST(MakeMesh, FillsInASize) {
  EXPECT_EQ(axes_to_string(make_mesh({{"data", -1}, {"model", 2}})), "'data': 2, 'model': 2");
  EXPECT_EQ(make_mesh({{"x", 4}}).size(), 4);
  EXPECT_EQ(make_mesh({{"x", 2}}).size(), 2);
  EXPECT_THAT(make_mesh({{"x", 2}}, devices().subspan(1)).device_ids(), ElementsAre(1, 2));
  EXPECT_THAT(error_of([] { make_mesh({{"x", 3}, {"y", -1}}); }).what(), HasSubstr("device_put_test.cc"));
  EXPECT_THROW(make_mesh({{"x", 8}}), Error);
  EXPECT_THROW(make_mesh({{"x", -1}, {"y", -1}}), Error);
  EXPECT_THROW(make_mesh({{"x", 0}}), Error);
}

TEST(DevicePut, Shardings) {
  Mesh mesh = make_mesh({{"x", 2}, {"y", 2}});
  Array a = device_put(iota({4, 4}), {mesh, P("x", "y")});
  EXPECT_EQ(to_string(a.sharding()), to_string(NamedSharding(mesh, P("x", "y")).get()));
  EXPECT_TRUE(a.is_fully_addressable());
  auto shards = a.addressable_shards();
  ASSERT_EQ(shards.size(), 4u);
  EXPECT_EQ(to_string(shards[2].index), "[2:4, 0:2]");
  EXPECT_EQ(shards[2].device_id, 2);
  EXPECT_EQ(shards[2].replica_id, 0);
  EXPECT_THAT(ints(shards[2].data), ElementsAre(8, 9, 12, 13));
  EXPECT_EQ(&shards[2].data.sharding(), &single_device_sharding(2));

  Array b = device_put(a, devices()[3]);
  EXPECT_EQ(&b.sharding(), &single_device_sharding(3));
  EXPECT_EQ(ints(b), ints(iota({4, 4})));
  EXPECT_EQ(device_put(a, {mesh, P("x", "y")}).value(), a.value());
  EXPECT_EQ(&device_put(a).sharding(), &single_device_sharding(0));

  auto scope = set_mesh(mesh);
  EXPECT_EQ(&device_put(2.5, P()).sharding(), &named_sharding(mesh, P()));
  EXPECT_EQ(device_put(2.5, P()).item<float>(), 2.5);
}

TEST(DevicePut, Trees) {
  struct Model {
    Array w, b;
  };
  Mesh mesh = make_mesh({{"x", 4}});
  Model m{iota({4, 2}), iota({4})};
  Model all = device_put(m, {mesh, P("x")});
  EXPECT_EQ(&all.b.sharding(), &named_sharding(mesh, P("x")));
  auto specs = tree::map(
      [](Array a) {
        return a.ndim() == 2 ? NamedSharding(make_mesh({{"x", 4}}), P("x", none))
                             : NamedSharding(make_mesh({{"x", 4}}), P());
      },
      m);
  Model each = device_put(m, specs);
  EXPECT_EQ(&each.w.sharding(), &named_sharding(mesh, P("x", none)));
  EXPECT_TRUE(each.b.sharding().is_fully_replicated());
}

TEST(DevicePut, ASpecThatDoesNotFit) {
  Error e = error_of([] { device_put(iota({6, 3}), {make_mesh({{"x", 4}}), P("x")}); });
  EXPECT_EQ(e.code(), ErrorCode::sharding);
  EXPECT_THAT(e.what(), AllOf(HasSubstr("device_put"), HasSubstr("(6, 3)"), HasSubstr("device_put_test.cc")));
}

TEST(DevicePut, InsideATraceItIsAConstraint) {
  Mesh mesh = make_mesh({{"x", 4}});
  AvalP aval = make_aval({4}, DType::float32);
  auto j = trace_to_jaxpr(
      [&](std::span<const Array> in) {
        return Arrays{device_put(in[0], {mesh, P("x")})};
      },
      {&aval, 1}, "f");
  EXPECT_THAT(to_string(j), AllOf(HasSubstr("sharding_constraint"), HasSubstr("spec=P('x',)")));
}

TEST(MakeArray, FromProcessLocalData) {
  Mesh mesh = make_mesh({{"x", 2}, {"y", 2}});
  Array a = make_array_from_process_local_data({mesh, P("y", "x")}, iota({4, 2}));
  EXPECT_EQ(a.shape(), Shape(4, 2));
  EXPECT_EQ(ints(a), ints(iota({4, 2})));
  EXPECT_THAT(ints(a.addressable_shards()[1].data), ElementsAre(4, 6));
  EXPECT_THROW(make_array_from_process_local_data({mesh, P("y")}, iota({4, 2}), Shape(8, 2)), Error);
  EXPECT_THROW(make_array_from_process_local_data({mesh, P("y", none, "x")}, iota({4, 2})), Error);
}

TEST(MakeArray, FromCallback) {
  Mesh mesh = make_mesh({{"x", 2}, {"y", 2}});
  int calls = 0;
  auto part = [&](const Region& r) {
    ++calls;
    std::vector<std::int32_t> v;
    for (auto i = r.start(0); i < r.stop(0); ++i)
      for (auto j = r.start(1); j < r.stop(1); ++j) v.push_back(static_cast<std::int32_t>(i * 6 + j));
    return Array(runtime::make_concrete(make_aval(r.shape(), DType::int32), {.data = v.data()}));
  };
  Array a = make_array_from_callback({4, 6}, {mesh, P(none, "y")}, part);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(ints(a), ints(iota({4, 6})));
  EXPECT_EQ(error_of([&] {
              make_array_from_callback({4, 6}, {mesh, P("x")}, [](const Region&) { return iota({4}); });
            }).code(),
            ErrorCode::shape);
  EXPECT_EQ(error_of([&] {
              make_array_from_callback({4, 6}, {mesh, P("x")}, part, {.dtype = DType::float32});
            }).code(),
            ErrorCode::dtype);
}

TEST(MakeArray, FromSingleDeviceArrays) {
  Mesh mesh = make_mesh({{"x", 4}});
  Array whole = iota({8});
  Array a = device_put(whole, {mesh, P("x")});
  Arrays shards;
  for (auto& s : a.addressable_shards()) shards.push_back(s.data);
  EXPECT_EQ(ints(make_array_from_single_device_arrays({8}, {mesh, P("x")}, shards)), ints(whole));
  shards.pop_back();
  EXPECT_THROW(make_array_from_single_device_arrays({8}, {mesh, P("x")}, shards), Error);
}

}  // namespace
}  // namespace lockstep

#include "lockstep/compile/options.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/compile/compile_options.pb.h"
#include "tests/compile/gang.h"

namespace lockstep::compile {
namespace {

hlo::CompileOptions parsed(const CompileOptions& options) {
  hlo::CompileOptions proto;
  EXPECT_TRUE(proto.ParseFromString(serialize(options)));
  return proto;
}

TEST(Options, TheDefaultIsOneReplicaOfOnePartition) {
  auto proto = parsed({});
  EXPECT_EQ(proto.executable_build_options().num_replicas(), 1);
  EXPECT_EQ(proto.executable_build_options().num_partitions(), 1);
  EXPECT_FALSE(proto.executable_build_options().use_spmd_partitioning());
  EXPECT_FALSE(proto.compile_portable_executable());
  EXPECT_EQ(serialize({}), serialize({}));
}

TEST(Options, MaxAndMinMayBeToldToDropNaN) {
  const char* name = "xla_cpu_enable_fast_min_max";
  ASSERT_EQ(parsed({}).env_option_overrides_size(), 1);
  EXPECT_FALSE(parsed({}).env_option_overrides().at(name).bool_field());
  EXPECT_TRUE(parsed({.overrides = {{name, true}}}).env_option_overrides().at(name).bool_field());
}

TEST(Options, MaxAndMinKeepNan) {
  const pjrt::Client& client = partitioner();
  auto program = client.compile(R"(module @m { func.func public @main(%a: tensor<2xf32>, %b: tensor<2xf32>)
      -> (tensor<2xf32>, tensor<2xf32>) {
    %x = stablehlo.maximum %a, %b : tensor<2xf32>
    %y = stablehlo.minimum %a, %b : tensor<2xf32>
    return %x, %y : tensor<2xf32>, tensor<2xf32> } })",
                                serialize({}));
  float a[] = {NAN, 1}, b[] = {0, NAN};
  std::int64_t dims[] = {2};
  const pjrt::Device& device = *client.addressable_devices()[0];
  auto in_a = client.buffer_from_host({.data = a, .dtype = DType::float32, .dims = dims}, device);
  auto in_b = client.buffer_from_host({.data = b, .dtype = DType::float32, .dims = dims}, device);
  const pjrt::Buffer* in[] = {&in_a, &in_b};
  for (const auto& out : program.execute(in)) {
    float values[2] = {0, 0};
    out.to_host(std::as_writable_bytes(std::span(values))).await_for(std::chrono::seconds(30));
    EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1])) << values[0] << " " << values[1];
  }
}

TEST(Options, CarryEverything) {
  auto proto = parsed({.num_partitions = 4,
                       .propagate_to_results = {true, false},
                       .propagate_to_parameters = {false},
                       .portable = true,
                       .device_assignment = {3, 1, 0, 2},
                       .overrides = {{"a", true}, {"b", std::int64_t{7}}, {"c", 0.5}, {"d", std::string("text")}}});
  const auto& build = proto.executable_build_options();
  EXPECT_EQ(build.num_partitions(), 4);
  EXPECT_TRUE(build.use_spmd_partitioning());
  EXPECT_TRUE(build.use_shardy_partitioner());
  ASSERT_EQ(build.allow_spmd_sharding_propagation_to_output_size(), 2);
  EXPECT_TRUE(build.allow_spmd_sharding_propagation_to_output(0));
  EXPECT_EQ(build.allow_spmd_sharding_propagation_to_parameters_size(), 1);
  ASSERT_EQ(build.device_assignment().computation_devices_size(), 4);
  EXPECT_EQ(build.device_assignment().computation_devices(0).replica_device_ids(0), 3);
  EXPECT_TRUE(proto.compile_portable_executable());
  EXPECT_TRUE(proto.env_option_overrides().at("a").bool_field());
  EXPECT_EQ(proto.env_option_overrides().at("b").int_field(), 7);
  EXPECT_EQ(proto.env_option_overrides().at("c").double_field(), 0.5);
  EXPECT_EQ(proto.env_option_overrides().at("d").string_field(), "text");
}

TEST(Options, ReachTheCompiler) {
  const char* program =
      "module @m { func.func public @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> } }";
  const pjrt::Client& client = partitioner();
  EXPECT_NO_THROW(client.compile(program, serialize({.overrides = {{"xla_cpu_max_isa", std::string("AVX2")}}})));
  try {
    client.compile(program, serialize({.overrides = {{"xla_no_such_option", true}}}));
    ADD_FAILURE() << "an unknown option was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile);
    EXPECT_NE(error.message().find("xla_no_such_option"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lockstep::compile

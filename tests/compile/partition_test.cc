#include "lockstep/compile/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "lockstep/compile/inject.h"
#include "tests/compile/gang.h"

namespace lockstep::compile {
namespace {

using collectives::CollectiveOp;
using collectives::Reduction;
using pjrt::TensorType;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kPartitions = 4;
const CompileOptions kOptions{.num_partitions = kPartitions};

std::string module(const std::string& main) {
  return "module @m attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {\n"
         "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n" +
         main + "\n}";
}

// main applies `body` to this device's f32[4,4] part of a f32[8,8], giving another; the axes are manual.
std::string manual(const std::string& body) {
  return module(R"(func.func public @main(%a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>})
        -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) {
      %r = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>]
          manual_axes={"x", "y"} (%p: tensor<4x4xf32>) {
        )" + body +
                R"(
      } : (tensor<8x8xf32>) -> tensor<8x8xf32>
      return %r : tensor<8x8xf32>
    })");
}

const std::string kChannel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
const std::string kOverX = "replica_groups = dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, " + kChannel;
const std::string kOverY = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, " + kChannel;

std::string all_reduce(const std::string& result, const std::string& operand, const std::string& groups,
                       const std::string& op = "add", const std::string& type = "4x4xf32") {
  return fmt::format(R"({} = "stablehlo.all_reduce"({}) <{{{}, use_global_device_ids}}> ({{
          ^bb0(%l: tensor<f32>, %m: tensor<f32>):
            %s = stablehlo.{} %l, %m : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }}) : (tensor<{}>) -> tensor<{}>
        )",
                     result, operand, groups, op, type, type);
}
const std::string kReturn = "sdy.return %r : tensor<4x4xf32>";

// A contraction over y, a maximum over x of it, and a donated first input.
const std::string kAutomatic = module(R"(func.func public @main(
      %a: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>, tf.aliasing_output = 0 : i32},
      %b: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
      -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, tensor<8xf32>) {
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %s = stablehlo.reduce(%d init: %z) applies stablehlo.maximum across dimensions = [0]
        : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %d, %s : tensor<8x8xf32>, tensor<8xf32>
  })");
const CompileOptions kAutomaticOptions{.num_partitions = kPartitions, .propagate_to_results = {false, true}};

// Small whole numbers, so that sums are exact in any order; unlike in every partition.
Inputs numbers(const PartitionedProgram& program, int partition) {
  Inputs inputs;
  for (const TensorType& type : program.parameters) {
    std::size_t n = 1;
    for (auto d : type.dims) n *= static_cast<std::size_t>(d);
    EXPECT_EQ(type.dtype, DType::float32);
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i)
      values[i] = static_cast<float>((i * 7 + 13 * partition + 3 * inputs.size()) % 11) - 4;
    auto bytes = std::as_bytes(std::span(values));
    inputs.push_back({type, Bytes(bytes.begin(), bytes.end())});
  }
  return inputs;
}

std::vector<Inputs> numbers(const PartitionedProgram& program) {
  std::vector<Inputs> all;
  for (int p = 0; p < kPartitions; ++p) all.push_back(numbers(program, p));
  return all;
}

std::string refusal(const std::string& program) {
  try {
    partition(partitioner(), program, kOptions);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::compile);
    return error.what();
  }
  return "accepted";
}

class Routes : public testing::TestWithParam<Route> {};
INSTANTIATE_TEST_SUITE_P(Partition, Routes, testing::Values(Route::hook, Route::whole_compile),
                         [](const auto& route) { return route.param == Route::hook ? "hook" : "whole_compile"; });

TEST_P(Routes, GiveTheSignatureAndTheCollectives) {
  PartitionedProgram p = partition(partitioner(), kAutomatic, kAutomaticOptions, {}, GetParam());
  EXPECT_EQ(p.partitions, kPartitions);
  EXPECT_THAT(p.parameters, ElementsAre(TensorType{DType::float32, {4, 4}}, TensorType{DType::float32, {4, 8}}));
  ASSERT_EQ(p.results.size(), 2u);
  EXPECT_EQ(p.results[0], (TensorType{DType::float32, {4, 4}}));
  ASSERT_EQ(p.aliases.size(), 1u);
  EXPECT_EQ(p.aliases[0].parameter, 0);
  EXPECT_EQ(p.aliases[0].result, 0);
  ASSERT_EQ(p.collectives.size(), 2u);
  EXPECT_EQ(p.collectives[0].spec.op, CollectiveOp::all_reduce);
  EXPECT_EQ(p.collectives[0].spec.reduction, Reduction::add);
  EXPECT_THAT(p.collectives[0].spec.groups, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(p.collectives[0].spec.group_size, 2);
  EXPECT_EQ(p.collectives[1].spec.reduction, Reduction::maximum);
  EXPECT_THAT(p.collectives[1].spec.groups, ElementsAre(0, 2, 1, 3));
}

TEST_P(Routes, GiveTheSameBytesEveryTime) {
  PartitionedProgram first = partition(partitioner(), kAutomatic, kAutomaticOptions, {}, GetParam());
  partition(partitioner(), manual(all_reduce("%r", "%p", kOverX) + kReturn), kOptions, {}, GetParam());
  PartitionedProgram second = partition(partitioner(), kAutomatic, kAutomaticOptions, {}, GetParam());
  EXPECT_EQ(first.module, second.module);
}

TEST(Partition, RefusesWithTheCompilersWordsOrOurs) {
  EXPECT_THAT(refusal("module @m { nonsense }"), HasSubstr("PJRT_Client_Compile"));
  EXPECT_THAT(refusal(manual(all_reduce("%r", "%p", kOverX, "subtract") + kReturn)), HasSubstr("its reduction"));
}

// The compiler's words if it fails before it has partitioned, ours if it fails because nobody can carry the program.
TEST(Partition, TheWholeCompileRefusesAsTheHookDoes) {
  auto refused = [](const std::string& program) -> std::string {
    try {
      partition(partitioner(), program, kOptions, {}, Route::whole_compile);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::compile);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refused("module @m { nonsense }"), HasSubstr("PJRT_Client_Compile"));
  EXPECT_THAT(refused(manual(all_reduce("%r", "%p", kOverX, "subtract") + kReturn)), HasSubstr("its reduction"));
}

TEST(Partition, TheRouteCanBeChosen) {
  struct Scope {
    explicit Scope(const char* value) { setenv("LOCKSTEP_PARTITION_ROUTE", value, 1); }
    ~Scope() { unsetenv("LOCKSTEP_PARTITION_ROUTE"); }
  };
  EXPECT_EQ(best_route(cpu_plugin()), Route::hook);
  {
    Scope set("whole_compile");
    EXPECT_EQ(best_route(cpu_plugin()), Route::whole_compile);
  }
  Scope set("sideways");
  try {
    best_route(cpu_plugin());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.what(),
                HasSubstr("LOCKSTEP_PARTITION_ROUTE=sideways is none of 'hook', 'whole_compile' and 'native'"));
  }
}

TEST(Partition, SeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::string program = manual(all_reduce("%r", "%p", t % 2 == 0 ? kOverX : kOverY) + kReturn);
      for (int i = 0; i < 3; ++i)
        EXPECT_EQ(partition(partitioner(), program, kOptions).collectives.at(0).spec.groups[1], t % 2 == 0 ? 2 : 1);
    });
  for (auto& thread : threads) thread.join();
}

struct Case {
  const char* name;
  std::string program;
  std::vector<CollectiveOp> collectives;
};

const std::string kScatterRegion = R"(({
          ^bb0(%l: tensor<f32>, %m: tensor<f32>):
            %s = stablehlo.add %l, %m : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }))";

std::vector<Case> cases() {
  using enum CollectiveOp;
  std::vector<Case> out;
  out.push_back({"automatic", kAutomatic, {all_reduce, all_reduce}});
  for (auto [name, groups] : {std::pair{"x", kOverX}, {"y", kOverY}})
    for (const char* op : {"add", "multiply", "maximum", "minimum"})
      out.push_back({op, manual(compile::all_reduce("%r", "%p", groups, op) + kReturn), {all_reduce}});
  for (int d : {0, 1}) {
    const char* wide = d == 0 ? "8x4xf32" : "4x8xf32";
    out.push_back({d == 0 ? "gather_scatter_0" : "gather_scatter_1",
                   manual(fmt::format(
                       R"(%g = "stablehlo.all_gather"(%p) <{{all_gather_dim = {0} : i64, {1}, use_global_device_ids}}>
              : (tensor<4x4xf32>) -> tensor<{3}>
          %t = stablehlo.add %g, %g : tensor<{3}>
          %r = "stablehlo.reduce_scatter"(%t) <{{scatter_dimension = {0} : i64, {2}, use_global_device_ids}}> {4}
              : (tensor<{3}>) -> tensor<4x4xf32>
          sdy.return %r : tensor<4x4xf32>)",
                       d, kOverX, kOverY, wide, kScatterRegion)),
                   {all_gather, reduce_scatter}});
  }
  out.push_back({"all_to_all",
                 manual(R"(%u = "stablehlo.all_to_all"(%p) <{split_dimension = 0 : i64, concat_dimension = 1 : i64,
            split_count = 2 : i64, )" +
                        kOverX + R"(}> : (tensor<4x4xf32>) -> tensor<2x8xf32>
          %r = stablehlo.reshape %u : (tensor<2x8xf32>) -> tensor<4x4xf32>
          )" + kReturn),
                 {all_to_all}});
  out.push_back({"permute",
                 manual(R"(%r = "stablehlo.collective_permute"(%p) <{source_target_pairs =
            dense<[[0, 1], [1, 3], [2, 2]]> : tensor<3x2xi64>, )" +
                        kChannel + R"(}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
          )" + kReturn),
                 {collective_permute}});
  out.push_back({"partition_id",
                 manual(R"(%i = stablehlo.partition_id : tensor<ui32>
          %f = stablehlo.convert %i : (tensor<ui32>) -> tensor<f32>
          %b = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
          %r = stablehlo.add %p, %b : tensor<4x4xf32>
          )" + kReturn),
                 {}});
  out.push_back({"loop",
                 manual(R"(%zero = stablehlo.constant dense<0> : tensor<i32>
          %w:2 = stablehlo.while(%i = %zero, %c = %p) : tensor<i32>, tensor<4x4xf32>
            cond {
              %n = stablehlo.constant dense<5> : tensor<i32>
              %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %t : tensor<i1>
            } do {
              %one = stablehlo.constant dense<1> : tensor<i32>
              %j = stablehlo.add %i, %one : tensor<i32>
              %half = stablehlo.constant dense<0.5> : tensor<4x4xf32>
              %h = stablehlo.multiply %c, %half : tensor<4x4xf32>
              )" + compile::all_reduce("%k", "%h", kOverX) +
                        compile::all_reduce("%q", "%k", kOverY, "maximum") + R"(
              stablehlo.return %j, %q : tensor<i32>, tensor<4x4xf32>
            }
          %r = stablehlo.add %w#1, %p : tensor<4x4xf32>
          )" + kReturn),
                 {all_reduce, all_reduce}});
  // Only the partitions of one group take the branch with the collective.
  out.push_back({"branch",
                 manual(R"(%i = stablehlo.partition_id : tensor<ui32>
          %two = stablehlo.constant dense<2> : tensor<ui32>
          %c = stablehlo.compare LT, %i, %two : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
          %r = "stablehlo.if"(%c) ({
              )" + compile::all_reduce("%k", "%p", kOverY) +
                        R"(
              stablehlo.return %k : tensor<4x4xf32>
            }, {
              %n = stablehlo.negate %p : tensor<4x4xf32>
              stablehlo.return %n : tensor<4x4xf32>
            }) : (tensor<i1>) -> tensor<4x4xf32>
          )" + kReturn),
                 {all_reduce}});
  return out;
}

TEST_P(Routes, RunAsXlaRunsTheWhole) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(c.name);
    const CompileOptions& options = c.program == kAutomatic ? kAutomaticOptions : kOptions;
    PartitionedProgram program = partition(partitioner(), c.program, options, {}, GetParam());
    std::vector<CollectiveOp> found;
    for (const Collective& k : program.collectives) found.push_back(k.spec.op);
    EXPECT_EQ(found, c.collectives);
    auto inputs = numbers(program);
    auto expected = run_by_xla(c.program, options, inputs);
    Gang gang(program, 2, 2, GetParam());
    for (int launch = 0; launch < 2; ++launch) EXPECT_EQ(gang.run(inputs), expected);
    EXPECT_EQ(gang.has_exchanged(), !c.collectives.empty());
  }
}

TEST(Partition, CountsTheCallsOfALoop) {
  for (const Case& c : cases()) {
    if (c.name != std::string_view("loop")) continue;
    PartitionedProgram program = partition(partitioner(), c.program, kOptions);
    for (const Collective& k : program.collectives) {
      EXPECT_TRUE(k.in_loop);
      EXPECT_EQ(k.calls, 5);
      EXPECT_EQ(k.bytes, 64);
    }
  }
}

// XLA's CPU compiler has no collective-broadcast of its own.
TEST_P(Routes, CarryACollectiveBroadcast) {
  std::string program = manual(R"(%r = "stablehlo.collective_broadcast"(%p) <{replica_groups =
      dense<[[2, 0], [1, 3]]> : tensor<2x2xi64>, )" +
                               kChannel + R"(}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
      )" + kReturn);
  PartitionedProgram partitioned = partition(partitioner(), program, kOptions, {}, GetParam());
  Gang gang(partitioned, 2, 2, GetParam());
  auto inputs = numbers(partitioned);
  auto results = gang.run(inputs);
  for (auto [to, from] : {std::pair{0, 2}, {2, 2}, {1, 1}, {3, 1}}) EXPECT_EQ(results[to][0], inputs[from][0].bytes);
}

// Twelve independent chains of work and exchange: handlers that blocked would exhaust XLA's threads and never end.
TEST(Inject, IndependentCollectivesDoNotBlockEachOther) {
  std::string body, sum;
  for (int i = 0; i < 12; ++i) {
    body += fmt::format(
        "%d{0} = stablehlo.constant dense<{0}.0> : tensor<4x4xf32>\n%m{0} = stablehlo.dot_general %p, %d{0}, "
        "contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>\n",
        i);
    body += fmt::format(
        R"(%k{0} = "stablehlo.collective_permute"(%m{0}) <{{source_target_pairs = dense<[[0, 3], [3, 0], [1, 2], [2, 1]]>
           : tensor<4x2xi64>, {1}}}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
        )",
        i, kChannel);
    body += i == 0 ? "%s0 = stablehlo.add %k0, %p : tensor<4x4xf32>\n"
                   : fmt::format("%s{0} = stablehlo.add %s{1}, %k{0} : tensor<4x4xf32>\n", i, i - 1);
  }
  std::string program = manual(body + "sdy.return %s11 : tensor<4x4xf32>");
  PartitionedProgram partitioned = partition(partitioner(), program, kOptions);
  // Each chain sends i times the sums of the sender's rows; XLA's own blocking exchange hangs on this program.
  auto inputs = numbers(partitioned);
  std::vector<std::vector<Bytes>> expected(kPartitions);
  for (int p = 0; p < kPartitions; ++p) {
    const auto* sender = reinterpret_cast<const float*>(inputs[kPartitions - 1 - p][0].bytes.data());
    Bytes& bytes = expected[p].emplace_back(inputs[p][0].bytes);
    auto* out = reinterpret_cast<float*>(bytes.data());
    for (int i = 0; i < 16; ++i) out[i] += 66 * std::accumulate(sender + i / 4 * 4, sender + i / 4 * 4 + 4, 0.0f);
  }
  for (auto [processes, devices] : {std::pair{4, 1}, {2, 2}, {1, 4}}) {
    Gang gang(partitioned, processes, devices);
    EXPECT_EQ(gang.run(inputs), expected);
  }
}

// Without the weight XLA runs a small program within the launch, which then waits for the device launched next.
TEST(Inject, OneThreadLaunchesAllDevicesOfABackgroundProgram) {
  for (const Case& c : cases()) {
    if (c.collectives.empty()) continue;
    SCOPED_TRACE(c.name);
    const CompileOptions& options = c.program == kAutomatic ? kAutomaticOptions : kOptions;
    PartitionedProgram program = partition(partitioner(), c.program, options, {.background = true});
    auto inputs = numbers(program);
    Gang gang(program, 1, kPartitions);
    EXPECT_EQ(gang.run(inputs, /*thread_per_device=*/false), run_by_xla(c.program, options, inputs));
  }
}

TEST(Inject, KeepsDonation) {
  PartitionedProgram program = partition(partitioner(), kAutomatic, kAutomaticOptions);
  Gang gang(program, 2, 2);
  gang.run(numbers(program));
  EXPECT_THAT(gang.donated(), ElementsAre(true, false));
}

TEST(Inject, TheEnginesErrorArrivesWhole) {
  std::string text = manual(all_reduce("%r", "%p", kOverX) + kReturn);
  for (bool background : {false, true}) {
    PartitionedProgram program = partition(partitioner(), text, kOptions, {.background = background});
    Gang gang(program, 2, 2);
    gang.engine(1).fail(Error(ErrorCode::peer, "all_reduce", "process 1 died in the middle of it"));
    try {
      gang.run(numbers(program));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::peer) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("process 1 died in the middle of it"));
    }
  }
}

// One partition's launch is refused; the others learn it at once, not at their deadline.
TEST(Inject, AFailedLaunchEndsThatOfTheOthers) {
  PartitionedProgram program =
      partition(partitioner(), manual(all_reduce("%r", "%p", kOverX) + kReturn), kOptions, {.background = true});
  Gang gang(program, 2, 2);
  auto inputs = numbers(program);
  inputs[2].clear();
  auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(gang.run(inputs), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  EXPECT_NO_THROW(gang.run(numbers(program)));
}

TEST(Inject, SignaturesOfAllKinds) {
  std::string program =
      module(R"(func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
      %unused: tensor<3xi32>, %empty: tensor<0x4xf32>) -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>},
      tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}, tensor<0x4xf32>, tensor<i1>, tensor<complex<f32>>,
      tensor<bf16>, tensor<ui64>, tensor<2xi8>) {
    %t = stablehlo.constant dense<true> : tensor<i1>
    %c = stablehlo.constant dense<(1.0, 2.0)> : tensor<complex<f32>>
    %b = stablehlo.constant dense<3.0> : tensor<bf16>
    %u = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %i = stablehlo.constant dense<[4, -5]> : tensor<2xi8>
    return %a, %a, %empty, %t, %c, %b, %u, %i : tensor<8xf32>, tensor<8xf32>, tensor<0x4xf32>, tensor<i1>,
        tensor<complex<f32>>, tensor<bf16>, tensor<ui64>, tensor<2xi8>
  })");
  PartitionedProgram partitioned = partition(partitioner(), program, kOptions);
  EXPECT_THAT(partitioned.parameters, ElementsAre(TensorType{DType::float32, {4}}, TensorType{DType::int32, {3}},
                                                  TensorType{DType::float32, {0, 4}}));
  EXPECT_THAT(partitioned.results, ElementsAre(TensorType{DType::float32, {4}}, TensorType{DType::float32, {4}},
                                               TensorType{DType::float32, {0, 4}}, TensorType{DType::bool_, {}},
                                               TensorType{DType::complex64, {}}, TensorType{DType::bfloat16, {}},
                                               TensorType{DType::uint64, {}}, TensorType{DType::int8, {2}}));
  std::vector<Inputs> inputs(kPartitions);
  for (int p = 0; p < kPartitions; ++p)
    for (const TensorType& type : partitioned.parameters)
      inputs[p].push_back(
          {type,
           Bytes(static_cast<std::size_t>(type.dims[0]) * 4 % 17 * (type.dims.size() % 2 == 0 ? 0 : 1), std::byte(p))});
  Gang gang(partitioned, 2, 2);
  EXPECT_EQ(gang.run(inputs), run_by_xla(program, kOptions, inputs));
}

}  // namespace
}  // namespace lockstep::compile

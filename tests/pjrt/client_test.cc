#include "lockstep/pjrt/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Client, DescribesItsDevices) {
  auto client = Client::create(cpu_plugin(), {.cpu_device_count = 3});
  EXPECT_EQ(client->platform_name(), "cpu");
  EXPECT_FALSE(client->platform_version().empty());
  EXPECT_EQ(client->process_index(), 0);
  ASSERT_EQ(client->devices().size(), 3u);
  ASSERT_EQ(client->addressable_devices().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const Device& device = *client->devices()[i];
    EXPECT_EQ(device.id(), i);
    EXPECT_EQ(device.local_hardware_id(), i);
    EXPECT_EQ(device.process_index(), 0);
    EXPECT_TRUE(device.is_addressable());
    EXPECT_EQ(device.kind(), "cpu");
  }
  EXPECT_FALSE(client->devices()[0]->memory_stats().has_value());
}

TEST(Client, ReportsAnUnknownOption) {
  Error error = error_of([] { Client::create(cpu_plugin(), {.extra = {{"no_such_option", std::int64_t{1}}}}); });
  EXPECT_EQ(error.code(), ErrorCode::plugin);
  EXPECT_EQ(error.operation(), "PJRT_Client_Create");
  EXPECT_THAT(error.what(), HasSubstr("no_such_option"));
}

TEST(Client, CompilesAndRuns) {
  LoadedExecutable add = cpu().compile(kAdd, kOptions);
  EXPECT_EQ(add.name(), "add");
  EXPECT_EQ(add.output_count(), 1u);
  EXPECT_THAT(add.output_types(), ElementsAre(TensorType{DType::float32, {4}}));
  EXPECT_THAT(add.addressable_device_ids(), ElementsAre(0));
  Buffer a = put<float>(cpu(), {1, 2, 3, 4}), b = put<float>(cpu(), {10, 20, 30, 40});
  Event done;
  auto out = add.execute(std::array{&std::as_const(a), &std::as_const(b)}, {}, &done);
  ASSERT_EQ(out.size(), 1u);
  done.await_for(30s);
  out[0].ready().await_for(30s);
  EXPECT_TRUE(done.is_ready());
  EXPECT_THAT(get<float>(out[0]), ElementsAre(11, 22, 33, 44));
  EXPECT_EQ(out[0].dtype(), DType::float32);
  EXPECT_THAT(out[0].dims(), ElementsAre(4));
  EXPECT_EQ(out[0].size_on_device(), 16u);
  EXPECT_EQ(out[0].device_id(), 0);
  EXPECT_FALSE(a.is_deleted());
}

TEST(Client, APortableExecutableRunsOnTheDeviceItIsLaunchedOn) {
  auto client = Client::create(cpu_plugin(), {.cpu_device_count = 2});
  LoadedExecutable add = client->compile(kAdd, kPortable);
  for (int d : {1, 0, 1}) {
    Buffer a = put<float>(*client, {1, 2, 3, 4}, {}, d);
    auto out = add.execute(std::array<const Buffer*, 2>{&a, &a}, {.device = client->addressable_devices()[d]});
    EXPECT_EQ(out[0].device_id(), d);
    EXPECT_THAT(get<float>(out[0]), ElementsAre(2, 4, 6, 8));
  }
  Buffer here = put<float>(*client, {1, 2, 3, 4}, {}, 0);
  Buffer there = here.copy_to(*client->addressable_devices()[1]);
  EXPECT_EQ(there.device_id(), 1);
  EXPECT_THAT(get<float>(there), ElementsAre(1, 2, 3, 4));
}

TEST(Client, RefusesAProgramWithTheCompilersWords) {
  Error syntax = error_of([] { cpu().compile("module @m { nonsense }", kOptions); });
  EXPECT_EQ(syntax.code(), ErrorCode::compile);
  EXPECT_EQ(syntax.operation(), "PJRT_Client_Compile");
  Error options = error_of([] { cpu().compile(kAdd, "\xff\xff"); });
  EXPECT_EQ(options.code(), ErrorCode::compile);
  Error load = error_of([] { cpu().deserialize("garbage"); });
  EXPECT_EQ(load.code(), ErrorCode::compile);
  EXPECT_EQ(load.operation(), "PJRT_Executable_DeserializeAndLoad");
}

TEST(Executable, ReportsWrongInputs) {
  LoadedExecutable add = cpu().compile(kAdd, kOptions);
  Buffer a = put<float>(cpu(), {1, 2, 3, 4}), shorter = put<float>(cpu(), {1, 2});
  Error count = error_of([&] { add.execute(std::array<const Buffer*, 1>{&a}); });
  EXPECT_EQ(count.code(), ErrorCode::execution);
  EXPECT_EQ(count.operation(), "PJRT_LoadedExecutable_Execute");
  Error size = error_of([&] { add.execute(std::array<const Buffer*, 2>{&a, &shorter}); });
  EXPECT_EQ(size.code(), ErrorCode::execution);
  a.free_memory();
  EXPECT_TRUE(a.is_deleted());
  Error deleted = error_of([&] { add.execute(std::array<const Buffer*, 2>{&a, &a}); });
  EXPECT_EQ(deleted.code(), ErrorCode::donated) << deleted.what();
  Error copied = error_of([&] { get<float>(a); });
  EXPECT_EQ(copied.code(), ErrorCode::donated) << copied.what();
}

const std::string kDonating = R"(module @donating {
  func.func public @main(%a: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32> {
    %r = stablehlo.negate %a : tensor<64xf32>
    return %r : tensor<64xf32>
  } })";

TEST(Executable, DonatesUnlessToldOtherwise) {
  LoadedExecutable negate = cpu().compile(kDonating, kOptions);
  std::vector<float> ones(64, 1);
  Buffer a = put(cpu(), ones);
  std::int64_t first = 0;
  auto kept = negate.execute(std::array<const Buffer*, 1>{&a}, {.non_donatable_inputs = {&first, 1}});
  EXPECT_FALSE(a.is_deleted());
  void* memory = a.unsafe_pointer();
  EXPECT_NE(kept[0].unsafe_pointer(), memory);
  auto donated = negate.execute(std::array<const Buffer*, 1>{&a});
  EXPECT_TRUE(a.is_deleted());
  EXPECT_EQ(donated[0].unsafe_pointer(), memory);
  EXPECT_EQ(get<float>(donated[0])[63], -1);
  Error again = error_of([&] { negate.execute(std::array<const Buffer*, 1>{&a}); });
  EXPECT_EQ(again.code(), ErrorCode::donated) << again.what();
}

TEST(Executable, AHeldBufferIsNotDonated) {
  LoadedExecutable negate = cpu().compile(kDonating, kOptions);
  Buffer a = put(cpu(), std::vector<float>(64, 1));
  {
    ExternalReference held = a.hold();
    auto* memory = static_cast<float*>(a.unsafe_pointer());
    try {
      negate.execute(std::array<const Buffer*, 1>{&a});
    } catch (const Error& refused) {
      EXPECT_THAT(refused.what(), HasSubstr("external reference"));
    }
    EXPECT_EQ(memory[0], 1);
  }
}

TEST(Executable, SerializesAndLoads) {
  LoadedExecutable add = cpu().compile(kAdd, kPortable);
  std::string bytes = add.serialize();
  EXPECT_FALSE(bytes.empty());
  LoadedExecutable loaded = cpu().deserialize(bytes);
  EXPECT_EQ(loaded.output_count(), 1u);
  Buffer a = put<float>(cpu(), {1, 2, 3, 4});
  auto out = loaded.execute(std::array<const Buffer*, 2>{&a, &a}, {.device = cpu().addressable_devices()[0]});
  EXPECT_THAT(get<float>(out[0]), ElementsAre(2, 4, 6, 8));
}

TEST(Executable, TellsItsMemory) {
  LoadedExecutable add = cpu().compile(kAdd, kOptions);
  EXPECT_FALSE(add.cost_analysis().has_value());  // this plugin does not tell
  EXPECT_EQ(add.memory_stats().arguments, 32);
  EXPECT_EQ(add.memory_stats().outputs, 16);
  auto program = add.optimized_program();
  EXPECT_THAT(program.format, HasSubstr("hlo"));
  EXPECT_FALSE(program.bytes.empty());
}

TEST(Buffer, RoundTripsEveryTypeAndShape) {
  for (DType dtype : {DType::bool_, DType::int8, DType::int16, DType::int32, DType::int64, DType::uint8, DType::uint16,
                      DType::uint32, DType::uint64, DType::float16, DType::bfloat16, DType::float32, DType::float64,
                      DType::complex64, DType::complex128}) {
    std::vector<std::byte> bytes(6 * itemsize(dtype));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i % 2);
    std::int64_t dims[] = {2, 3};
    Buffer buffer = cpu().buffer_from_host({.data = bytes.data(), .dtype = dtype, .dims = dims}, *cpu().devices()[0]);
    EXPECT_EQ(buffer.dtype(), dtype);
    std::vector<std::byte> back(bytes.size());
    buffer.to_host(back).await_for(30s);
    EXPECT_EQ(back, bytes) << name(dtype);
    EXPECT_EQ(error_of([&] { buffer.to_host(std::span(back).first(3)); }).code(), ErrorCode::shape);
  }
  EXPECT_THAT(get<float>(put<float>(cpu(), {7}, {1, 1})), ElementsAre(7));
  EXPECT_THAT(get<float>(put<float>(cpu(), {}, {0, 4})), ElementsAre());
  Error none = error_of([] { cpu().buffer_from_host({.data = "", .dtype = DType::float0}, *cpu().devices()[0]); });
  EXPECT_EQ(none.code(), ErrorCode::dtype);
}

TEST(Buffer, TakesStridedMemory) {
  const std::vector<std::int32_t> memory = {1, 2, 3, 4, 5, 6};
  std::int64_t dims[] = {3, 2}, strides[] = {4, 12};  // the transpose
  Buffer buffer = cpu().buffer_from_host(
      {.data = memory.data(), .dtype = DType::int32, .dims = dims, .byte_strides = strides}, *cpu().devices()[0]);
  EXPECT_THAT(get<std::int32_t>(buffer), ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(Buffer, AliasesAlignedHostMemoryAndReleasesItAtTheEnd) {
  for (HostSemantics semantics : {HostSemantics::zero_copy, HostSemantics::zero_copy_writable}) {
    constexpr std::size_t n = 1024;
    auto* memory = static_cast<float*>(std::aligned_alloc(64, n * sizeof(float)));
    std::fill_n(memory, n, 2.0f);
    std::atomic<int> released = 0;
    std::int64_t dims[] = {n};
    Buffer buffer = cpu().buffer_from_host(
        {.data = memory, .dtype = DType::float32, .dims = dims, .semantics = semantics, .release = [&] { ++released; }},
        *cpu().devices()[0]);
    EXPECT_EQ(buffer.unsafe_pointer(), memory);
    EXPECT_EQ(released, 0);
    buffer = Buffer();
    Buffer dropped = std::move(buffer);
    for (int i = 0; i < 1000 && released == 0; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(released, 1);
    std::free(memory);
  }
}

TEST(Buffer, CopiesWhatItCannotAlias) {
  alignas(64) static float memory[17] = {};
  for (auto [semantics, data] : {std::pair{HostSemantics::copy, memory}, {HostSemantics::zero_copy, memory + 1}}) {
    std::atomic<int> released = 0;
    std::int64_t dims[] = {16};
    Buffer buffer = cpu().buffer_from_host(
        {.data = data, .dtype = DType::float32, .dims = dims, .semantics = semantics, .release = [&] { ++released; }},
        *cpu().devices()[0]);
    EXPECT_NE(buffer.unsafe_pointer(), data);
    for (int i = 0; i < 1000 && released == 0; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(released, 1);
    data[0] = 5;
    EXPECT_EQ(get<float>(buffer)[0], 0);
    data[0] = 0;
  }
}

// A second of work, enough to wait for.
const std::string kSlow = R"(module @slow {
  func.func public @main(%a: tensor<256x256xf32>) -> tensor<256x256xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<256x256xf32>
      cond {
        %n = stablehlo.constant dense<400> : tensor<i32>
        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %one : tensor<i32>
        %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
        %z = stablehlo.tanh %y : tensor<256x256xf32>
        stablehlo.return %j, %z : tensor<i32>, tensor<256x256xf32>
      }
    return %r#1 : tensor<256x256xf32>
  } })";

TEST(Event, HonoursTheDeadlineAndCanBeAwaitedAgain) {
  LoadedExecutable slow = cpu().compile(kSlow, kOptions);
  Buffer a = put(cpu(), std::vector<float>(256 * 256, 0.01f), {256, 256});
  auto out = slow.execute(std::array<const Buffer*, 1>{&a});
  Event ready = out[0].ready();
  Error late = error_of([&] { ready.await_for(1ms); });
  EXPECT_EQ(late.code(), ErrorCode::timeout);
  EXPECT_FALSE(ready.is_ready());
  std::atomic<bool> called = false;
  ready.on_ready([&](const Error* error) { called = error == nullptr; });
  ready.await_for(60s);
  EXPECT_TRUE(ready.is_ready());
  ready.await_for(0s);
  for (int i = 0; i < 1000 && !called; ++i) std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(called);
}

int threads_of_this_process() {
  auto tasks = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}
int threads_of_a_client(ClientOptions options) {
  int before = threads_of_this_process();
  auto client = Client::create(cpu_plugin(), std::move(options));
  return threads_of_this_process() - before;
}

// The plugin starts two pools of the size asked for.
TEST(Client, TheNumberOfThreadsCanBeSet) {
  EXPECT_EQ(threads_of_a_client({.cpu_device_count = 1, .threads = 1}), 2 * 1);
  EXPECT_EQ(threads_of_a_client({.cpu_device_count = 1, .threads = 7}), 2 * 7);
  EXPECT_EQ(threads_of_a_client({.cpu_device_count = 4, .threads = 1}), 2 * 4);
  EXPECT_EQ(std::getenv("PJRT_NPROC"), nullptr);
  Error none = error_of([] { Client::create(cpu_plugin(), {.threads = 0}); });
  EXPECT_EQ(none.code(), ErrorCode::invalid_argument);
}

TEST(Client, TheDefaultNumberOfThreadsHonoursTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(threads_of_a_client({.cpu_device_count = 1}), 2 * 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(threads_of_a_client({.cpu_device_count = 1}), 2 * CPU_COUNT(&before));
}

}  // namespace
}  // namespace lockstep::pjrt

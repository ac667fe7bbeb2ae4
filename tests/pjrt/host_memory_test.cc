#include "lockstep/pjrt/host_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "lockstep/pjrt/imports.h"
#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

constexpr std::size_t MiB = std::size_t{1} << 20;

TEST(HostMemory, GivesAFreedBlockOutAgain) {
  HostMemory memory(64 * MiB);
  void* first = memory.allocate(10 * MiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % (2 * MiB), 0u);
  EXPECT_EQ(memory.size_of(first), 10 * MiB);
  std::memset(first, 1, 10 * MiB);
  EXPECT_TRUE(memory.release(first));
  EXPECT_EQ(memory.kept_bytes(), 10 * MiB);
  EXPECT_EQ(memory.size_of(first), 0u);
  EXPECT_EQ(memory.allocate(9 * MiB), first);  // a little smaller
  EXPECT_EQ(memory.kept_bytes(), 0u);
  EXPECT_TRUE(memory.release(first));
  void* small = memory.allocate(5 * MiB);
  EXPECT_NE(small, first);  // half a block would be wasted
  EXPECT_TRUE(memory.release(small));
}

TEST(HostMemory, SmallBlocksWasteLittle) {
  HostMemory memory(64 * MiB);
  void* block = memory.allocate(300'000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % HostMemory::alignment_of(300'000), 0u);
  EXPECT_EQ(memory.size_of(block), 320 * 1024u);
  void* other = memory.allocate(300'000);
  EXPECT_TRUE(memory.release(block));
  EXPECT_TRUE(memory.release(other));
  EXPECT_EQ(memory.allocate(310'000), other);  // the latest
  EXPECT_EQ(memory.allocate(310'000), block);
  EXPECT_TRUE(memory.release(block));
  EXPECT_TRUE(memory.release(other));
}

TEST(HostMemory, OfSmallBlocksTheLatestStayInMemory) {
  HostMemory memory(1024 * MiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 160; ++i) blocks.push_back(memory.allocate(MiB));
  for (void* b : blocks) std::memset(b, 7, MiB);
  for (void* b : blocks) ASSERT_TRUE(memory.release(b));
  EXPECT_EQ(memory.kept_bytes(), 160 * MiB);
  // The last first.
  for (std::size_t i = 0; i < 160; ++i) {
    auto* block = static_cast<char*>(memory.allocate(MiB));
    ASSERT_EQ(block, blocks[159 - i]);
    if (i < HostMemory::kWarm / MiB) {
      ASSERT_EQ(block[0], 7);
    }
  }
  for (void* b : blocks) ASSERT_TRUE(memory.release(b));
  memory.trim(0);
  EXPECT_EQ(memory.kept_bytes(), 0u);
}

TEST(HostMemory, KeepsNoMoreThanItsLimit) {
  HostMemory memory(20 * MiB);
  void *a = memory.allocate(8 * MiB), *b = memory.allocate(12 * MiB), *c = memory.allocate(8 * MiB),
       *large = memory.allocate(40 * MiB);
  EXPECT_TRUE(memory.release(large));  // larger than all that may be kept
  EXPECT_EQ(memory.kept_bytes(), 0u);
  EXPECT_TRUE(memory.release(a));
  EXPECT_TRUE(memory.release(b));
  EXPECT_EQ(memory.kept_bytes(), 20 * MiB);
  EXPECT_TRUE(memory.release(c));  // a has to go
  EXPECT_EQ(memory.kept_bytes(), 20 * MiB);
  EXPECT_EQ(memory.allocate(8 * MiB), c);
  EXPECT_TRUE(memory.release(c));
  memory.trim(12 * MiB);
  EXPECT_EQ(memory.kept_bytes(), 8 * MiB);
  memory.trim(0);
  EXPECT_EQ(memory.kept_bytes(), 0u);
}

TEST(HostMemory, KnowsWhatIsNotItsOwn) {
  HostMemory memory(64 * MiB);
  int local = 0;
  EXPECT_FALSE(memory.release(nullptr));
  EXPECT_FALSE(memory.release(&local));
  void* other = std::aligned_alloc(HostMemory::alignment_of(MiB), MiB);
  EXPECT_FALSE(memory.release(other));
  EXPECT_EQ(memory.size_of(other), 0u);
  std::free(other);
}

TEST(HostMemory, SaysNullWhereThereIsNone) {
  HostMemory memory(64 * MiB);
  EXPECT_EQ(memory.allocate(std::size_t{1} << 60), nullptr);
}

TEST(HostMemory, ServesSeveralThreads) {
  HostMemory memory(64 * MiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&memory, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 200; ++i) {
        std::size_t size = HostMemory::kSmallest << random() % 8;
        auto* block = static_cast<char*>(memory.allocate(size));
        ASSERT_NE(block, nullptr);
        block[0] = static_cast<char>(t);
        block[size - 1] = static_cast<char>(i);
        std::this_thread::yield();
        ASSERT_EQ(block[0], static_cast<char>(t));
        ASSERT_EQ(block[size - 1], static_cast<char>(i));
        ASSERT_TRUE(memory.release(block));
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_LE(memory.kept_bytes(), 64 * MiB);
}

// Scratch memory of 16 MiB: a sort of a computed array, whose unsorted form has to lie somewhere.
const std::string kSort = R"(module @sorted {
  func.func public @main(%one: tensor<1xf32>) -> tensor<f32> {
    %a = stablehlo.reshape %one : (tensor<1xf32>) -> tensor<f32>
    %i = stablehlo.iota dim = 0 : tensor<4194304xf32>
    %b = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> tensor<4194304xf32>
    %c = stablehlo.multiply %i, %b : tensor<4194304xf32>
    %s = "stablehlo.sort"(%c) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %l = stablehlo.compare GT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %l : tensor<i1>
    }) {dimension = 0 : i64} : (tensor<4194304xf32>) -> tensor<4194304xf32>
    %h = stablehlo.slice %s [1:2] : (tensor<4194304xf32>) -> tensor<1xf32>
    %r = stablehlo.reshape %h : (tensor<1xf32>) -> tensor<f32>
    return %r : tensor<f32>
  } })";

TEST(HostMemory, IsWhereThePluginTakesItsScratchMemoryFrom) {
  cpu();
  HostMemory* memory = recycled_host_memory();
  if (!recycle_host_memory(cpu_plugin())) GTEST_SKIP() << "not under a sanitizer";
  ASSERT_NE(memory, nullptr);
  memory->trim(0);
  LoadedExecutable program = cpu().compile(kSort, kOptions);
  std::size_t kept = 0;
  for (int i = 0; i < 4; ++i) {
    std::size_t before = memory->kept_bytes();
    Buffer a = put<float>(cpu(), {2.0f});
    auto out = program.execute(std::array<const Buffer*, 1>{&a});
    EXPECT_EQ(get<float>(out[0])[0], 2 * 4194302.0f);
    // The plugin frees it a little after the result is there.
    for (auto end = std::chrono::steady_clock::now() + 30s;
         memory->kept_bytes() < std::max(before, 16 * MiB) && std::chrono::steady_clock::now() < end;)
      std::this_thread::sleep_for(1ms);
    if (i == 0) kept = memory->kept_bytes();
  }
  EXPECT_GE(kept, 16 * MiB);
  EXPECT_EQ(memory->kept_bytes(), kept);  // and not one block more for each launch
}

TEST(HostMemory, TheLimitMustBeANumber) {
  if (recycled_host_memory() == nullptr) cpu();
  if (recycled_host_memory() == nullptr) GTEST_SKIP() << "not under a sanitizer";
  setenv("LOCKSTEP_HOST_CACHE", "lots", 1);
  Error error = error_of([] { Client::create(cpu_plugin(), {.cpu_device_count = 1}); });
  unsetenv("LOCKSTEP_HOST_CACHE");
  EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
  EXPECT_EQ(error.operation(), "LOCKSTEP_HOST_CACHE");
  EXPECT_NE(std::string(error.what()).find("'lots'"), std::string::npos) << error.what();
}

TEST(Imports, AreRedirectedOnlyWhereThereAreSome) {
  const void* plugin = cpu_plugin().api();
  int local = 0;
  EXPECT_FALSE(redirect_import(&local, "free", &local));  // in no library
  EXPECT_FALSE(redirect_import(plugin, "no_function_of_this_name", &local));
}

}  // namespace
}  // namespace lockstep::pjrt

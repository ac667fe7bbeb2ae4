#include "lockstep/pjrt/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "tests/pjrt/programs.h"

namespace lockstep::pjrt {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// f(x) = x + `value`, under its own name.
std::string program(int value) {
  return fmt::format(R"(module @plus_{0} {{
    func.func public @main(%a: tensor<4xi32>) -> tensor<4xi32> {{
      %c = stablehlo.constant dense<{0}> : tensor<4xi32>
      %r = stablehlo.add %a, %c : tensor<4xi32>
      return %r : tensor<4xi32>
    }} }})",
                     value);
}

std::string take(int value) {
  std::string module;
  Error stopped = error_of([&] {
    with_transform(
        cpu_plugin(),
        [&](std::string_view bytes) {
          module = bytes;
          return TransformOutcome::stop();
        },
        [&] { cpu().compile(program(value), kOptions); });
  });
  EXPECT_EQ(stopped.code(), ErrorCode::compile);
  return module;
}

LoadedExecutable inject(const std::string& module) {
  LoadedExecutable out;
  with_transform(
      cpu_plugin(), [&](std::string_view) { return TransformOutcome::replace(module); },
      [&] { out = cpu().compile(program(0), kOptions); });
  return out;
}

std::int32_t run(const LoadedExecutable& executable) {
  Buffer zero = put<std::int32_t>(cpu(), {0, 0, 0, 0});
  return get<std::int32_t>(executable.execute(std::array<const Buffer*, 1>{&zero})[0])[2];
}

TEST(Transform, SeesTheModuleAndCanKeepReplaceOrStop) {
  ASSERT_TRUE(has_transform_hook(cpu_plugin()));
  std::string seen;
  LoadedExecutable kept;
  with_transform(
      cpu_plugin(),
      [&](std::string_view bytes) {
        seen = bytes;
        return TransformOutcome::keep();
      },
      [&] { kept = cpu().compile(program(5), kOptions); });
  EXPECT_THAT(seen, HasSubstr("plus_5"));
  EXPECT_EQ(run(kept), 5);
  std::string module = take(7);
  EXPECT_THAT(module, HasSubstr("plus_7"));
  EXPECT_EQ(run(inject(module)), 7);
  EXPECT_EQ(run(cpu().compile(program(9), kOptions)), 9);
}

TEST(Transform, WhatItThrowsArrivesUnchanged) {
  Error error = error_of([] {
    with_transform(
        cpu_plugin(),
        [](std::string_view) -> TransformOutcome {
          throw_error(ErrorCode::sharding, "my_pass", "no such thing as {}", 42);
        },
        [] { cpu().compile(program(1), kOptions); });
  });
  EXPECT_EQ(error.code(), ErrorCode::sharding);
  EXPECT_STREQ(error.what(), "my_pass: no such thing as 42");
  Error garbage = error_of([] { inject("garbage"); });
  EXPECT_EQ(garbage.code(), ErrorCode::compile);
}

TEST(Transform, EveryThreadsCompilesGoToItsOwnRequest) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 6; ++i) {
        int value = 100 * t + i;
        std::string module = take(value);
        EXPECT_THAT(module, HasSubstr(fmt::format("plus_{}", value)));
        if (t == 3)
          EXPECT_EQ(run(cpu().compile(program(value), kOptions)), value);
        else
          EXPECT_EQ(run(inject(module)), value);
      }
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace lockstep::pjrt

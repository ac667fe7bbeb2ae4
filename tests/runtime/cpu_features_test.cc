#include "lockstep/runtime/cpu_features.h"

#include <gtest/gtest.h>

namespace lockstep::runtime {
namespace {

constexpr const char* kX86 =
    "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu sse4_1 sse4_2 avx f16c avx2 fma avx512f avx512_vnni ht\n"
    "bugs\t\t: spectre\nprocessor\t: 1\nflags\t\t: fpu\n";

TEST(CpuFeatures, ThoseThatCompiledCodeUses) {
  EXPECT_EQ(cpu_features(kX86, ""), "avx avx2 avx512_vnni avx512f f16c fma sse4_1 sse4_2");
  EXPECT_EQ(cpu_features("processor\t: 0\nFeatures\t: fp asimd crc32 sve\n", ""), "asimd sve");
  EXPECT_EQ(cpu_features("processor\t: 0\nisa\t: rv64\n", ""), "");
}

TEST(CpuFeatures, WhatTheCompilerMayNotUseDoesNotCount) {
  EXPECT_EQ(cpu_features(kX86, "--xla_a=b --xla_cpu_max_isa=AVX2"), "avx avx2 f16c fma sse4_1 sse4_2");
  EXPECT_EQ(cpu_features(kX86, "--xla_cpu_max_isa=SSE4_2"), "sse4_1 sse4_2");
  EXPECT_EQ(cpu_features(kX86, "--xla_cpu_max_isa=AVX512"), "avx avx2 avx512f f16c fma sse4_1 sse4_2");
}

TEST(CpuFeatures, ThisMachineHasSome) { EXPECT_NE(local_cpu_features(), ""); }

}  // namespace
}  // namespace lockstep::runtime

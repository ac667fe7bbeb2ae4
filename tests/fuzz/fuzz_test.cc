// The corpus and random bytes, through the entries that libFuzzer uses. LOCKSTEP_FUZZ_SECONDS lengthens the random
// part; a failure prints the seed, LOCKSTEP_FUZZ_SEED repeats it.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "tests/fuzz/fuzz.h"

namespace lockstep::fuzz {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::uint8_t>;

class FuzzTest : public testing::TestWithParam<Target> {};

TEST_P(FuzzTest, Corpus) {
  int count = 0;
  for (auto& file : std::filesystem::directory_iterator(std::string(LOCKSTEP_FUZZ_CORPUS) + "/" + GetParam().name)) {
    SCOPED_TRACE(file.path());
    std::ifstream stream(file.path(), std::ios::binary);
    Bytes bytes((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
    EXPECT_NO_THROW(GetParam().run(bytes));
    ++count;
  }
  EXPECT_GT(count, 0) << "no corpus";
}

TEST_P(FuzzTest, RandomBytes) {
  const char* given = std::getenv("LOCKSTEP_FUZZ_SEED");
  const char* time = std::getenv("LOCKSTEP_FUZZ_SECONDS");
  std::uint64_t seed = given == nullptr ? std::random_device()() : std::strtoull(given, nullptr, 10);
  auto end = Clock::now() + std::chrono::milliseconds(time == nullptr ? 700 : 1000 * std::atol(time));
  do {
    SCOPED_TRACE("LOCKSTEP_FUZZ_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed++);
    Bytes bytes(random() % 3000);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    EXPECT_NO_THROW(GetParam().run(bytes));
  } while (given == nullptr && !HasFailure() && Clock::now() < end);
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzTest, testing::ValuesIn(targets), [](auto& info) { return info.param.name; });

}  // namespace
}  // namespace lockstep::fuzz

#include "lockstep/runtime/cpu_features.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

namespace lockstep::runtime {
namespace {

// Levels of --xla_cpu_max_isa, in order.
constexpr std::string_view kLevels[] = {"SSE4_2",      "AVX",         "AVX2", "AVX512",
                                        "AVX512_VNNI", "AVX512_BF16", "AMX",  "AMX_FP16"};
struct Feature {
  std::string_view name;  // as /proc/cpuinfo has it
  int level;              // the first that allows it
};
constexpr Feature kFeatures[] = {
    {"sse4_1", 0},   {"sse4_2", 0},      {"avx", 1},         {"f16c", 1},     {"avx2", 2},     {"fma", 2},
    {"avx512f", 3},  {"avx512cd", 3},    {"avx512bw", 3},    {"avx512dq", 3}, {"avx512vl", 3}, {"avx512_vnni", 4},
    {"avx_vnni", 4}, {"avx512_bf16", 5}, {"avx512_fp16", 6}, {"amx_tile", 6}, {"amx_int8", 6}, {"amx_bf16", 6},
    {"amx_fp16", 7}, {"asimd", 0},       {"asimdhp", 0},     {"asimddp", 0},  {"asimdfhm", 0}, {"fcma", 0},
    {"bf16", 0},     {"i8mm", 0},        {"sve", 0},         {"sve2", 0},     {"svebf16", 0},  {"svei8mm", 0}};

template <class Visit>
void for_each_word(std::string_view text, Visit visit) {
  constexpr std::string_view spaces = " \t\n";
  for (std::size_t at = text.find_first_not_of(spaces); at != std::string_view::npos;) {
    std::size_t end = std::min(text.find_first_of(spaces, at), text.size());
    visit(text.substr(at, end - at));
    at = text.find_first_not_of(spaces, end);
  }
}

int highest_level(std::string_view xla_flags) {
  constexpr std::string_view flag = "--xla_cpu_max_isa=";
  int highest = std::numeric_limits<int>::max();
  for_each_word(xla_flags, [&](std::string_view word) {
    if (!word.starts_with(flag)) return;
    auto at = std::find(std::begin(kLevels), std::end(kLevels), word.substr(flag.size()));
    if (at != std::end(kLevels)) highest = static_cast<int>(at - std::begin(kLevels));
  });
  return highest;
}

}  // namespace

std::string cpu_features(std::string_view cpuinfo, std::string_view xla_flags) {
  std::size_t at = std::min(cpuinfo.find("\nflags"), cpuinfo.find("\nFeatures"));  // x86, ARM
  if (at == std::string_view::npos) return "";
  std::string_view line = cpuinfo.substr(at + 1);
  line = line.substr(0, line.find('\n'));
  line.remove_prefix(std::min(line.size(), line.find(':') + 1));
  int highest = highest_level(xla_flags);
  std::set<std::string_view> found;
  for_each_word(line, [&](std::string_view word) {
    for (const Feature& f : kFeatures)
      if (f.name == word && f.level <= highest) found.insert(word);
  });
  std::string out;
  for (std::string_view word : found) out += (out.empty() ? "" : " ") + std::string(word);
  return out;
}

std::string local_cpu_features() {
  std::ifstream file("/proc/cpuinfo");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const char* flags = std::getenv("XLA_FLAGS");
  return cpu_features(text, flags == nullptr ? "" : flags);
}

}  // namespace lockstep::runtime

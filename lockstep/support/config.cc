#include "lockstep/support/config.h"

#include <atomic>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string_view>

#include "lockstep/support/error.h"

namespace lockstep {
namespace config {
namespace {

using namespace internal;
#ifdef LOCKSTEP_TEST_BUILD
constexpr bool kChecksByDefault = true;
#else
constexpr bool kChecksByDefault = false;
#endif

struct Flags {
  std::atomic<bool> value[kFlags];
  Flags() {
    value[kX64] = environment_bool("JAX_ENABLE_X64", false);
    value[kDisableJit] = environment_bool("JAX_DISABLE_JIT", false);
    value[kChecks] = environment_bool("JAX_ENABLE_CHECKS", kChecksByDefault);
  }
};
Flags& flags() {
  static Flags f;
  return f;
}
thread_local std::int8_t scoped[kFlags] = {-1, -1, -1};

bool get(Flag f) { return scoped[f] >= 0 ? scoped[f] != 0 : flags().value[f].load(std::memory_order_relaxed); }

std::atomic<std::uint32_t> gangs_left = 0;

std::atomic<bool>& recoverability() {
  static std::atomic<bool> on = environment_bool("JAX_ENABLE_RECOVERABILITY", false);
  return on;
}

}  // namespace

std::uint32_t gang() { return gangs_left.load(std::memory_order_relaxed); }
std::uint32_t gang_of(std::uint64_t fingerprint) { return static_cast<std::uint32_t>(fingerprint >> 8); }
void next_gang() { gangs_left.fetch_add(1); }
bool enable_recoverability() { return recoverability(); }
void set_enable_recoverability(bool on) { recoverability() = on; }
bool enable_x64() { return get(kX64); }
bool disable_jit() { return get(kDisableJit); }
bool enable_checks() { return get(kChecks); }
void set_enable_x64(bool on) { flags().value[kX64] = on; }
void set_disable_jit(bool on) { flags().value[kDisableJit] = on; }
void set_enable_checks(bool on) { flags().value[kChecks] = on; }
std::uint64_t fingerprint() {
  return std::uint64_t{gang()} << 8 | std::uint64_t{enable_x64()} | std::uint64_t{disable_jit()} << 1 |
         std::uint64_t{enable_checks()} << 2;
}

std::map<std::string, std::string> program_settings() {
  auto text = [](Flag f) { return flags().value[f] ? "true" : "false"; };
  std::map<std::string, std::string> settings{{"jax_enable_x64", text(kX64)}, {"jax_disable_jit", text(kDisableJit)}};
  std::set<std::string> xla;
  std::istringstream words(std::getenv("XLA_FLAGS") ? std::getenv("XLA_FLAGS") : "");
  for (std::string word; words >> word;)
    if (!word.starts_with("--xla_dump") && !word.starts_with("--xla_force_host_platform_device_count"))
      xla.insert(word);
  std::string flags_text;
  for (const std::string& word : xla) flags_text += (flags_text.empty() ? "" : " ") + word;
  settings["XLA_FLAGS"] = flags_text.empty() ? "unset" : flags_text;
  return settings;
}

bool environment_bool(const char* name, bool otherwise) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return otherwise;
  std::string_view text(value);
  for (std::string_view yes : {"1", "true", "True", "yes", "on"})
    if (text == yes) return true;
  for (std::string_view no : {"0", "false", "False", "no", "off"})
    if (text == no) return false;
  throw_error(ErrorCode::invalid_argument, name, "\"{}\" is not a truth value; use 1 or 0", text);
}

}  // namespace config

ConfigScope::ConfigScope(config::internal::Flag flag, bool value) : flag_(flag), saved_(config::scoped[flag]) {
  config::scoped[flag] = value;
}
ConfigScope::~ConfigScope() { config::scoped[flag_] = saved_; }

}  // namespace lockstep

// Settings that change what programs mean, under JAX's names: read from JAX_* variables at start, changed for the whole
// process by set_*, or for a scope of one thread by a scope object (`auto s = enable_x64(true);`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace lockstep {
namespace config {

bool enable_x64();             // JAX_ENABLE_X64: 64-bit types are kept (default false)
bool disable_jit();            // JAX_DISABLE_JIT: jit runs its function operation by operation
bool enable_checks();          // JAX_ENABLE_CHECKS: the jaxpr checker runs after every transformation
bool enable_recoverability();  // JAX_ENABLE_RECOVERABILITY: a gang goes on without processes that die
void set_enable_x64(bool on);
void set_disable_jit(bool on);
void set_enable_checks(bool on);
void set_enable_recoverability(bool on);  // before distributed::initialize()
// Changes whenever a setting visible on this thread or the gang does; part of every cache key.
std::uint64_t fingerprint();
// How many gangs this process has left: meshes, shardings and compiled programs belong to one gang.
std::uint32_t gang();
std::uint32_t gang_of(std::uint64_t fingerprint);  // what gang() was
void next_gang();

// The settings, of the whole process, that change which programs are made and what they compute: they have to be equal
// in all processes of a gang. By JAX's names; XLA_FLAGS without what may differ (dumps, numbers of devices), sorted.
std::map<std::string, std::string> program_settings();

// An environment variable as a truth value ("1", "true", "yes", "on"; "0", "false", "no", "off", unset: `otherwise`).
// Throws Error(invalid_argument) for another text.
bool environment_bool(const char* name, bool otherwise);

namespace internal {
enum Flag { kX64, kDisableJit, kChecks, kFlags };
}  // namespace internal
}  // namespace config

// Sets one setting on this thread until it is destroyed. Must be destroyed on the thread that made it, in LIFO order.
class [[nodiscard]] ConfigScope {
 public:
  ConfigScope(config::internal::Flag flag, bool value);
  ~ConfigScope();
  ConfigScope(const ConfigScope&) = delete;
  ConfigScope& operator=(const ConfigScope&) = delete;

 private:
  config::internal::Flag flag_;
  std::int8_t saved_;
};
inline ConfigScope enable_x64(bool on = true) { return {config::internal::kX64, on}; }
inline ConfigScope disable_jit(bool on = true) { return {config::internal::kDisableJit, on}; }

}  // namespace lockstep

#include "lockstep/support/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace lockstep::log {
namespace {

Level level_from_environment() {
  const char* text = std::getenv("LOCKSTEP_LOG_LEVEL");
  if (text == nullptr) return Level::warning;
  for (auto [name, level] : {std::pair{"debug", Level::debug},
                             {"info", Level::info},
                             {"warning", Level::warning},
                             {"error", Level::error},
                             {"off", Level::off}})
    if (std::strcmp(text, name) == 0) return level;
  return Level::warning;
}
std::atomic<Level>& current() {
  static std::atomic<Level> level{level_from_environment()};
  return level;
}
std::atomic<int> rank{-1};

spdlog::logger& logger() {
  static auto* l = [] {
    auto* made = new spdlog::logger("lockstep", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    return made;
  }();
  return *l;
}

}  // namespace

void set_level(Level level) { current() = level; }
bool enabled(Level level) { return level >= current().load(std::memory_order_relaxed); }
void set_rank(int r) { rank = r; }

void write(Level level, const std::string& text) {
  static const char* const names[] = {"debug", "info", "warning", "error", ""};
  int r = rank;
  auto name = names[static_cast<int>(level)];
  logger().info(
      "{}", r < 0 ? fmt::format("lockstep {}: {}", name, text) : fmt::format("lockstep [{}] {}: {}", r, name, text));
  logger().flush();
}

}  // namespace lockstep::log

// Logging: one line to stderr, "lockstep [rank] level: text". LOCKSTEP_LOG_LEVEL (debug, info, warning, error, off;
// default warning) sets what is shown. Without a rank (one process) the bracket is left out.
#pragma once

#include <fmt/core.h>

#include <string>

namespace lockstep::log {

enum class Level { debug, info, warning, error, off };

void set_level(Level level);
bool enabled(Level level);
void set_rank(int rank);  // -1: none
void write(Level level, const std::string& text);

template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warning(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warning)) write(Level::warning, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::error)) write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace lockstep::log

#include "tools/plugins.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "lockstep/runtime/platforms.h"
#include "lockstep/support/error.h"

namespace lockstep::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds patience{60};  // GPUs take their time
constexpr char works = '+', rejected = '-';

std::string to_text(const pjrt::NamedValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          std::string out;
          for (std::int64_t x : v) out += (out.empty() ? "" : ".") + std::to_string(x);
          return out;
        } else {
          return fmt::format("{}", v);
        }
      },
      value);
}

// What is known of a plugin that works, a line each.
std::string describe(const pjrt::Client& client) {
  const pjrt::Plugin& plugin = client.plugin();
  std::string extensions, attributes, devices;
  for (const auto& e : plugin.extensions()) extensions += (extensions.empty() ? "" : ", ") + e.name;
  for (const auto& [name, value] : plugin.attributes())
    attributes += fmt::format("{}{} {}", attributes.empty() ? "" : ", ", name, to_text(value));
  for (const pjrt::Device* d : client.addressable_devices())
    devices += fmt::format("{}{} ({})", devices.empty() ? "" : ", ", d->description(), d->kind());
  std::string out = fmt::format("API version  {}.{}\n", plugin.major_version(), plugin.minor_version());
  out += fmt::format("version      {}\n", runtime::one_line(client.platform_version()));
  if (!attributes.empty()) out += fmt::format("attributes   {}\n", attributes);
  out += fmt::format("extensions   {}\n", extensions.empty() ? "none" : extensions);
  out += fmt::format("devices      {}: {}\n", client.addressable_devices().size(), devices);
  return out;
}

// Runs in the child: '+' and the description, or '-' and the reason.
std::string try_here(const std::string& platform, const pjrt::PluginPlace& place) {
  try {
    return works + describe(*runtime::make_client(platform, place));
  } catch (const Error& error) {
    return rejected + runtime::reason_of(error);
  }
}

// The same in a process of its own.
std::string try_apart(const std::string& platform, const pjrt::PluginPlace& place) {
  int ends[2];
  if (::pipe(ends) != 0) throw_error(ErrorCode::io, "lockstep plugins", "no pipe: {}", std::strerror(errno));
  std::fflush(nullptr);
  pid_t child = ::fork();
  if (child < 0) throw_error(ErrorCode::io, "lockstep plugins", "no process: {}", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    std::string text = try_here(platform, place);
    std::string_view left = text;
    while (!left.empty()) {
      ssize_t n = ::write(ends[1], left.data(), left.size());
      if (n <= 0) break;
      left.remove_prefix(static_cast<std::size_t>(n));
    }
    ::_exit(0);  // without the plugin's own exit handlers
  }
  ::close(ends[1]);
  std::string text;
  bool late = false;
  auto deadline = Clock::now() + patience;
  while (true) {
    auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait{.fd = ends[0], .events = POLLIN};
    if (left.count() <= 0 || ::poll(&wait, 1, static_cast<int>(left.count())) == 0) {
      late = true;
      ::kill(child, SIGKILL);
      break;
    }
    char buffer[4096];
    ssize_t n = ::read(ends[0], buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (late) return fmt::format("{}it gave no answer within {} s", rejected, patience.count());
  if (!text.empty()) return text;
  if (WIFSIGNALED(status)) return fmt::format("{}it crashed the process: {}", rejected, ::strsignal(WTERMSIG(status)));
  return fmt::format("{}it ended the process with status {}", rejected, WEXITSTATUS(status));
}

}  // namespace

int list_plugins() {
  std::string names = runtime::named_platforms();
  std::vector<runtime::PlatformChoice> choices;
  std::string unknown;
  try {
    choices = runtime::platform_choices();
  } catch (const Error& error) {
    unknown = error.message().substr(0, error.message().find(". There are:"));
  }
  auto is_place = [](const pjrt::PluginPlace& a, const pjrt::PluginPlace& b) {
    return a.platform == b.platform && a.path == b.path && a.source == b.source && a.problem == b.problem;
  };
  auto find_result = [&](auto& results, const pjrt::PluginPlace& place) -> const std::string& {
    for (auto& [known, text] : results)
      if (is_place(known, place)) return text;
    static const std::string none;
    return none;
  };
  std::vector<std::pair<pjrt::PluginPlace, std::string>> results;
  for (const pjrt::PluginPlace& place : pjrt::find_plugins())
    results.emplace_back(place, try_apart(place.platform, place));
  // What a program would use: of the platforms that JAX_PLATFORMS names only the first counts.
  const pjrt::PluginPlace* chosen = nullptr;
  for (const auto& choice : choices) {
    for (const auto& place : choice.places)
      if (find_result(results, place).starts_with(works)) {
        chosen = &place;
        break;
      }
    if (chosen != nullptr || !names.empty()) break;
  }
  for (const auto& [place, text] : results) {
    bool first = chosen != nullptr && is_place(place, *chosen);
    fmt::print("{}{}\n", place.platform, first ? " (used)" : text.starts_with(works) ? "" : " (rejected)");
    fmt::print("  path         {}\n", place.path.empty() ? "none" : place.path);
    fmt::print("  found by     {}\n", place.source);
    if (text.starts_with(rejected)) {
      fmt::print("  reason       {}\n", text.substr(1));
      continue;
    }
    for (std::size_t at = 1; at < text.size();) {
      std::size_t end = text.find('\n', at);
      fmt::print("  {}\n", text.substr(at, end - at));
      at = end == text.npos ? text.size() : end + 1;
    }
  }
  if (!unknown.empty()) fmt::print("{}\n", unknown);
  if (chosen == nullptr && unknown.empty())
    fmt::print("no plugin can be used{}\n", names.empty() ? "" : fmt::format(" with JAX_PLATFORMS={}", names));
  return chosen == nullptr ? 1 : 0;
}

}  // namespace lockstep::tools

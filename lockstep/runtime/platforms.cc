#include "lockstep/runtime/platforms.h"

#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "lockstep/distributed/build_id.h"
#include "lockstep/pjrt/plugin.h"
#include "lockstep/support/error.h"

namespace lockstep::runtime {
namespace {

using pjrt::PluginPlace;

std::vector<PluginPlace> places_of(const std::vector<PluginPlace>& found, const std::string& platform) {
  std::vector<PluginPlace> out;
  for (const PluginPlace& place : found)
    if (place.platform == platform) out.push_back(place);
  if (platform != "gpu" || !out.empty()) return out;
  for (const PluginPlace& place : found)
    if (place.platform == "cuda" || place.platform == "rocm") out.push_back(place);
  return out;
}

void check_found(const PlatformChoice& choice, const std::string& names, const std::vector<PluginPlace>& found) {
  if (!choice.places.empty()) return;
  std::string there;
  for (const PluginPlace& place : found)
    there +=
        fmt::format("\n  {}: {} ({})", place.platform, place.path.empty() ? place.problem : place.path, place.source);
  throw_error(ErrorCode::plugin, "backend",
              "JAX_PLATFORMS={} names the platform '{}', for which no plugin was found. There are:{}", names,
              choice.platform, there);
}

}  // namespace

std::string named_platforms() {
  const char* value = std::getenv("JAX_PLATFORMS");
  return value == nullptr ? "" : value;
}

std::vector<PlatformChoice> platform_choices() {
  std::vector<PluginPlace> found = pjrt::find_plugins();
  std::vector<PlatformChoice> out;
  std::string names = named_platforms();
  if (!names.empty()) {
    std::string_view left = names;
    while (!left.empty()) {
      std::string_view word = left.substr(0, left.find(','));
      left.remove_prefix(std::min(left.size(), word.size() + 1));
      std::string name;
      for (char c : word)
        if (!std::isspace(static_cast<unsigned char>(c))) name += c;
      if (name.empty()) continue;
      out.push_back({name, places_of(found, name)});
      check_found(out.back(), names, found);
    }
    if (!out.empty()) return out;
  }
  // Places of one platform are alternatives to each other, in order.
  for (const PluginPlace& place : found) {
    auto same = std::find_if(out.begin(), out.end(), [&](auto& c) { return c.platform == place.platform; });
    if (same == out.end())
      out.push_back({place.platform, {place}});
    else
      same->places.push_back(place);
  }
  std::stable_partition(out.begin(), out.end(), [](auto& c) { return c.platform != "cpu"; });
  return out;
}

std::string one_line(std::string_view text) {
  std::string out;
  bool pending = false;  // a line's end that has something after it
  for (char c : text) {
    if (c == '\n') {
      pending = !out.empty();
      continue;
    }
    if (pending) out += out.back() == ';' || out.back() == ':' ? " " : "; ";
    pending = false;
    out += c;
  }
  return out;
}

std::string reason_of(const Error& error) {
  bool ours = error.operation() == "backend" || error.operation() == "load_plugin";
  return one_line(ours ? error.message() : error.operation() + ": " + error.message());
}

std::string plugin_build(const pjrt::Plugin& plugin) {
  if (std::string id = distributed::build_id_at(plugin.api()); !id.empty()) return id;
  std::ifstream file(plugin.path(), std::ios::binary);
  std::vector<char> block(4 << 20);
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  LS_CHECK(EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0)
    EVP_DigestUpdate(digest.get(), block.data(), static_cast<std::size_t>(file.gcount()));
  EVP_DigestFinal_ex(digest.get(), bytes, &size);
  return fmt::format("{:02x}", fmt::join(bytes, bytes + size, ""));
}

std::string plugin_identity() {
  std::string out;
  auto add = [&](const std::string& text) { out += (out.empty() ? "" : "; ") + text; };
  for (const PlatformChoice& choice : platform_choices()) {
    std::string reasons;
    const pjrt::Plugin* plugin = nullptr;
    for (const PluginPlace& place : choice.places) {
      try {
        if (place.path.empty()) throw_error(ErrorCode::plugin, place.source, "{}", place.problem);
        plugin = &pjrt::Plugin::load(place.path);
        break;
      } catch (const Error& error) {
        reasons += fmt::format(" ({})", reason_of(error));
      }
    }
    if (plugin != nullptr)
      add(fmt::format("{}, PJRT C API {}.{}, build {}", choice.platform, plugin->major_version(),
                      plugin->minor_version(), plugin_build(*plugin)));
    else
      add(choice.platform + reasons);
    if (plugin != nullptr && (!named_platforms().empty() || choice.platform == "cpu")) break;
  }
  return out;
}

}  // namespace lockstep::runtime

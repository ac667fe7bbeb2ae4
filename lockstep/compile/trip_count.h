// Private to the room.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::compile {

// The number in ..."known_trip_count":{"n":"5"}..., XLA's note in the backend config of a while loop.
inline std::optional<std::int64_t> known_trip_count(std::string_view backend_config) {
  constexpr std::string_view key = "\"known_trip_count\":{\"n\":\"";
  std::size_t at = backend_config.find(key);
  if (at == backend_config.npos) return std::nullopt;
  backend_config.remove_prefix(at + key.size());
  std::int64_t n = 0;
  auto [end, error] = std::from_chars(backend_config.data(), backend_config.data() + backend_config.size(), n);
  if (error != std::errc()) return std::nullopt;
  return n;
}

}  // namespace lockstep::compile

#include "lockstep/support/location.h"

#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

namespace lockstep {
namespace {

struct ThreadState {
  LocationId id = 0;
  bool active = false;
};
thread_local ThreadState state;

struct Key {
  const char* file;
  std::uint64_t line_column;
  bool operator==(const Key&) const = default;
};
struct KeyHash {
  std::size_t operator()(const Key& k) const {
    return std::hash<const void*>()(k.file) ^ (std::hash<std::uint64_t>()(k.line_column) * 0x9e3779b97f4a7c15u);
  }
};
struct Table {
  std::mutex mutex;
  std::unordered_map<Key, LocationId, KeyHash> ids;
  std::deque<std::source_location> locations{std::source_location()};
};
Table& table() {
  static auto* t = new Table;  // immortal: static arrays may outlive main
  return *t;
}

}  // namespace

LocationId intern_location(const std::source_location& where) {
  Key key{where.file_name(), std::uint64_t{where.line()} << 32 | where.column()};
  thread_local std::unordered_map<Key, LocationId, KeyHash> cache;
  auto [it, fresh] = cache.try_emplace(key, 0);
  if (!fresh) return it->second;
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto [global, added] = t.ids.try_emplace(key, static_cast<LocationId>(t.locations.size()));
  if (added) t.locations.push_back(where);
  return it->second = global->second;
}

std::source_location location_of(LocationId id) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return id < t.locations.size() ? t.locations[id] : std::source_location();
}

std::string to_string(LocationId id) {
  if (id == 0) return "";
  auto where = location_of(id);
  const char* slash = std::strrchr(where.file_name(), '/');
  return std::string(slash ? slash + 1 : where.file_name()) + ":" + std::to_string(where.line());
}

LocationId current_location() { return state.active ? state.id : 0; }

LocationScope::LocationScope(const std::source_location& where) : outermost_(!state.active) {
  if (outermost_) state = {intern_location(where), true};
}
LocationScope::~LocationScope() {
  if (outermost_) state = {};
}

UserCode::UserCode() : saved_id_(state.id), saved_active_(state.active) { state = {}; }
UserCode::~UserCode() { state = {saved_id_, saved_active_}; }

LocationOverride::LocationOverride(LocationId id) : saved_id_(state.id), saved_active_(state.active) {
  state = {id, true};
}
LocationOverride::~LocationOverride() { state = {saved_id_, saved_active_}; }

}  // namespace lockstep

#include "lockstep/core/primitive.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace lockstep {
namespace {

struct Table {
  std::mutex mutex;
  std::vector<const Primitive*> primitives;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

}  // namespace

RegisterPrimitive::RegisterPrimitive(const Primitive& p) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.primitives.push_back(&p);
}
std::vector<const Primitive*> registered_primitives() {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto all = t.primitives;
  std::sort(all.begin(), all.end(), [](auto* a, auto* b) { return std::strcmp(a->name, b->name) < 0; });
  return all;
}
const Primitive* find_primitive(std::string_view name) {
  for (auto* p : registered_primitives())
    if (name == p->name) return p;
  return nullptr;
}

}  // namespace lockstep

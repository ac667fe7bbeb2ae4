#include "lockstep/core/aval.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "lockstep/core/params.h"

namespace lockstep {
namespace {

std::size_t hash(const Aval& a) {
  std::size_t h = hash_param(a.shape);
  h = hash_combine(h, static_cast<std::size_t>(a.dtype) << 2 | static_cast<std::size_t>(a.memory) << 1 | a.weak_type);
  for (auto& dim : a.sharding) {
    h = hash_combine(h, dim.size());
    for (auto& axis : dim) h = hash_combine(h, std::hash<std::string>()(axis));
  }
  for (auto& axis : a.varying) h = hash_combine(h, std::hash<std::string>()(axis));
  return h;
}

struct Table {
  std::mutex mutex;
  std::unordered_multimap<std::size_t, AvalP> by_hash;
  std::deque<InternedAval> all;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

}  // namespace

std::string to_string(const Shape& s) {
  std::string text = "[";
  for (std::size_t i = 0; i < s.size(); ++i) text += (i ? "," : "") + std::to_string(s[i]);
  return text + "]";
}
std::string to_tuple_string(const Shape& s) {
  std::string text = "(";
  for (std::size_t i = 0; i < s.size(); ++i) text += (i ? ", " : "") + std::to_string(s[i]);
  return text + (s.size() == 1 ? ",)" : ")");
}
std::string mlir_type(const Shape& shape, DType dtype) {
  std::string text = "tensor<";
  for (auto d : shape) text += std::to_string(d) + "x";
  return text.append(mlir_name(dtype)) + ">";
}

AvalP intern(Aval aval) {
  std::size_t h = hash(aval);
  thread_local std::unordered_multimap<std::size_t, AvalP> cache;
  auto find = [&](auto& map) -> AvalP {
    auto [begin, end] = map.equal_range(h);
    for (auto it = begin; it != end; ++it)
      if (static_cast<const Aval&>(*it->second) == aval) return it->second;
    return nullptr;
  };
  if (AvalP hit = find(cache)) return hit;
  Table& t = table();
  std::lock_guard lock(t.mutex);
  AvalP found = find(t.by_hash);
  if (found == nullptr) {
    InternedAval& made = t.all.emplace_back();
    static_cast<Aval&>(made) = std::move(aval);
    made.id = static_cast<std::uint32_t>(t.all.size());
    made.text = std::string(short_name(made.dtype)) + to_string(made.shape);
    made.mlir = mlir_type(made.shape, made.dtype);
    t.by_hash.emplace(h, &made);
    found = &made;
  }
  cache.emplace(h, found);
  return found;
}
AvalP make_aval(Shape shape, DType dtype, bool weak_type) {
  Aval a;
  a.shape = std::move(shape);
  a.dtype = dtype;
  a.weak_type = weak_type;
  return intern(std::move(a));
}
AvalP with_shape(AvalP a, Shape shape) {
  if (a->shape == shape) return a;
  Aval copy = *a;
  copy.shape = std::move(shape);
  copy.sharding.clear();
  return intern(std::move(copy));
}
AvalP with_dtype(AvalP a, DType dtype, bool weak_type) {
  if (a->dtype == dtype && a->weak_type == weak_type) return a;
  Aval copy = *a;
  copy.dtype = dtype;
  copy.weak_type = weak_type;
  return intern(std::move(copy));
}
AvalP strong(AvalP a) { return a->weak_type ? with_dtype(a, a->dtype) : a; }
AvalP tangent_aval(AvalP a) { return is_inexact(a->dtype) ? a : with_dtype(a, DType::float0); }

std::string to_string(std::span<const AvalP> avals) {
  std::string text;
  for (AvalP a : avals) text += (text.empty() ? "" : ", ") + a->text;
  return text;
}

}  // namespace lockstep

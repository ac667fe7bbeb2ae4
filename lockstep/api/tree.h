// Trees: any nesting of Array with standard containers, tuples, optionals and plain aggregates, with field names,
// without macros. Array is a leaf; numbers, enums, strings and the like are static: part of the structure, copied as
// they are.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/core/none.h"
#include "lockstep/core/reflect.h"
#include "lockstep/core/shape.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/array.h"

namespace lockstep {

namespace tree {

// The dynamic part of a structure: sizes of containers and static values.
using Signature = SmallVector<std::uint64_t, 16>;

namespace internal {

template <class T>
inline constexpr bool always_false = false;
template <class T>
struct IsVector : std::false_type {};
template <class T, class A>
struct IsVector<std::vector<T, A>> : std::true_type {};
template <class T>
struct IsArray : std::false_type {};
template <class T, std::size_t N>
struct IsArray<std::array<T, N>> : std::true_type {};
template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};
template <class A, class B>
struct IsTuple<std::pair<A, B>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class K, class V, class C, class A>
struct IsMap<std::map<K, V, C, A>> : std::true_type {};

template <class T>
inline constexpr bool is_static =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, const char*> ||
    std::is_same_v<T, Shape> || std::is_same_v<T, none_t> || std::is_same_v<T, std::monostate>;

inline void push_static(Signature& out, const std::string& s) {
  out.push_back(s.size());
  for (std::size_t i = 0; i < s.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, s.data() + i, std::min<std::size_t>(8, s.size() - i));
    out.push_back(word);
  }
}
inline void push_static(Signature& out, const char* s) { push_static(out, std::string(s)); }
inline void push_static(Signature& out, const Shape& s) {
  out.push_back(s.size());
  for (auto d : s) out.push_back(static_cast<std::uint64_t>(d));
}
inline void push_static(Signature&, none_t) {}
inline void push_static(Signature&, std::monostate) {}
template <class T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T>) void push_static(Signature& out, T v) {
  if constexpr (std::is_floating_point_v<T>) {
    double d = static_cast<double>(v);
    std::uint64_t word;
    std::memcpy(&word, &d, 8);
    out.push_back(word);
  } else {
    out.push_back(static_cast<std::uint64_t>(v));
  }
}

}  // namespace internal

// Walks a tree. The visitor has: leaf(Array&) or leaf(const Array&); fixed(value) for static values; size(n) for the
// number of elements of a container and the presence of an optional; and, if kPaths, push(text) and pop().
template <class T, class V>
void visit(T& t, V& v) {
  using U = std::remove_const_t<T>;
  auto child = [&v](auto&& name, auto& x) {
    if constexpr (V::kPaths) v.push(name());
    visit(x, v);
    if constexpr (V::kPaths) v.pop();
  };
  auto index = [](auto i) { return [i] { return "[" + std::to_string(i) + "]"; }; };
  if constexpr (std::is_same_v<U, Array>) {
    v.leaf(t);
  } else if constexpr (internal::is_static<U>) {
    v.fixed(t);
  } else if constexpr (internal::IsVector<U>::value) {
    static_assert(!std::is_same_v<U, std::vector<bool>>, "std::vector<bool> is not a tree; use an Array of bool");
    v.size(t.size());
    for (std::size_t i = 0; i < t.size(); ++i) child(index(i), t[i]);
  } else if constexpr (internal::IsArray<U>::value) {
    for (std::size_t i = 0; i < t.size(); ++i) child(index(i), t[i]);
  } else if constexpr (internal::IsTuple<U>::value) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (child(index(I), std::get<I>(t)), ...); }
    (std::make_index_sequence<std::tuple_size_v<U>>());
  } else if constexpr (internal::IsOptional<U>::value) {
    v.size(t.has_value());
    if (t) visit(*t, v);
  } else if constexpr (internal::IsMap<U>::value) {
    v.size(t.size());
    for (auto& [key, value] : t) {
      v.fixed(key);
      if constexpr (std::is_convertible_v<decltype(key), std::string>)
        child([&key = key] { return "['" + std::string(key) + "']"; }, value);
      else
        child(index(key), value);
    }
  } else if constexpr (reflect::Aggregate<U>) {
    reflect::for_each_field(
        t, [&](std::string_view name, auto& x) { child([name] { return "." + std::string(name); }, x); });
  } else {
    static_assert(internal::always_false<U>,
                  "this type is not a tree of arrays: use Array, standard containers, tuples, optionals, and plain "
                  "aggregates (no base classes, no private members, no C arrays) of these");
  }
}

namespace internal {

template <class F>
struct LeafVisitor {
  static constexpr bool kPaths = false;
  F f;
  void leaf(auto& a) { f(a); }
  void fixed(const auto&) {}
  void size(std::size_t) {}
};
struct SignatureVisitor {
  static constexpr bool kPaths = false;
  Signature& out;
  void leaf(const Array&) {}
  void fixed(const auto& x) { push_static(out, x); }
  void size(std::size_t n) { out.push_back(n); }
};
template <class F>
struct PathVisitor {
  static constexpr bool kPaths = true;
  F f;
  std::string path;
  std::vector<std::size_t> ends;
  void push(const std::string& text) {
    ends.push_back(path.size());
    path += text;
  }
  void pop() {
    path.resize(ends.back());
    ends.pop_back();
  }
  void leaf(auto& a) { f(path, a); }
  void fixed(const auto&) {}
  void size(std::size_t) {}
};

}  // namespace internal

template <class T, class F>
void for_each_leaf(T& t, F&& f) {
  internal::LeafVisitor<F&> v{f};
  visit(t, v);
}
// f(path, leaf): path as JAX's keystr, ".blocks[2].qkv".
template <class T, class F>
void for_each_leaf_with_path(T& t, F&& f) {
  internal::PathVisitor<F&> v{f, {}, {}};
  visit(t, v);
}

template <class T>
std::vector<Array> leaves(const T& t) {
  std::vector<Array> out;
  for_each_leaf(t, [&](const Array& a) { out.push_back(a); });
  return out;
}
template <class T>
std::vector<std::pair<std::string, Array>> leaves_with_path(const T& t) {
  std::vector<std::pair<std::string, Array>> out;
  for_each_leaf_with_path(t, [&](const std::string& path, const Array& a) { out.emplace_back(path, a); });
  return out;
}
template <class T>
std::size_t num_leaves(const T& t) {
  std::size_t n = 0;
  for_each_leaf(t, [&](const Array&) { ++n; });
  return n;
}
// The dynamic part of the structure: sizes of containers and static values. Two trees of one type have the same
// structure if and only if these are equal.
template <class T>
void append_signature(const T& t, Signature& out) {
  internal::SignatureVisitor v{out};
  visit(t, v);
}
template <class T>
Signature signature(const T& t) {
  Signature out;
  append_signature(t, out);
  return out;
}

// The structure of a tree of type T: what is left when the leaves are taken out.
template <class T>
class TreeDef {
 public:
  explicit TreeDef(T skeleton) : skeleton_(std::move(skeleton)) {
    for_each_leaf(skeleton_, [&](Array& a) { a = Array(), ++count_; });
  }
  std::size_t num_leaves() const { return count_; }
  T unflatten(std::span<const Array> leaves) const {
    if (leaves.size() != count_)
      throw_error(ErrorCode::tree, "tree::unflatten", "the structure has {} leaves, {} were given", count_,
                  leaves.size());
    T out = skeleton_;
    std::size_t i = 0;
    for_each_leaf(out, [&](Array& a) { a = leaves[i++]; });
    return out;
  }
  bool operator==(const TreeDef& o) const { return signature(skeleton_) == signature(o.skeleton_); }

 private:
  T skeleton_;
  std::size_t count_ = 0;
};
template <class T>
TreeDef<T> structure(const T& t) {
  return TreeDef<T>(t);
}
template <class T>
std::pair<std::vector<Array>, TreeDef<T>> flatten(const T& t) {
  return {leaves(t), structure(t)};
}
template <class T>
T unflatten(const TreeDef<T>& def, std::span<const Array> leaves) {
  return def.unflatten(leaves);
}

// A tree whose leaves are not arrays (specs, flags, shapes): the leaves, in order, with the paths of the tree it was
// made from. Matched to other trees by structure.
template <class R>
struct Tree {
  std::vector<R> leaves;
  std::vector<std::string> paths;
};

namespace internal {

template <class R>
inline constexpr bool is_array_tuple = false;
template <class... A>
inline constexpr bool is_array_tuple<std::tuple<A...>> = (std::is_same_v<A, Array> && ...);
template <class A, class B>
inline constexpr bool is_array_tuple<std::pair<A, B>> = std::is_same_v<A, Array>&& std::is_same_v<B, Array>;

template <class T, class... Rest>
void check_same_structure(const T& t, const Rest&... rest) {
  [[maybe_unused]] auto want = signature(t);
  [[maybe_unused]] auto check = [&](const auto& r) {
    if (signature(r) != want || num_leaves(r) != num_leaves(t))
      throw_error(ErrorCode::tree, "tree::map",
                  "the trees differ in structure: {} leaves and {} leaves, or their static "
                  "fields or sizes differ",
                  num_leaves(t), num_leaves(r));
  };
  (check(rest), ...);
}

}  // namespace internal

// f on corresponding leaves. The result is a tree like the first; a tuple of trees if f returns a tuple of arrays; a
// Tree<R> if f returns anything else.
template <class F, class T, class... Rest>
auto map(F&& f, const T& t, const Rest&... rest) {
  internal::check_same_structure(t, rest...);
  std::vector<Array> first = leaves(t);
  std::array<std::vector<Array>, sizeof...(Rest)> others{leaves(rest)...};
  auto call = [&](std::size_t i) {
    return [&]<std::size_t... J>(std::index_sequence<J...>) { return f(first[i], others[J][i]...); }
    (std::index_sequence_for<Rest...>());
  };
  using R = std::remove_cvref_t<decltype(call(0))>;
  if constexpr (std::is_same_v<R, Array>) {
    T out = t;
    std::size_t i = 0;
    for_each_leaf(out, [&](Array& a) { a = call(i++); });
    return out;
  } else if constexpr (internal::is_array_tuple<R>) {
    return [&]<std::size_t... K>(std::index_sequence<K...>) {
      std::tuple<std::conditional_t<(K >= 0), T, T>...> out{((void)K, t)...};
      std::vector<R> results;
      for (std::size_t i = 0; i < first.size(); ++i) results.push_back(call(i));
      auto fill = [&]<std::size_t N>(std::integral_constant<std::size_t, N>) {
        std::size_t i = 0;
        for_each_leaf(std::get<N>(out), [&](Array& a) { a = std::get<N>(results[i++]); });
      };
      (fill(std::integral_constant<std::size_t, K>()), ...);
      return out;
    }
    (std::make_index_sequence<std::tuple_size_v<R>>());
  } else if constexpr (std::is_void_v<decltype(call(0))>) {
    for (std::size_t i = 0; i < first.size(); ++i) call(i);
  } else {
    Tree<R> out;
    std::size_t i = 0;
    for_each_leaf_with_path(t, [&](const std::string& path, const Array&) {
      out.leaves.push_back(call(i++));
      out.paths.push_back(path);
    });
    return out;
  }
}

}  // namespace tree
}  // namespace lockstep

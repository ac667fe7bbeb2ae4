// The parameters of an equation: any aggregate struct. Printing, hashing and equality come from reflection. Parameters
// without jaxprs are interned and immortal, so that equal means the same pointer; those with jaxprs are counted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "lockstep/core/dtype.h"
#include "lockstep/core/reflect.h"
#include "lockstep/core/scalar.h"
#include "lockstep/core/shape.h"
#include "lockstep/support/error.h"

namespace lockstep {

class Jaxpr;
class ClosedJaxpr;
class Printer;

struct None {  // prints as None
  bool operator==(const None&) const = default;
};
// A value that takes part in the program but is never printed, compared by identity (a user's rule, say).
template <class T>
struct Hidden {
  std::shared_ptr<T> value;
  bool operator==(const Hidden&) const = default;
};

// How a parameter's fields print, hash and compare; overloads below cover what primitives use. A parameter type of
// one's own gives print_param(Printer&, const T&) and hash_param(const T&) in its own namespace, and operator==.
void print_param(Printer& p, bool v);
void print_param(Printer& p, std::int64_t v);
void print_param(Printer& p, double v);
void print_param(Printer& p, std::string_view v);
void print_param(Printer& p, DType v);
void print_param(Printer& p, None);
void print_param(Printer& p, const Scalar& v);
void print_param(Printer& p, const Shape& v);        // "(1, 2)"
void print_param(Printer& p, const ClosedJaxpr& v);  // an indented jaxpr
void print_text(Printer& p, std::string_view text);  // as it is
inline void print_param(Printer& p, int v) { print_param(p, std::int64_t{v}); }
inline void print_param(Printer& p, const std::string& v) { print_param(p, std::string_view(v)); }
template <class A, class B>
void print_param(Printer& p, const std::pair<A, B>& v);
template <class T>
void print_param(Printer& p, const std::vector<T>& v);
template <class T>
void print_param(Printer& p, const std::optional<T>& v) {
  v ? print_param(p, *v) : print_param(p, None());
}
template <class A, class B>
void print_param(Printer& p, const std::pair<A, B>& v) {
  print_text(p, "("), print_param(p, v.first), print_text(p, ", "), print_param(p, v.second), print_text(p, ")");
}
template <class T>
void print_param(Printer& p, const std::vector<T>& v) {
  print_text(p, "(");
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (i) print_text(p, ", ");
    print_param(p, v[i]);
  }
  print_text(p, v.size() == 1 ? ",)" : ")");
}

inline std::size_t hash_combine(std::size_t a, std::size_t b) {
  return a ^ (b + 0x9e3779b97f4a7c15u + (a << 12) + (a >> 4));
}
inline std::size_t hash_param(bool v) { return v; }
inline std::size_t hash_param(int v) { return std::hash<int>()(v); }
inline std::size_t hash_param(std::int64_t v) { return std::hash<std::int64_t>()(v); }
inline std::size_t hash_param(double v) { return std::hash<double>()(v); }
inline std::size_t hash_param(const std::string& v) { return std::hash<std::string>()(v); }
inline std::size_t hash_param(None) { return 7; }
inline std::size_t hash_param(const Scalar& v) { return v.hash(); }
inline std::size_t hash_param(const Shape& v) {
  std::size_t h = v.size();
  for (auto d : v) h = hash_combine(h, static_cast<std::size_t>(d));
  return h;
}
std::size_t hash_param(const ClosedJaxpr& v);  // by identity
template <class A, class B>
std::size_t hash_param(const std::pair<A, B>& v);
template <class T>
std::size_t hash_param(const std::vector<T>& v);
template <class T>
requires std::is_enum_v<T> std::size_t hash_param(T v) { return static_cast<std::size_t>(v); }
template <class T>
std::size_t hash_param(const Hidden<T>& v) {
  return std::hash<const void*>()(v.value.get());
}
template <class T>
std::size_t hash_param(const std::optional<T>& v) {
  return v ? hash_combine(1, hash_param(*v)) : 0;
}
template <class A, class B>
std::size_t hash_param(const std::pair<A, B>& v) {
  return hash_combine(hash_param(v.first), hash_param(v.second));
}
template <class T>
std::size_t hash_param(const std::vector<T>& v) {
  std::size_t h = v.size();
  for (const auto& x : v) h = hash_combine(h, hash_param(x));
  return h;
}
inline bool operator==(const Scalar& a, const Scalar& b) { return a.same_bits(b); }

namespace internal {
template <class T>
inline constexpr bool is_hidden = false;
template <class T>
inline constexpr bool is_hidden<Hidden<T>> = true;
template <class T>
inline constexpr bool holds_jaxpr = std::is_same_v<T, ClosedJaxpr> || is_hidden<T>;
template <class T>
inline constexpr bool holds_jaxpr<std::vector<T>> = holds_jaxpr<T>;
template <class T>
inline constexpr bool holds_jaxpr<std::optional<T>> = holds_jaxpr<T>;
void collect_jaxprs(const ClosedJaxpr& j, std::vector<const ClosedJaxpr*>& out);
template <class T>
void collect_jaxprs(const T&, std::vector<const ClosedJaxpr*>&) {}
template <class T>
void collect_jaxprs(const std::vector<T>& v, std::vector<const ClosedJaxpr*>& out) {
  for (const auto& x : v) collect_jaxprs(x, out);
}
template <class T>
void collect_jaxprs(const std::optional<T>& v, std::vector<const ClosedJaxpr*>& out) {
  if (v) collect_jaxprs(*v, out);
}
}  // namespace internal

class Params {
 public:
  virtual ~Params() = default;
  virtual const std::type_info& type() const = 0;
  virtual std::size_t hash() const = 0;
  virtual bool equal(const Params& o) const = 0;
  // Calls print(name, print_value) for each printed field, sorted by name.
  virtual void print(Printer& p) const = 0;
  virtual void jaxprs(std::vector<const ClosedJaxpr*>& out) const = 0;
  bool interned() const { return interned_; }
  // That the same object will come again, so that programs made of it are worth keeping: for parameters with jaxprs,
  // which are made anew for every call otherwise.
  void keep() const { kept_ = true; }
  bool kept() const { return interned_ || kept_; }

  template <class P>
  const P& get() const;

  void ref() const {
    if (!interned_) refs_.fetch_add(1, std::memory_order_relaxed);
  }
  void unref() const {
    if (!interned_ && refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 protected:
  friend const Params* intern_params(std::unique_ptr<Params> p);
  mutable std::atomic<std::int32_t> refs_{0};
  mutable bool kept_ = false;
  bool interned_ = false;
};

// Takes ownership; returns the one instance equal to it.
const Params* intern_params(std::unique_ptr<Params> p);

class ParamsRef {
 public:
  ParamsRef() = default;
  ParamsRef(const Params* p) : p_(p) {
    if (p_) p_->ref();
  }
  ParamsRef(const ParamsRef& o) : ParamsRef(o.p_) {}
  ParamsRef(ParamsRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  ParamsRef& operator=(ParamsRef o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~ParamsRef() {
    if (p_) p_->unref();
  }
  const Params* get() const { return p_; }
  const Params* operator->() const { return p_; }
  explicit operator bool() const { return p_; }

 private:
  const Params* p_ = nullptr;
};

namespace internal {
void print_field(Printer& p, std::string_view name, const std::function<void()>& value);
void sort_and_print(Printer& p, std::vector<std::pair<std::string_view, std::function<void()>>> fields);
}  // namespace internal

template <class P>
class ParamsOf final : public Params {
 public:
  explicit ParamsOf(P v) : value(std::move(v)) {}
  const std::type_info& type() const override { return typeid(P); }
  std::size_t hash() const override {
    std::size_t h = typeid(P).hash_code();
    std::apply([&](const auto&... f) { ((h = hash_combine(h, hash_param(f))), ...); }, reflect::fields_of(value));
    return h;
  }
  bool equal(const Params& o) const override {
    return o.type() == typeid(P) &&
           reflect::fields_of(value) == reflect::fields_of(static_cast<const ParamsOf&>(o).value);
  }
  void print(Printer& p) const override {
    std::vector<std::pair<std::string_view, std::function<void()>>> fields;
    reflect::for_each_field(value, [&](std::string_view name, const auto& f) {
      if constexpr (!internal::is_hidden<std::remove_cvref_t<decltype(f)>>)
        fields.emplace_back(name, [&p, &f] { print_param(p, f); });
    });
    internal::sort_and_print(p, std::move(fields));
  }
  void jaxprs(std::vector<const ClosedJaxpr*>& out) const override {
    std::apply([&](const auto&... f) { (internal::collect_jaxprs(f, out), ...); }, reflect::fields_of(value));
  }
  static constexpr bool kCounted = [] {
    using Fields = decltype(reflect::fields_of(std::declval<const P&>()));
    return []<class... F>(std::type_identity<std::tuple<F...>>) {
      return (internal::holds_jaxpr<std::remove_cvref_t<F>> || ...);
    }(std::type_identity<Fields>());
  }();
  const P value;
};

template <class P>
const P& Params::get() const {
  LS_CHECK(type() == typeid(P), "parameters are of another type");
  return static_cast<const ParamsOf<P>*>(this)->value;
}
template <class P>
ParamsRef make_params(P value) {
  auto made = std::make_unique<ParamsOf<P>>(std::move(value));
  if constexpr (ParamsOf<P>::kCounted)
    return made.release();
  else
    return intern_params(std::move(made));
}

}  // namespace lockstep

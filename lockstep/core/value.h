// What an Array refers to, without knowing devices or traces: a reference-counted object that has an aval.
#pragma once

#include <atomic>
#include <utility>
#include <vector>

#include "lockstep/core/aval.h"
#include "lockstep/core/scalar.h"

namespace lockstep {

class Value {
 public:
  enum class Kind : std::uint8_t {
    scalar,    // a host number (ScalarValue): a literal when traced
    concrete,  // data on devices (runtime)
    tracer,    // stands for a value inside a trace (trace)
  };
  Value(Kind kind, AvalP aval) : aval_(aval), kind_(kind) {}
  virtual ~Value() = default;
  Value(const Value&) = delete;
  Value& operator=(const Value&) = delete;

  AvalP aval() const { return aval_; }
  Kind kind() const { return kind_; }
  void ref() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  void unref() const {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  std::int32_t ref_count() const { return refs_.load(std::memory_order_acquire); }

 protected:
  AvalP aval_;

 private:
  mutable std::atomic<std::int32_t> refs_{0};
  Kind kind_;
};

class ValueRef {
 public:
  ValueRef() = default;
  ValueRef(const Value* v) : v_(const_cast<Value*>(v)) {
    if (v_) v_->ref();
  }
  ValueRef(const ValueRef& o) : ValueRef(o.v_) {}
  ValueRef(ValueRef&& o) noexcept : v_(std::exchange(o.v_, nullptr)) {}
  ValueRef& operator=(ValueRef o) noexcept {
    std::swap(v_, o.v_);
    return *this;
  }
  ~ValueRef() {
    if (v_) v_->unref();
  }
  Value* get() const { return v_; }
  Value* operator->() const { return v_; }
  Value& operator*() const { return *v_; }
  explicit operator bool() const { return v_ != nullptr; }
  bool operator==(const ValueRef& o) const = default;

 private:
  Value* v_ = nullptr;
};

class ScalarValue final : public Value {
 public:
  ScalarValue(Scalar s, bool weak_type) : Value(Kind::scalar, make_aval({}, s.dtype(), weak_type)), scalar(s) {}
  const Scalar scalar;
};

}  // namespace lockstep

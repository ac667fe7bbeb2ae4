// The data of a concrete Array: this process's shards of one logical array, each a buffer on one device.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "lockstep/core/value.h"
#include "lockstep/pjrt/buffer.h"
#include "lockstep/support/error.h"

namespace lockstep {
class Sharding;  // sharding/sharding.h
}

namespace lockstep::runtime {

// A launch whose parts are issued by other threads, one for each local device; shared by the arrays it will fill.
class PendingLaunch {
 public:
  explicit PendingLaunch(int parts) : open_(parts) {}
  // One part has been issued and its shards are in place, or it has failed. The last call releases the waiters.
  void arrive(const Error* failure = nullptr);
  // Whether all parts have arrived.
  bool arrived() const { return open_.load(std::memory_order_acquire) == 0; }
  // Waits for all parts; throws the first failure. What a part waits for (its peers) has deadlines of its own.
  void wait() const;

 private:
  std::atomic<int> open_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Error> failure_;
};

// Immutable but for donation. Made and destroyed in some tens of ns besides what its buffers cost.
class ConcreteArray final : public Value {
 public:
  // On the default device.
  ConcreteArray(AvalP aval, pjrt::Buffer buffer)
      : Value(Kind::concrete, aval), count_(1), shards_(&first_), first_(std::move(buffer)) {}
  // `shards` are this process's, in the order of the sharding's local devices. `sharding` is interned; null is the
  // default device alone. The shards may be empty slots, to be filled through slot() before `pending` arrives.
  ConcreteArray(AvalP aval, const Sharding* sharding, std::span<pjrt::Buffer> shards,
                std::shared_ptr<PendingLaunch> pending = {});
  // A view of some shards of another array, under a sharding of its own; donated when either is. Never of a view.
  ConcreteArray(AvalP aval, const Sharding* sharding, ConcreteArray& parent, std::size_t first, std::size_t count)
      : Value(Kind::concrete, aval),
        count_(static_cast<std::uint32_t>(count)),
        sharding_(sharding),
        shards_(parent.shards_ + first),
        parent_(&parent) {}
  ~ConcreteArray() override {
    if (shards_ != &first_ && !parent_) delete[] shards_;
  }
  static void* operator new(std::size_t size);
  static void operator delete(void* memory, std::size_t size) noexcept;

  const Sharding* sharding() const { return sharding_; }
  std::size_t shard_count() const { return count_; }
  // Waits until the shards are issued (not until they are computed). Throws the launch's failure, and
  // Error(donated), which names the line that donated the array, on behalf of `operation`.
  std::span<const pjrt::Buffer> shards(const char* operation = "array") const {
    if (state_.load(std::memory_order_acquire) != 0 || pending_ || parent_) [[unlikely]]
      check_usable(operation);
    return {shards_, count_};
  }
  // The slot itself, without any wait or check: for launches, which order their accesses themselves.
  pjrt::Buffer& slot(std::size_t i) { return shards_[i]; }
  const std::shared_ptr<PendingLaunch>& pending() const { return parent() ? parent()->pending_ : pending_; }
  ConcreteArray* parent() const { return static_cast<ConcreteArray*>(parent_.get()); }  // null unless this is a view

  // From now on every use is an Error(donated) that names `where`. Throws it if the array has been donated before. The
  // buffers stay in their slots for the launch that takes them.
  void donate(LocationId where, const char* operation = "jit");
  bool is_donated() const { return state_.load(std::memory_order_acquire) != 0 || (parent_ && parent()->is_donated()); }
  void release_shards();  // after a donating launch: destroys the buffers

  // Waits until the data is there; a computation's failure comes out here (and again at every later call).
  void await(const char* operation = "block_until_ready") const;
  bool is_ready() const;  // done or failed

 private:
  void check_usable(const char* operation) const;

  std::uint32_t count_;
  std::atomic<std::uint32_t> state_{0};  // 0, or 1 + the line that donated it
  mutable std::atomic<bool> ready_{false};
  const Sharding* sharding_ = nullptr;
  pjrt::Buffer* shards_;  // &first_, or an array of its own
  pjrt::Buffer first_;
  std::shared_ptr<PendingLaunch> pending_;
  ValueRef parent_;
};

// The concrete array behind a value, or null.
inline ConcreteArray* as_concrete(Value* v) {
  return v != nullptr && v->kind() == Value::Kind::concrete ? static_cast<ConcreteArray*>(v) : nullptr;
}

}  // namespace lockstep::runtime

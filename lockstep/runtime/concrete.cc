#include "lockstep/runtime/concrete.h"

#include <new>

namespace lockstep::runtime {
namespace {

// Freed objects of one thread, for the next ones. Plain data, so that access costs nothing and stays legal while
// static arrays die; Janitor empties it when the thread ends.
struct FreeList {
  static constexpr int kMost = 256;
  struct Node {
    Node* next;
  };
  Node* head;
  int count;
  bool armed, closed;
};
thread_local FreeList free_list;

struct Janitor {
  ~Janitor() {
    free_list.closed = true;
    while (FreeList::Node* node = free_list.head) {
      free_list.head = node->next;
      ::operator delete(node);
    }
  }
};

}  // namespace

void PendingLaunch::arrive(const Error* failure) {
  std::lock_guard lock(mutex_);
  if (failure != nullptr && !failure_) failure_ = *failure;
  if (open_.fetch_sub(1, std::memory_order_acq_rel) == 1) changed_.notify_all();
}

void PendingLaunch::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return arrived(); });
  if (failure_) throw *failure_;
}

ConcreteArray::ConcreteArray(AvalP aval, const Sharding* sharding, std::span<pjrt::Buffer> shards,
                             std::shared_ptr<PendingLaunch> pending)
    : Value(Kind::concrete, aval),
      count_(static_cast<std::uint32_t>(shards.size())),
      sharding_(sharding),
      shards_(shards.size() == 1 ? &first_ : new pjrt::Buffer[shards.size()]),
      pending_(std::move(pending)) {
  for (std::size_t i = 0; i < count_; ++i) shards_[i] = std::move(shards[i]);
}

void* ConcreteArray::operator new(std::size_t size) {
  static_assert(sizeof(ConcreteArray) >= sizeof(FreeList::Node));
  if (FreeList::Node* node = free_list.head) {
    free_list.head = node->next;
    --free_list.count;
    return node;
  }
  return ::operator new(size);
}

void ConcreteArray::operator delete(void* memory, std::size_t) noexcept {
  if (free_list.count >= FreeList::kMost || free_list.closed) return ::operator delete(memory);
  if (!free_list.armed) {
    static thread_local Janitor janitor;
    (void)janitor;
    free_list.armed = true;
  }
  auto* node = static_cast<FreeList::Node*>(memory);
  node->next = free_list.head;
  free_list.head = node;
  ++free_list.count;
}

void ConcreteArray::check_usable(const char* operation) const {
  if (std::uint32_t state = state_.load(std::memory_order_acquire)) {
    std::string line = to_string(state - 1);
    throw_error(ErrorCode::donated, operation,
                "this array ({}) was donated to a computation{} and its memory is gone; use what that computation "
                "returned, or leave the argument out of donate_argnums",
                aval()->text, line.empty() ? "" : " at " + line);
  }
  if (pending_) pending_->wait();
  if (parent_) parent()->shards(operation);
}

void ConcreteArray::donate(LocationId where, const char* operation) {
  if (parent_) return parent()->donate(where, operation);
  std::uint32_t expected = 0;
  if (!state_.compare_exchange_strong(expected, where + 1, std::memory_order_acq_rel)) check_usable(operation);
}

void ConcreteArray::release_shards() {
  for (std::size_t i = 0; i < count_; ++i) shards_[i] = pjrt::Buffer();
}

void ConcreteArray::await(const char* operation) const {
  auto buffers = shards(operation);
  if (ready_.load(std::memory_order_acquire)) return;
  for (const pjrt::Buffer& b : buffers) b.ready().await(pjrt::Deadline::max());
  ready_.store(true, std::memory_order_release);
}

bool ConcreteArray::is_ready() const {
  if (ready_.load(std::memory_order_acquire)) return true;
  if (pending() && !pending()->arrived()) return false;
  for (const pjrt::Buffer& b : shards("is_ready"))
    if (!b.ready().is_ready()) return false;
  return true;
}

}  // namespace lockstep::runtime

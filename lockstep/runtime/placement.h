// Which part of an array laid out by a sharding is this process's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/runtime/concrete.h"
#include "lockstep/sharding/sharding.h"

namespace lockstep {

// Of one sharding; made once, immortal.
class Placement {
 public:
  struct Shard {
    std::int64_t partition;
    int device;  // its place among the local devices
  };
  // Error(sharding) for a device that does not exist. Makes the backend.
  static const Placement& of(const Sharding& s);

  std::span<const Shard> local() const { return local_; }  // in partition order, as in a ConcreteArray
  bool is_fully_addressable() const { return fully_addressable_; }
  std::span<const int> processes() const { return processes_; }  // whose devices take part, sorted

 private:
  explicit Placement(const Sharding& s);
  std::vector<Shard> local_;
  std::vector<int> processes_;
  bool fully_addressable_ = false;
};

namespace runtime {

// A concrete array's sharding; that of the default device if it states none.
const Sharding& sharding_of(const ConcreteArray& a);
// What a ConcreteArray holds for a sharding: null for the default device alone.
const Sharding* stored_sharding(const Sharding& s);
bool is_fully_addressable(const ConcreteArray& a);

}  // namespace runtime
}  // namespace lockstep

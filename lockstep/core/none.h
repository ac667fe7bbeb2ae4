// JAX's None: an unmapped axis, an unsharded dimension, an empty tree, no xs.
#pragma once

namespace lockstep {

#ifndef LOCKSTEP_NONE_DEFINED
#define LOCKSTEP_NONE_DEFINED
struct none_t {
  bool operator==(const none_t&) const = default;
};
inline constexpr none_t none{};
#endif

}  // namespace lockstep

// JAX's None: an unmapped axis, an unsharded dimension, an empty tree, no xs.
#pragma once

namespace lockstep {

struct none_t {
  bool operator==(const none_t&) const = default;
};
inline constexpr none_t none{};

}  // namespace lockstep

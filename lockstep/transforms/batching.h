// vmap on flat functions and on jaxprs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lockstep/transforms/autodiff.h"

namespace lockstep {

// f mapped over an axis of `size`: in_dims[i] is the axis of argument i or kNotMapped. Results come with their axis.
BatchOut batch_flat(const FlatFunction& f, std::span<const Array> args, std::span<const int> in_dims, std::int64_t size,
                    std::string axis_name, std::string what);

// The jaxpr with a leading axis of `size` on the inputs for which `mapped` is set; results for which `force_out` is set
// have it always, the others where they vary.
struct BatchedJaxpr : Transformed {
  std::vector<bool> mapped_out;
};
BatchedJaxpr batch_jaxpr(const ClosedJaxpr& j, const std::vector<bool>& mapped, const std::vector<bool>& force_out,
                         std::int64_t size, const std::string& axis_name);

// The arguments with their mapped axis moved to the front; unmapped ones stay as they are, or are broadcast if `force`.
Arrays bdims_at_front(const BatchIn& in, const std::vector<bool>& force = {});
std::vector<bool> mapped(const BatchIn& in);
std::vector<int> dims_of(const std::vector<bool>& mapped);  // 0 or kNotMapped

}  // namespace lockstep

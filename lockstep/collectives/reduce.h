// Elementwise reductions of host buffers, in every element type of XLA.
//
// Integers wrap. bool_: add and maximum are `or`, multiply and minimum are `and`. Maximum and minimum of floats give
// NaN if either is NaN. float16 and bfloat16 are computed in float32 and rounded after every step. Complex numbers add
// and multiply only; the bitwise ones are for bool_ and integers.
#pragma once

#include <cstddef>

#include "lockstep/collectives/engine.h"
#include "lockstep/core/dtype.h"

namespace lockstep::collectives {

// to[i] = a[i] op b[i] for `count` elements; `to` may be `a`. Buffers may be unaligned for no type.
using Combine = void (*)(void* to, const void* a, const void* b, std::size_t count);

// Null if the operation has no meaning for the type.
Combine combine_function(DType dtype, Reduction reduction);

}  // namespace lockstep::collectives

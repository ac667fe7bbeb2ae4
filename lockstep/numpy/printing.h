// Arrays as text, exactly as NumPy prints them.
#pragma once

#include <cstddef>
#include <string>

#include "lockstep/trace/array.h"

namespace lockstep::numpy {

// str(np.asarray(x)): what `std::cout << x` prints. Waits for the data. More than 1000 elements are summarised. A
// traced array prints as its type and its trace, one that is not all in this process as its type.
std::string array_str(const Array& x);
// JAX's repr(x): "Array([1., 2.], dtype=float32)".
std::string array_repr(const Array& x);

// The same of row-major host data.
std::string format_array(DType dtype, const Shape& shape, const std::byte* data, const std::string& separator = " ",
                         const std::string& prefix = "", const std::string& suffix = "");

}  // namespace lockstep::numpy

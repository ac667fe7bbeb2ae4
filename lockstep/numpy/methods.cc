// Array's methods that are functions of NumPy.
#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/math.h"
#include "lockstep/support/error.h"
#include "lockstep/trace/array.h"

namespace lockstep {

Array Array::astype(DType dtype, std::source_location where) const {
  LocationScope scope(where);
  if ((this->dtype() == DType::key) != (dtype == DType::key))
    throw_error(ErrorCode::dtype, "astype", "{} does not convert to {}; see random::key_data", aval()->text,
                name(dtype));
  return convert(*this, canonicalize(dtype));
}

}  // namespace lockstep

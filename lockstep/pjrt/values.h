// Private to the room: named values and element types, to and from their C forms.
#pragma once

#include <span>
#include <vector>

#include "lockstep/core/dtype.h"
#include "lockstep/pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace lockstep::pjrt {

NamedValues from_c(std::span<const PJRT_NamedValue> values);
// The result points into `values`, which must outlive it.
std::vector<PJRT_NamedValue> to_c(const NamedValues& values);

// Errors of code `dtype`, under `operation`, for types the other side does not have. Keys are 64-bit words there.
PJRT_Buffer_Type to_c(DType dtype, const char* operation);
DType from_c(PJRT_Buffer_Type type, const char* operation);

}  // namespace lockstep::pjrt

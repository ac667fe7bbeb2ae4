// Element types under NumPy's names: np::zeros({3}, np::float32).
#pragma once

#include "lockstep/core/dtype.h"

namespace lockstep::numpy {

inline constexpr DType bool_ = DType::bool_, int8 = DType::int8, int16 = DType::int16, int32 = DType::int32,
                       int64 = DType::int64, uint8 = DType::uint8, uint16 = DType::uint16, uint32 = DType::uint32,
                       uint64 = DType::uint64, float16 = DType::float16, bfloat16 = DType::bfloat16,
                       float32 = DType::float32, float64 = DType::float64, complex64 = DType::complex64,
                       complex128 = DType::complex128;

}  // namespace lockstep::numpy

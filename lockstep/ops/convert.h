// Changes of element type, and of precision.
#pragma once

#include "lockstep/core/params.h"
#include "lockstep/core/primitive.h"
#include "lockstep/trace/array.h"

namespace lockstep {

extern const Primitive convert_element_type_p, bitcast_convert_type_p, reduce_precision_p;

struct ConvertElementTypeParams {
  DType new_dtype;
  bool weak_type;
};

namespace lax {

// Values converted as C++ would: floats to integers towards zero (saturating), to bool by being nonzero; complex to
// real drops the imaginary part. With 64-bit types off, those are taken as their 32-bit counterparts. The operand
// itself if it has the dtype and is not weakly typed.
Array convert_element_type(const Operand& operand, DType new_dtype);
// The bits read as another type. A smaller type adds a last dimension, a larger one takes it away. No bool or complex.
Array bitcast_convert_type(const Operand& operand, DType new_dtype);
// Rounded to a float format with so many bits, and back.
Array reduce_precision(const Operand& operand, int exponent_bits, int mantissa_bits);

}  // namespace lax
}  // namespace lockstep

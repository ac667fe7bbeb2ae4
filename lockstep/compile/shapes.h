// Private to the room: shapes in HLO protos.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/compile/hlo.pb.h"
#include "lockstep/pjrt/executable.h"

namespace lockstep::compile {

inline constexpr std::int32_t kTuple = 13, kF32 = 11, kU32 = 8, kPred = 1;  // PrimitiveType

// The arrays in a shape: itself, or a tuple's elements, nested ones in order.
std::vector<const hlo::Shape*> leaves(const hlo::Shape& shape);
// Errors of code `compile` that name `what` for element types lockstep does not have.
pjrt::TensorType tensor_type(const hlo::Shape& leaf, const std::string& what);
double element_bytes(std::int32_t element_type);  // 0 for tokens and what lockstep does not have
std::int64_t byte_size(const pjrt::TensorType& type);
std::string to_string(const hlo::Shape& leaf);  // "f32[2,3]{1,0}"

bool is_row_major(const hlo::Shape& leaf);
bool same_layout(const hlo::Shape& a, const hlo::Shape& b);
// The product of the dimensions that are physically before, outside of, `dimension`.
std::int64_t physical_outer(const hlo::Shape& leaf, std::int64_t dimension);

hlo::Shape row_major(std::int32_t element_type, const std::vector<std::int64_t>& dims);

}  // namespace lockstep::compile

#include "lockstep/pjrt/values.h"

#include <type_traits>

#include "lockstep/pjrt/api.h"

namespace lockstep::pjrt {
namespace {

struct Pair {
  DType ours;
  PJRT_Buffer_Type theirs;
};
constexpr Pair kPairs[] = {
    {DType::bool_, PJRT_Buffer_Type_PRED},      {DType::int8, PJRT_Buffer_Type_S8},
    {DType::int16, PJRT_Buffer_Type_S16},       {DType::int32, PJRT_Buffer_Type_S32},
    {DType::int64, PJRT_Buffer_Type_S64},       {DType::uint8, PJRT_Buffer_Type_U8},
    {DType::uint16, PJRT_Buffer_Type_U16},      {DType::uint32, PJRT_Buffer_Type_U32},
    {DType::uint64, PJRT_Buffer_Type_U64},      {DType::float16, PJRT_Buffer_Type_F16},
    {DType::bfloat16, PJRT_Buffer_Type_BF16},   {DType::float32, PJRT_Buffer_Type_F32},
    {DType::float64, PJRT_Buffer_Type_F64},     {DType::complex64, PJRT_Buffer_Type_C64},
    {DType::complex128, PJRT_Buffer_Type_C128},
};

NamedValue from_c(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString:
      return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64:
      return value.int64_value;
    case PJRT_NamedValue_kInt64List:
      return std::vector<std::int64_t>(value.int64_array_value, value.int64_array_value + value.value_size);
    case PJRT_NamedValue_kFloat:
      return value.float_value;
    case PJRT_NamedValue_kBool:
      return value.bool_value;
  }
  throw_error(ErrorCode::plugin, "PJRT_NamedValue", "the value {} has an unknown type, {}",
              std::string_view(value.name, value.name_size), static_cast<int>(value.type));
}

}  // namespace

NamedValues from_c(std::span<const PJRT_NamedValue> values) {
  NamedValues out;
  // Newer plugins have longer structs: step by the size they give.
  auto* at = reinterpret_cast<const char*>(values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto& value = *reinterpret_cast<const PJRT_NamedValue*>(at);
    out.emplace(std::string(value.name, value.name_size), from_c(value));
    at += value.struct_size > sizeof value ? value.struct_size : sizeof value;
  }
  return out;
}

std::vector<PJRT_NamedValue> to_c(const NamedValues& values) {
  std::vector<PJRT_NamedValue> out;
  for (const auto& [name, value] : values) {
    PJRT_NamedValue& c = out.emplace_back();
    std::memset(&c, 0, sizeof c);
    c.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    c.name = name.data();
    c.name_size = name.size();
    c.value_size = 1;
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::string>) {
            c.type = PJRT_NamedValue_kString;
            c.string_value = v.data();
            c.value_size = v.size();
          } else if constexpr (std::is_same_v<T, std::int64_t>) {
            c.type = PJRT_NamedValue_kInt64;
            c.int64_value = v;
          } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            c.type = PJRT_NamedValue_kInt64List;
            c.int64_array_value = v.data();
            c.value_size = v.size();
          } else if constexpr (std::is_same_v<T, float>) {
            c.type = PJRT_NamedValue_kFloat;
            c.float_value = v;
          } else {
            c.type = PJRT_NamedValue_kBool;
            c.bool_value = v;
          }
        },
        value);
  }
  return out;
}

PJRT_Buffer_Type to_c(DType dtype, const char* operation) {
  if (dtype == DType::key) dtype = DType::uint64;
  for (const Pair& p : kPairs)
    if (p.ours == dtype) return p.theirs;
  throw_error(ErrorCode::dtype, operation, "elements of type {} have no counterpart in PJRT", name(dtype));
}

DType from_c(PJRT_Buffer_Type type, const char* operation) {
  for (const Pair& p : kPairs)
    if (p.theirs == type) return p.ours;
  throw_error(ErrorCode::dtype, operation, "PJRT element type {} is not supported", static_cast<int>(type));
}

}  // namespace lockstep::pjrt

#include "lockstep/compile/shapes.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/support/error.h"

namespace lockstep::compile {
namespace {

struct Type {
  std::int32_t primitive;
  DType dtype;
};
constexpr Type kTypes[] = {
    {1, DType::bool_},     {2, DType::int8},     {3, DType::int16},    {4, DType::int32},      {5, DType::int64},
    {6, DType::uint8},     {7, DType::uint16},   {8, DType::uint32},   {9, DType::uint64},     {10, DType::float16},
    {16, DType::bfloat16}, {11, DType::float32}, {12, DType::float64}, {15, DType::complex64}, {18, DType::complex128},
};

const Type* find_type(std::int32_t primitive) {
  auto it = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& t) { return t.primitive == primitive; });
  return it == std::end(kTypes) ? nullptr : it;
}

}  // namespace

std::vector<const hlo::Shape*> leaves(const hlo::Shape& shape) {
  if (shape.element_type() != kTuple) return {&shape};
  std::vector<const hlo::Shape*> out;
  for (const auto& element : shape.tuple_shapes())
    for (const hlo::Shape* leaf : leaves(element)) out.push_back(leaf);
  return out;
}

pjrt::TensorType tensor_type(const hlo::Shape& leaf, const std::string& what) {
  const Type* type = find_type(leaf.element_type());
  if (type == nullptr)
    throw_error(ErrorCode::compile, "partition", "{} has elements of XLA type {}, which lockstep does not have", what,
                leaf.element_type());
  return {type->dtype, {leaf.dimensions().begin(), leaf.dimensions().end()}};
}

double element_bytes(std::int32_t element_type) {
  const Type* type = find_type(element_type);
  return type == nullptr ? 0 : static_cast<double>(itemsize(type->dtype));
}

std::int64_t byte_size(const pjrt::TensorType& type) {
  auto bytes = static_cast<std::int64_t>(itemsize(type.dtype));
  for (std::int64_t d : type.dims) bytes *= d;
  return bytes;
}

std::string to_string(const hlo::Shape& leaf) {
  const Type* type = find_type(leaf.element_type());
  return fmt::format("{}[{}]{{{}}}", type == nullptr ? "?" : short_name(type->dtype), fmt::join(leaf.dimensions(), ","),
                     fmt::join(leaf.layout().minor_to_major(), ","));
}

bool is_row_major(const hlo::Shape& leaf) {
  const auto& order = leaf.layout().minor_to_major();
  for (int i = 0; i < order.size(); ++i)
    if (order[i] != leaf.dimensions_size() - 1 - i) return false;
  return true;
}

bool same_layout(const hlo::Shape& a, const hlo::Shape& b) {
  const auto &x = a.layout().minor_to_major(), &y = b.layout().minor_to_major();
  return std::equal(x.begin(), x.end(), y.begin(), y.end());
}

std::int64_t physical_outer(const hlo::Shape& leaf, std::int64_t dimension) {
  std::int64_t outer = 1;
  const auto& order = leaf.layout().minor_to_major();
  for (auto d = order.rbegin(); d != order.rend() && *d != dimension; ++d) outer *= leaf.dimensions(*d);
  return outer;
}

hlo::Shape row_major(std::int32_t element_type, const std::vector<std::int64_t>& dims) {
  hlo::Shape shape;
  shape.set_element_type(element_type);
  for (std::int64_t d : dims) shape.add_dimensions(d);
  shape.mutable_layout();
  for (std::size_t i = dims.size(); i-- > 0;) shape.mutable_layout()->add_minor_to_major(static_cast<std::int64_t>(i));
  return shape;
}

}  // namespace lockstep::compile

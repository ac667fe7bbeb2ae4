// What is known of a value without its data. Avals are interned and immortal: equal means the same pointer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/core/dtype.h"
#include "lockstep/core/shape.h"

namespace lockstep {

enum class MemoryKind : std::uint8_t { device, pinned_host, unpinned_host };

struct Aval {
  Shape shape;
  DType dtype = DType::float32;
  bool weak_type = false;
  MemoryKind memory = MemoryKind::device;
  // For explicit axes: the mesh axes that each dimension is split over; empty where the compiler decides.
  std::vector<std::vector<std::string>> sharding;
  // Manual mesh axes over which the value differs between devices, sorted (JAX's vma).
  std::vector<std::string> varying;

  int rank() const { return shape.rank(); }
  std::int64_t size() const { return shape.elements(); }
  bool operator==(const Aval&) const = default;
};

// An interned aval, with its texts.
struct InternedAval : Aval {
  std::uint32_t id = 0;
  std::string text;  // "f32[3,4]", as jaxprs print it; "f32[3,4]{weak_type}" is not shown, as in JAX
  std::string mlir;  // "tensor<3x4xf32>"
  std::size_t bytes() const { return static_cast<std::size_t>(size()) * itemsize(dtype); }
  WeakDType weak_dtype() const { return {dtype, weak_type}; }
};
using AvalP = const InternedAval*;

AvalP intern(Aval aval);
AvalP make_aval(Shape shape, DType dtype, bool weak_type = false);
// The same aval but for one thing.
AvalP with_shape(AvalP a, Shape shape);
AvalP with_dtype(AvalP a, DType dtype, bool weak_type = false);
AvalP strong(AvalP a);  // weak_type = false
AvalP tangent_aval(AvalP a);
std::string mlir_type(const Shape& shape, DType dtype);

using AvalList = SmallVector<AvalP, 4>;
std::string to_string(std::span<const AvalP> avals);  // "f32[3], f32[4]"

}  // namespace lockstep

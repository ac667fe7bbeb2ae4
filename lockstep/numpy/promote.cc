#include "lockstep/numpy/promote.h"

#include <algorithm>

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/support/error.h"

namespace lockstep::numpy {

Arrays promote_dtypes(std::string_view operation, std::span<const Array> arrays) {
  Arrays out(arrays.begin(), arrays.end());
  if (arrays.size() < 2) return out;
  WeakDType target = arrays[0].aval()->weak_dtype();
  for (const Array& a : arrays.subspan(1)) target = promote_types(operation, target, a.aval()->weak_dtype());
  for (Array& a : out) a = convert(a, target.dtype, target.weak);
  return out;
}
std::pair<Array, Array> promote_dtypes(std::string_view operation, const Array& a, const Array& b) {
  WeakDType target = promote_types(operation, a.aval()->weak_dtype(), b.aval()->weak_dtype());
  return {convert(a, target.dtype, target.weak), convert(b, target.dtype, target.weak)};
}

Shape broadcast_shapes(std::string_view operation, std::span<const Shape> shapes) {
  Shape out;
  for (const Shape& s : shapes) {
    while (out.rank() < s.rank()) out = out.with(0, 1);
    for (int i = 0; i < s.rank(); ++i) {
      std::int64_t& d = out[static_cast<std::size_t>(out.rank() - s.rank() + i)];
      if (d == 1) {
        d = s[i];
      } else if (s[i] != 1 && s[i] != d) {
        std::string text;
        for (const Shape& each : shapes) text += (text.empty() ? "" : ", ") + to_string(each);
        throw_error(ErrorCode::shape, std::string(operation),
                    "shapes {} do not broadcast: counted from the last, dimensions must be equal or 1", text);
      }
    }
  }
  return out;
}
Arrays broadcast_all(std::string_view operation, std::span<const Array> arrays) {
  Arrays out(arrays.begin(), arrays.end());
  std::vector<Shape> shapes;
  for (const Array& a : arrays) shapes.push_back(a.shape());
  Shape shape = broadcast_shapes(operation, shapes);
  for (Array& a : out) a = broadcast_to(a, shape);
  return out;
}

}  // namespace lockstep::numpy

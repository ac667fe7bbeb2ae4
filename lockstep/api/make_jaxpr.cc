#include "lockstep/api/make_jaxpr.h"

#include <ostream>

#include "lockstep/runtime/concrete.h"

namespace lockstep {
std::ostream& operator<<(std::ostream& out, const ClosedJaxpr& j) { return out << to_string(j); }
// An array without data; only ever traced.
Array internal::placeholder(const ShapeDtypeStruct& s) {
  return Array(ValueRef(new runtime::ConcreteArray(make_aval(s.shape, canonicalize(s.dtype)), pjrt::Buffer())));
}

}  // namespace lockstep

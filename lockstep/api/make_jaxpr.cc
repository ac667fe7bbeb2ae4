#include "lockstep/api/make_jaxpr.h"

#include <ostream>

namespace lockstep {
namespace {

// Has an aval and no data; only ever traced.
class Placeholder final : public Value {
 public:
  explicit Placeholder(AvalP aval) : Value(Kind::concrete, aval) {}
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const ClosedJaxpr& j) { return out << to_string(j); }
Array internal::placeholder(const ShapeDtypeStruct& s) {
  return Array(ValueRef(new Placeholder(make_aval(s.shape, canonicalize(s.dtype)))));
}

}  // namespace lockstep

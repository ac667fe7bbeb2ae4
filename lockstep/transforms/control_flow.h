// cond, while and scan: primitives whose parameters are jaxprs.
#pragma once

#include <string>
#include <vector>

#include "lockstep/transforms/autodiff.h"

namespace lockstep {

extern const Primitive cond_p, while_p, scan_p;

struct CondParams {
  std::vector<ClosedJaxpr> branches;
};
struct WhileParams {
  ClosedJaxpr body_jaxpr;
  int body_nconsts;
  ClosedJaxpr cond_jaxpr;
  int cond_nconsts;
};
struct ScanParams {
  ClosedJaxpr jaxpr;  // (consts, carry, x) -> (carry, y)
  std::int64_t length;
  int num_carry, num_consts;
  bool reverse;
  std::int64_t unroll;
};

// The branch number `index` (a scalar int32, clamped to the branches) applied to the operands.
Arrays bind_cond(const Array& index, std::vector<FlatFunction> branches, std::span<const Array> operands,
                 const std::string& operation);
// `carry` leaves are promoted to strong types where the body returns strong ones, as in JAX.
Arrays bind_while(const FlatFunction& cond, const FlatFunction& body, std::span<const Array> init,
                  std::span<const std::string> names);
struct ScanOut {
  Arrays carry, ys;
};
ScanOut bind_scan(const FlatFunction& body, std::span<const Array> init, std::span<const Array> xs, std::int64_t length,
                  bool reverse, std::int64_t unroll, std::span<const std::string> names);

}  // namespace lockstep

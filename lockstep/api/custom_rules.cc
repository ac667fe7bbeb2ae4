#include "lockstep/api/custom_rules.h"

#include "lockstep/support/error.h"

namespace lockstep::internal {

void check_rule_result(const std::string& operation, const JvpOut& out) {
  if (out.primals.size() != out.tangents.size())
    throw_error(ErrorCode::tree, operation, "the rule returned {} results and {} tangents", out.primals.size(),
                out.tangents.size());
  for (std::size_t i = 0; i < out.primals.size(); ++i)
    if (out.tangents[i].has_value() && out.primals[i].shape() != out.tangents[i].shape())
      throw_error(ErrorCode::shape, operation, "result {} of the rule is {}, its tangent {}", i,
                  out.primals[i].aval()->text, out.tangents[i].aval()->text);
}

}  // namespace lockstep::internal

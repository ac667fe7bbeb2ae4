#include "lockstep/numpy/jitted.h"

#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/select.h"
#include "lockstep/support/config.h"
#include "lockstep/transforms/named_call.h"

namespace lockstep::numpy {

Arrays jitted_many(const std::string& name, const std::string& key, std::span<const Array> args,
                   const JittedBody& body) {
  if (config::disable_jit()) return body(args);
  return named_call(name.c_str(), {key.begin(), key.end()}, args, body);
}
Array jitted(const std::string& name, const std::string& key, std::initializer_list<Array> args,
             const std::function<Array(std::span<const Array>)>& body) {
  return jitted_many(name, key, std::span(args.begin(), args.size()),
                     [&](std::span<const Array> in) { return Arrays{body(in)}; })[0];
}

Array select_where(const Array& condition, const Array& x, const Array& y) {
  return jitted("_where", "", {condition, x, y}, [](std::span<const Array> in) {
    Array pred = is_bool(in[0].dtype()) ? in[0] : lax::ne(in[0], scalar_like(in[0], 0.0));
    auto [a, b] = promote_dtypes("where", in[1], in[2]);
    Shape shape = broadcast_shapes("where", {a.shape(), b.shape()});
    if (pred.ndim() != 0) {
      shape = broadcast_shapes("where", {pred.shape(), shape});
      pred = broadcast_operand(pred, shape);
    }
    Array on_true = broadcast_operand(a, shape);
    return lax::select(pred, on_true, broadcast_operand(b, shape));
  });
}

}  // namespace lockstep::numpy

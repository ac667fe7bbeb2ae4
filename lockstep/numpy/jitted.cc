#include "lockstep/numpy/jitted.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "lockstep/api/jit_core.h"
#include "lockstep/core/basic_ops.h"
#include "lockstep/numpy/operands.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/structural.h"
#include "lockstep/support/config.h"
#include "lockstep/trace/trace.h"

namespace lockstep::numpy {
namespace {

internal::JitCore& core_for(const std::string& name, const std::string& key) {
  static auto* mutex = new std::mutex;
  static auto* cores = new std::unordered_map<std::string, std::unique_ptr<internal::JitCore>>;
  std::lock_guard lock(*mutex);
  auto& core = (*cores)[name + '\n' + key];
  if (!core) {
    internal::JitSettings settings;
    settings.name = name;
    core = std::make_unique<internal::JitCore>(std::move(settings));
  }
  return *core;
}

}  // namespace

Arrays jitted_many(const std::string& name, const std::string& key, std::span<const Array> args,
                   const JittedBody& body) {
  if (config::disable_jit()) return body(args);
  internal::JitCall call;
  for (const Array& a : args) call.leaves.push_back(a.value());
  Arrays outs;
  core_for(name, key).call(
      call,
      [&](std::span<const AvalP> avals) {
        internal::JitTrace trace;
        trace.jaxpr = trace_to_jaxpr([&](std::span<const Array> in) { return body(in); }, avals, name);
        trace.skeleton = std::make_shared<const int>(0);
        return trace;
      },
      [&] { return std::vector<bool>(args.size(), false); }, outs);
  return outs;
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
    return lax::select(pred, broadcast_operand(a, shape), broadcast_operand(b, shape));
  });
}

}  // namespace lockstep::numpy

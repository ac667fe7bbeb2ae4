// Library functions that appear as one jit equation, as JAX's own jitted helpers do (_uniform, _normal).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "lockstep/trace/trace.h"

namespace lockstep {

// f(args) as a jit equation called `name`. f must depend on nothing but its arguments and `statics`, which identify it
// together with the name: it is traced once for each combination.
Arrays named_call(const char* name, const std::vector<std::int64_t>& statics, std::span<const Array> args,
                  const FlatFunction& f);
inline Array named_call_one(const char* name, const std::vector<std::int64_t>& statics,
                            std::initializer_list<Array> args, const std::function<Array(std::span<const Array>)>& f) {
  return named_call(name, statics, std::span<const Array>(args.begin(), args.size()),
                    [&](std::span<const Array> a) { return Arrays{f(a)}; })[0];
}

}  // namespace lockstep

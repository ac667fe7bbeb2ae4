// The XlaTransform hook: sees, and may replace, the module of a compile after partitioning and optimisation, before
// scheduling. The plugin knows one hook per process; ours hands each compile to the request of the thread that asked
// for it, so several threads may compile at once, with and without requests.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "lockstep/pjrt/plugin.h"

namespace lockstep::pjrt {

struct TransformOutcome {
  enum class Kind { keep, replace, stop };
  static TransformOutcome keep() { return {Kind::keep, {}}; }
  static TransformOutcome replace(std::string module) { return {Kind::replace, std::move(module)}; }
  // Ends the compile, before code generation, with an error of code `compile`.
  static TransformOutcome stop() { return {Kind::stop, {}}; }

  Kind kind;
  std::string module;
};

// Gets a serialised HloModuleProto. May throw: the compile then fails, and with_transform rethrows what was thrown.
using Transform = std::function<TransformOutcome(std::string_view module)>;

bool has_transform_hook(const Plugin& plugin);

// Runs `body`; compiles that it makes on this thread with `plugin` pass through `transform`. Errors of code `plugin` if
// the plugin has no hook. Requests may nest; the innermost counts.
void with_transform(const Plugin& plugin, const Transform& transform, const std::function<void()>& body);

}  // namespace lockstep::pjrt

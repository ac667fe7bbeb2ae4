// jax.experimental.multihost_utils: what programs do with values that each process has its own of. Every process calls
// the same function with trees of the same structure, shapes and types; one process behaves like many.
#pragma once

#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "lockstep/api/tree.h"
#include "lockstep/support/options.h"

namespace lockstep::multihost_utils {

// Waits until every process has called it with this name. Error(diverged) if they name different things, Error(timeout)
// after LOCKSTEP_COLLECTIVE_TIMEOUT, naming who has not come and what it is doing.
void sync_global_devices(const std::string& name, std::source_location where = std::source_location::current());

namespace internal {
Arrays broadcast(const Arrays& leaves, std::optional<bool> is_source);
Arrays allgather(const Arrays& leaves, bool tiled);
void require_equal(const std::vector<std::pair<std::string, Array>>& leaves, const std::string& fail_message);
}  // namespace internal

// The source's values on every process, as arrays on its own device. Exactly one process is the source: process 0
// unless said otherwise.
template <class T>
T broadcast_one_to_all(T t, std::optional<bool> is_source = std::nullopt,
                       std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  Arrays out = internal::broadcast(tree::leaves(t), is_source);
  std::size_t i = 0;
  tree::for_each_leaf(t, [&](Array& a) { a = out[i++]; });
  return t;
}

struct AllgatherOptions {
  OptionsTag tag{};
  bool tiled = false;  // joined along the first axis; else along a new one
};
// Every process's values on every process, in the order of the processes. An array that spans processes is made whole
// (with `tiled` only, as in JAX).
template <class T>
T process_allgather(T t, const AllgatherOptions& options = {},
                    std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  Arrays out = internal::allgather(tree::leaves(t), options.tiled);
  std::size_t i = 0;
  tree::for_each_leaf(t, [&](Array& a) { a = out[i++]; });
  return t;
}

// Error(diverged) on every process unless all have the same values, types and shapes: who differs from whom, and the
// first leaf that differs. Of an array that spans processes only type and layout are compared. Nothing is moved but
// digests.
template <class T>
void assert_equal(const T& t, const std::string& fail_message = "",
                  std::source_location where = std::source_location::current()) {
  LocationScope scope(where);
  internal::require_equal(tree::leaves_with_path(t), fail_message);
}

// Whether this is the step at which all processes save because one of them is about to be taken away: it got SIGTERM,
// or called distributed::notify_preemption(). Every process calls it at every step with the step's number; the answer
// is yes once, at the same step everywhere. The first call takes over SIGTERM (InitializeOptions::preemption_signal),
// which then does not end the process any more. Error(timeout) if a process does not call it.
bool reached_preemption_sync_point(std::int64_t step, std::source_location where = std::source_location::current());

}  // namespace lockstep::multihost_utils

// Execute there: a partitioned program becomes an executable of the client that has this process's devices only. It is
// launched for one partition at a time, on any device, with a context that says which (runtime/collective_handler.h).
#pragma once

#include "lockstep/compile/options.h"
#include "lockstep/compile/partition.h"
#include "lockstep/compile/rewrite.h"
#include "lockstep/pjrt/client.h"

namespace lockstep::compile {

// The executable is portable, and so are its serialised bytes: the same for every partition and process.
// `runtime::register_collective_handlers` must have been called. Errors of code `compile`.
pjrt::LoadedExecutable inject(const pjrt::Client& local, const PartitionedProgram& program,
                              const OptionOverrides& overrides, Route route);
pjrt::LoadedExecutable inject(const pjrt::Client& local, const PartitionedProgram& program,
                              const OptionOverrides& overrides = {});

}  // namespace lockstep::compile

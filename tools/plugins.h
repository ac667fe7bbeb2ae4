// `lockstep plugins`: which PJRT plugins there are and what each can do, or why it can't be used.
#pragma once

namespace lockstep::tools {

// Every place that is looked at (pjrt/discovery.h) is tried as a program of one process would: loaded and given a
// client, each in a process of its own, so that one that crashes or hangs is a line like any other. Prints to standard
// output. 0 if a program started with this environment would find a plugin to use, else 1.
int list_plugins();

}  // namespace lockstep::tools

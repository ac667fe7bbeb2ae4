// One process is about to be taken away: all agree on the step at which they save.
//
// The signal only sets a flag. The process's next reached_preemption_sync_point() tells the others through the
// key-value store, where a thread of each waits for that. On the notice every process hands in the last step it has
// asked about, and the one after the highest is the agreed one: nobody has passed it, since asking waits while the
// agreement runs, and everybody comes to it, since handing in does not wait for the program.
#pragma once

#include <cstdint>

namespace lockstep::distributed {

// As multihost_utils::reached_preemption_sync_point.
bool reached_preemption_sync_point(std::int64_t step);

// For initialize() and shutdown(). `signal` of 0: none is taken.
void begin_preemption(int signal);
void end_preemption();  // the client has been closed; waits for the thread

inline constexpr const char* preemption_notice = "lockstep/preemption/notice";  // and "/PROCESS" for each that got one

}  // namespace lockstep::distributed

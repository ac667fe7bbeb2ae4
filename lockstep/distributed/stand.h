// Where this process stands, in words, for whoever asks it by a signal (SIGQUIT) because it seems to hang.
#pragma once

#include <string>

namespace lockstep::distributed {

// What it is doing and since when, the collectives it waits in, and what every process of the gang last said of itself.
// The coordinator is asked for the latter, a few seconds at most.
std::string where_it_stands();

// For initialize() and shutdown(). The signal is taken only where it would have ended the process; 0: none. The report
// goes to standard error, from a thread that waits for the signal, so that it comes out whatever the program is doing.
void begin_stand_reports(int signal);
void end_stand_reports();

}  // namespace lockstep::distributed

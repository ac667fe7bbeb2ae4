// What a loaded library calls when it calls a function of another.
#pragma once

namespace lockstep::pjrt {

// From now on the library that holds the address `inside` calls `function` where its code calls `name` of another
// library; calls by everybody else stay as they are. False, and nothing is changed, if it imports no such function, the
// address lies in no library, or the machine's kind is none that we know (x86-64 and AArch64 with ELF).
bool redirect_import(const void* inside, const char* name, void* function);

}  // namespace lockstep::pjrt

#pragma once

#include <string>

namespace lockstep::distributed {

// The linker's build id, in hexadecimal, of the library or program that has something at this address; "" if it has
// none.
std::string build_id_at(const void* address);

}  // namespace lockstep::distributed

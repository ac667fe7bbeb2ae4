// Where this library lies, so that what is installed with it is found wherever the tree has been moved to.
#pragma once

#include <string>

namespace lockstep::support {

// The directory of the file that holds this code: liblockstep.so, or the program if it was linked in. Absolute,
// symbolic links resolved.
std::string library_directory();

// The directory of the PJRT plugins that come with the library, in an installed tree and in a build directory alike.
// Empty if there is none.
std::string bundled_plugin_directory();

}  // namespace lockstep::support

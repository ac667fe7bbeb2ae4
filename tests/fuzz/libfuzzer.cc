// The entry of libFuzzer; LOCKSTEP_FUZZ_TARGET names the target.
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "lockstep/support/log.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  lockstep::log::set_level(lockstep::log::Level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    lockstep::fuzz::LOCKSTEP_FUZZ_TARGET({data, size});
  } catch (const lockstep::fuzz::Finding& finding) {
    std::fprintf(stderr, "%s\n", finding.what());
    std::abort();
  }
  return 0;
}

// What of this machine's processor shows in compiled programs: each process compiles for its own, and with other vector
// instructions sums and contractions round in another order.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::runtime {

// Of /proc/cpuinfo's text: the features that XLA's CPU compiler uses, sorted, up to the one that --xla_cpu_max_isa in
// `xla_flags` allows. Empty if the text names none.
std::string cpu_features(std::string_view cpuinfo, std::string_view xla_flags);
std::string local_cpu_features();

}  // namespace lockstep::runtime

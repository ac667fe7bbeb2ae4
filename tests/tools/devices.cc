// Prints the default backend and the gang's devices; with an argument it then compiles a program over all of them.
#include <lockstep/lockstep.h>

#include <cstdio>

namespace ls = lockstep;

int main(int argc, char**) {
  try {
    ls::distributed::initialize();
    std::string line = ls::default_backend() + ":";
    for (const ls::Device& d : ls::devices()) line += " " + to_string(d);
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
    if (argc > 1) {
      auto mesh = ls::make_mesh({{"x", ls::device_count()}});
      ls::NamedSharding rows(mesh, ls::P("x"));
      auto f = ls::jit([&] { return ls::numpy::sum(ls::lax::with_sharding_constraint(ls::numpy::arange(8), rows)); });
      f.lower().compile();
    }
    ls::distributed::shutdown();
  } catch (const ls::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

// Pi in an MPI program: the ranks of MPI_COMM_WORLD become a gang, the sum runs over the devices of all of them, and
// MPI goes on to work beside it.
//
//   mpirun -n 4 build/release/examples/mpi_pi
#include <lockstep/lockstep.h>
#include <lockstep/mpi.h>

#include <cstdio>
namespace ls = lockstep;
namespace np = ls::numpy;
using ls::Array, ls::P;

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  ls::mpi::initialize(MPI_COMM_WORLD);
  {
    auto mesh = ls::make_mesh({{"slice", -1}});
    const int slices = 1 << 10, each = 1 << 10, n = slices * each;
    auto pi = ls::jit([=](Array slice) {  // the midpoint rule for 4 / (1 + x^2) on [0, 1]
      Array x = (slice.reshape({slices, 1}) * each + np::arange(each) + 0.5) / n;
      return np::sum(np::sum(4.0 / (1.0 + x * x), {.axis = 1})) / n;
    });
    Array slice = ls::device_put(np::arange(slices, ls::DType::float32), {mesh, P("slice")});
    double value = pi(slice).item<double>(), lowest = 0;
    MPI_Allreduce(&value, &lowest, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    if (ls::process_index() == 0)
      std::printf("pi is about %.5f, by %d processes with %d devices; %s\n", value, ls::process_count(),
                  ls::device_count(), lowest == value ? "all agree" : "they differ");
  }
  ls::distributed::shutdown();
  MPI_Finalize();
}

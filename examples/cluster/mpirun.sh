#!/bin/bash
# examples/cluster/mpirun.sh -n 4 -H node1:2,node2:2 PROGRAM ARGUMENT...
#
# mpirun starts the processes; each finds the others by what Open MPI (4, or 5 with PMIx) leaves in its environment. The
# program does not have to use MPI. mpirun has to be started on the host of rank 0 with Open MPI 4, since the address that
# it tells is its own; elsewhere say JAX_COORDINATOR_ADDRESS=HOST:PORT.
set -euo pipefail

# A secret of this run alone, passed on by mpirun's own connections.
LOCKSTEP_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export LOCKSTEP_TOKEN

forward=(-x LOCKSTEP_TOKEN)
for name in JAX_COORDINATOR_ADDRESS JAX_COORDINATOR_PORT JAX_NUM_CPU_DEVICES JAX_ENABLE_X64 LOCKSTEP_COLLECTIVE_TIMEOUT; do
  [[ -z ${!name:-} ]] || forward+=(-x "$name")
done
exec mpirun "${forward[@]}" "$@"

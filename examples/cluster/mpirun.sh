#!/bin/bash
# examples/cluster/mpirun.sh -n 4 -H node1:2,node2:2 PROGRAM ARGUMENT...
#
# mpirun starts the processes; each finds the others by what Open MPI (4, or 5 with PMIx) leaves in its environment. The
# program does not have to use MPI. mpirun has to be started on the host of rank 0, since the addresses that it tells are
# its own host's; elsewhere say JAX_COORDINATOR_ADDRESS=HOST:PORT, where HOST is rank 0's.
set -euo pipefail

# A secret of this run alone, passed on by mpirun's own connections.
LOCKSTEP_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export LOCKSTEP_TOKEN

# What says how the library works has to be the same on all hosts; the processes of this one have it anyway.
forward=()
for name in $(compgen -e); do
  case $name in
    JAX_PROCESS_ID | JAX_LOCAL_DEVICE_IDS) ;; # of one process
    JAX_* | LOCKSTEP_* | XLA_FLAGS | PJRT_NPROC | NPROC) forward+=(-x "$name") ;;
  esac
done
exec mpirun "${forward[@]}" "$@"

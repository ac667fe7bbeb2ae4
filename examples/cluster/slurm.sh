#!/bin/bash
# sbatch examples/cluster/slurm.sh PROGRAM ARGUMENT...
#
# One process per task. Each finds the others by what srun leaves in its environment: the first host of the step, a port
# made from the job's number, its own number and how many there are. The program needs no launcher and no arguments for it.
#SBATCH --job-name=lockstep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=4
#SBATCH --time=01:00:00
#SBATCH --requeue
# SIGTERM reaches every process two minutes before the end, in time to save (distributed::reached_preemption_sync_point).
#SBATCH --signal=TERM@120
set -euo pipefail
(($# > 0)) || {
  echo "usage: sbatch $0 PROGRAM ARGUMENT..." >&2
  exit 2
}

# A secret of this job alone: no other process can join, read or end the gang.
LOCKSTEP_TOKEN=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
export LOCKSTEP_TOKEN

# The threads of each process.
export PJRT_NPROC=${SLURM_CPUS_PER_TASK:-1}

# When a process has failed, the others find out within a second or the heartbeat time, say who it was, and end by
# themselves: srun must not end them before they have (--kill-on-bad-exit). --wait is for what hangs all the same; a program
# that works on alone for longer after shutdown() needs more.
exec srun --kill-on-bad-exit=0 --wait=60 "$@"

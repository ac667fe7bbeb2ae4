// jax.numpy. This is the index; each family has its header.
#pragma once

#include "lockstep/numpy/creation.h"
#include "lockstep/numpy/dtypes.h"
#include "lockstep/numpy/host.h"
#include "lockstep/numpy/index_tricks.h"
#include "lockstep/numpy/indexing.h"
#include "lockstep/numpy/linalg.h"
#include "lockstep/numpy/math.h"
#include "lockstep/numpy/printing.h"
#include "lockstep/numpy/reductions.h"
#include "lockstep/numpy/series.h"
#include "lockstep/numpy/shape.h"
#include "lockstep/numpy/sorting.h"

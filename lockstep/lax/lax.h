// jax.lax: the operations that programs are made of. They do not promote types and broadcast scalars only; numpy/ does
// both. This is the index; each family has its header in ops/.
#pragma once

#include "lockstep/lax/control_flow.h"
#include "lockstep/ops/collectives.h"
#include "lockstep/ops/conv.h"
#include "lockstep/ops/convert.h"
#include "lockstep/ops/cumulative.h"
#include "lockstep/ops/dot.h"
#include "lockstep/ops/elementwise.h"
#include "lockstep/ops/gather.h"
#include "lockstep/ops/identities.h"
#include "lockstep/ops/incomplete.h"
#include "lockstep/ops/reductions.h"
#include "lockstep/ops/select.h"
#include "lockstep/ops/sharding.h"
#include "lockstep/ops/sort.h"
#include "lockstep/ops/special.h"
#include "lockstep/ops/structural.h"
#include "lockstep/ops/window.h"

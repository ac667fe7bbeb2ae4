// Everything a user of lockstep includes.
#pragma once

#include "lockstep/api/autodiff.h"
#include "lockstep/api/custom_rules.h"
#include "lockstep/api/device_put.h"
#include "lockstep/api/jit.h"
#include "lockstep/api/make_jaxpr.h"
#include "lockstep/api/vmap.h"
#include "lockstep/distributed/initialize.h"
#include "lockstep/lax/control_flow.h"
#include "lockstep/lax/lax.h"
#include "lockstep/nn/nn.h"
#include "lockstep/numpy/numpy.h"
#include "lockstep/random/random.h"
#include "lockstep/runtime/devices.h"
#include "lockstep/sharding/sharding.h"
#include "lockstep/support/config.h"
#include "lockstep/support/error.h"

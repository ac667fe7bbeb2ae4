// For functions that are one equation of a program, as those of jax.numpy are that are jitted inside:
// jit[name=clip jaxpr=...]. Outside of programs they are compiled once for each signature.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <string>

#include "lockstep/trace/array.h"

namespace lockstep::numpy {

using JittedBody = std::function<Arrays(std::span<const Array>)>;
// Runs the body as a jit equation called `name`. It may depend only on its arguments and on what `key` tells apart.
Arrays jitted_many(const std::string& name, const std::string& key, std::span<const Array> args,
                   const JittedBody& body);
Array jitted(const std::string& name, const std::string& key, std::initializer_list<Array> args,
             const std::function<Array(std::span<const Array>)>& body);

// jax.numpy.where's equation: x where the condition holds (bool, or not zero), y elsewhere, promoted and broadcast.
Array select_where(const Array& condition, const Array& x, const Array& y);

}  // namespace lockstep::numpy
